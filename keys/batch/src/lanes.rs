//! Numbers side by side, each modulo a number of its own.

pub(crate) mod ifma;
pub(crate) mod prime;

use std::arch::x86_64::__m512i;

use zeroize::Zeroize;

pub(crate) type Digit = __m512i;

/// Bits of an exponent that one multiplication covers.
pub(crate) const WINDOW: usize = 4;
pub(crate) const POWERS: usize = 1 << WINDOW;

pub(crate) struct Modulus<const N: usize> {
    /// `n`, odd.
    pub(crate) value: [Digit; N],
    /// `-1/n` modulo `R`, which is what `N` digits can hold and one.
    pub(crate) inverse: [Digit; N],
}

pub(crate) struct Work<const N: usize> {
    columns: [[Digit; N]; 2],
}

impl<const N: usize> Work<N> {
    pub(crate) fn new(digit: Digit) -> Self {
        Self { columns: [[digit; N]; 2] }
    }
}

impl<const N: usize> Zeroize for Work<N> {
    fn zeroize(&mut self) {
        self.columns.zeroize();
    }
}

impl<const N: usize> Zeroize for Modulus<N> {
    fn zeroize(&mut self) {
        self.value.zeroize();
        self.inverse.zeroize();
    }
}
