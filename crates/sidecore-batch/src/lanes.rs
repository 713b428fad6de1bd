//! Units of the machine that multiply several numbers side by side, each modulo a number of its own.

#[cfg(target_arch = "x86_64")]
pub(crate) mod field;
#[cfg(target_arch = "x86_64")]
pub(crate) mod fma;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ifma;
#[cfg(target_arch = "x86_64")]
pub(crate) mod prime;

use zeroize::Zeroize;

use crate::MOST;
use crate::number::Radix;

/// Bits of an exponent that one multiplication covers.
pub(crate) const WINDOW: usize = 4;
/// Numbers that [`Unit::choose`] chooses from.
pub(crate) const POWERS: usize = 1 << WINDOW;

/// A modulus in each lane.
pub(crate) struct Modulus<D, const N: usize> {
    /// `n`, odd.
    pub(crate) value: [D; N],
    /// `-1/n` modulo `R`, which is one more than the largest number of `N` digits.
    pub(crate) inverse: [D; N],
}

/// Memory for the columns of a product, and for the columns of its reduction.
pub(crate) struct Work<D, C, const N: usize> {
    columns: [[C; N]; 2],
    quotient: [C; N],
    digits: [D; N],
}

impl<D: Copy, C: Copy, const N: usize> Work<D, C, N> {
    pub(crate) fn new((digit, column): (D, C)) -> Self {
        Self { columns: [[column; N]; 2], quotient: [column; N], digits: [digit; N] }
    }
}

impl<D: Zeroize, C: Zeroize, const N: usize> Zeroize for Work<D, C, N> {
    fn zeroize(&mut self) {
        self.columns.zeroize();
        self.quotient.zeroize();
        self.digits.zeroize();
    }
}

impl<D: Zeroize, const N: usize> Zeroize for Modulus<D, N> {
    fn zeroize(&mut self) {
        self.value.zeroize();
        self.inverse.zeroize();
    }
}

/// A unit that this machine has. Numbers are in Montgomery's form, up to four times their modulus; results are below
/// twice that. `R` is at least sixteen times a modulus.
pub(crate) trait Unit: Copy {
    /// Numbers that it multiplies side by side, at most [`MOST`].
    const LANES: usize;
    const RADIX: Radix;
    type Digit: Copy + Zeroize;
    /// A sum of products of digits in each lane.
    type Column: Copy + Zeroize;

    fn zero(self) -> (Self::Digit, Self::Column);

    /// Numbers side by side: the first [`Unit::LANES`] of these.
    fn load<const N: usize>(self, numbers: [&[u64]; MOST]) -> [Self::Digit; N];

    /// One lane's digits, which may have signs.
    fn lane<const N: usize>(self, number: &[Self::Digit; N], lane: usize, digits: &mut [i64]);

    /// `x²/R`.
    fn square<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    );

    /// `x y/R`.
    fn multiply<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        y: &[Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    );

    /// `x/R`: out of Montgomery's form.
    fn divide<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    );

    /// `x + y`, not reduced.
    fn sum<const N: usize>(self, x: &mut [Self::Digit; N], y: &[Self::Digit; N]);

    /// Takes one of the powers in each lane, and reads all of them, so that no address depends on the choice.
    fn choose<const N: usize>(
        self,
        chosen: &mut [Self::Digit; N],
        powers: &[[Self::Digit; N]; POWERS],
        indices: [u8; MOST],
    );
}
