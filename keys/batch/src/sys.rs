//! Units as values that exist only where the machine has them: calls into code for their instructions are sound then.

#[cfg(target_arch = "x86_64")]
pub(crate) mod registers;
#[cfg(test)]
pub(crate) mod residue;

#[cfg(target_arch = "x86_64")]
use crate::MOST;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Digit, Modulus, POWERS, Work, ifma};
#[cfg(target_arch = "x86_64")]
use crate::p256::signing::{self, Input};

macro_rules! units {
    ($($(#[$doc:meta])* $name:ident: [$($feature:tt)*];)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub(crate) struct $name(());

            impl $name {
                pub(crate) fn here() -> Option<Self> {
                    #[cfg(target_arch = "x86_64")]
                    if [$(is_x86_feature_detected!($feature)),*].into_iter().all(|has| has) {
                        return Some(Self(()));
                    }
                    None
                }
            }
        )*
    };
}

units! {
    /// Eight lanes of 52 bits: AVX-512 with IFMA.
    Ifma: ["avx512f" "avx512ifma"];
    Aes: ["aes" "avx"];
    /// Four blocks in each instruction: VAES with AVX-512.
    Vaes: ["avx512f" "vaes"];
}

/// Each byte of a word through the S-box of AES: the last round on four equal columns, which its rotation of rows leaves
/// as they are.
#[cfg(target_arch = "x86_64")]
pub(crate) fn substitute(_: Aes, word: u32) -> u32 {
    use std::arch::x86_64::{_mm_aesenclast_si128, _mm_cvtsi128_si32, _mm_set1_epi32, _mm_setzero_si128};

    #[target_feature(enable = "aes,avx")]
    fn by_last_round(word: u32) -> u32 {
        let columns = _mm_aesenclast_si128(_mm_set1_epi32(word.cast_signed()), _mm_setzero_si128());
        _mm_cvtsi128_si32(columns).cast_unsigned()
    }
    // SAFETY: a value of that type is only made where the machine has the features.
    unsafe { by_last_round(word) }
}

/// For other architectures, where no unit has a value, so that no call exists.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn substitute(_: Aes, word: u32) -> u32 {
    word
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn sign(_: Ifma, inputs: &[Input; MOST]) -> [signing::Outcome; MOST] {
    // SAFETY: as above.
    unsafe { signing::sign(inputs) }
}

/// As [`sign`], with a fault of the machine between its steps.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn sign_with(_: Ifma, inputs: &[Input; MOST], fault: signing::faults::Fault) -> [signing::Outcome; MOST] {
    // SAFETY: as above.
    unsafe { signing::faults::sign(inputs, fault) }
}

#[cfg(target_arch = "x86_64")]
#[expect(clippy::unused_self, reason = "a value of this type proves that the machine has the features")]
impl Ifma {
    pub(crate) fn zero(self) -> Digit {
        // SAFETY: as above.
        unsafe { ifma::zero() }
    }

    pub(crate) fn load<const N: usize>(self, numbers: [&[u64]; MOST]) -> [Digit; N] {
        // SAFETY: as above.
        unsafe { ifma::load(numbers) }
    }

    pub(crate) fn lane<const N: usize>(self, number: &[Digit; N], lane: usize, digits: &mut [i64]) {
        // SAFETY: as above.
        unsafe { ifma::lane(number, lane, digits) }
    }

    pub(crate) fn square<const N: usize>(self, x: &mut [Digit; N], modulus: &Modulus<N>, work: &mut Work<N>) {
        // SAFETY: as above.
        unsafe { ifma::square(x, modulus, work) }
    }

    pub(crate) fn multiply<const N: usize>(
        self,
        x: &mut [Digit; N],
        y: &[Digit; N],
        modulus: &Modulus<N>,
        work: &mut Work<N>,
    ) {
        // SAFETY: as above.
        unsafe { ifma::multiply(x, y, modulus, work) }
    }

    pub(crate) fn divide<const N: usize>(self, x: &mut [Digit; N], modulus: &Modulus<N>, work: &mut Work<N>) {
        // SAFETY: as above.
        unsafe { ifma::divide(x, modulus, work) }
    }

    pub(crate) fn sum<const N: usize>(self, x: &mut [Digit; N], y: &[Digit; N]) {
        // SAFETY: as above.
        unsafe { ifma::sum(x, y) }
    }

    /// Takes one of the powers in each lane, and reads all of them.
    pub(crate) fn choose<const N: usize>(
        self,
        chosen: &mut [Digit; N],
        powers: &[[Digit; N]; POWERS],
        indices: [u8; MOST],
    ) {
        // SAFETY: as above.
        unsafe { ifma::choose(chosen, powers, indices) }
    }
}
