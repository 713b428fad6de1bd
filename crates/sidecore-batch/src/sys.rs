//! Units as values that exist only where the machine has them: calls into code for their instructions are sound then.

#[cfg(target_arch = "x86_64")]
pub(crate) mod registers;
#[cfg(test)]
pub(crate) mod residue;

#[cfg(target_arch = "x86_64")]
use crate::MOST;
#[cfg(target_arch = "x86_64")]
use crate::cbc::{Job, fours, single, streams};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Modulus, POWERS, Unit, Work, fma, ifma};
#[cfg(target_arch = "x86_64")]
use crate::number::Radix;
#[cfg(target_arch = "x86_64")]
use crate::p256::signing::{self, Input};
#[cfg(target_arch = "x86_64")]
use crate::sha256::{Stream, instructions, lanes};
#[cfg(target_arch = "x86_64")]
use crate::x25519::ladder::{self, Digits, Outcome, Scalar};

/// Defines units, which have values only where the machine has all of their features.
macro_rules! units {
    ($($(#[$doc:meta])* $name:ident: [$($feature:tt)*];)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub(crate) struct $name(());

            impl $name {
                /// A value, if this machine has the unit.
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
    /// Four lanes of doubles: AVX2 and FMA.
    Fma: ["avx2" "fma"];
    /// Eight lanes of 52 bits: AVX-512 with IFMA.
    Ifma: ["avx512f" "avx512ifma"];
    /// The instructions of AES.
    Aes: ["aes" "avx"];
    /// The same for four blocks each: VAES with AVX-512.
    Vaes: ["avx512f" "vaes"];
    /// The instructions of SHA.
    Sha: ["sha" "sse4.1" "avx"];
    /// Eight lanes of 32 bits: AVX-512 on registers of 256 bits.
    Lanes: ["avx512f" "avx512vl"];
}

/// Each byte of a word through the S-box of AES.
#[cfg(target_arch = "x86_64")]
pub(crate) fn substitute(_: Aes, word: u32) -> u32 {
    // SAFETY: a value of that type is only made where the machine has the features.
    unsafe { streams::substitute(word) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn encrypt(_: Aes, rounds: usize, jobs: &mut [Job<'_>]) {
    // SAFETY: as above.
    unsafe { single::encrypt(rounds, jobs) }
}

/// As [`encrypt`].
#[cfg(target_arch = "x86_64")]
pub(crate) fn encrypt_fours(_: Vaes, rounds: usize, jobs: &mut [Job<'_>]) {
    // SAFETY: as above.
    unsafe { fours::encrypt(rounds, jobs) }
}

/// Compresses `blocks` blocks of messages, by the instructions of SHA.
#[cfg(target_arch = "x86_64")]
pub(crate) fn compress(_: Sha, streams: &mut [Stream<'_>], blocks: usize) {
    // SAFETY: as above.
    unsafe { instructions::compress(streams, blocks) }
}

/// As [`compress`], in lanes.
#[cfg(target_arch = "x86_64")]
pub(crate) fn compress_lanes(_: Lanes, streams: &mut [Stream<'_>], blocks: usize) {
    // SAFETY: as above.
    unsafe { lanes::compress(streams, blocks) }
}

/// Scalars times points of Curve25519.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ladder(_: Ifma, scalars: &[Scalar; MOST], points: &[Digits; MOST], disturbed: u8) -> [Outcome; MOST] {
    // SAFETY: as above.
    unsafe { ladder::ladder(scalars, points, disturbed) }
}

/// Signatures on P-256.
#[cfg(target_arch = "x86_64")]
pub(crate) fn sign(_: Ifma, inputs: &[Input; MOST], disturbed: u8) -> [signing::Outcome; MOST] {
    // SAFETY: as above.
    unsafe { signing::sign(inputs, disturbed) }
}

#[cfg(target_arch = "x86_64")]
impl Unit for Fma {
    const LANES: usize = 4;
    const RADIX: Radix = fma::RADIX;
    type Digit = fma::Digit;
    type Column = fma::Column;

    fn zero(self) -> (Self::Digit, Self::Column) {
        // SAFETY: a value of this type is only made where the machine has the features.
        unsafe { fma::zero() }
    }

    fn load<const N: usize>(self, numbers: [&[u64]; MOST]) -> [Self::Digit; N] {
        // SAFETY: as above.
        unsafe { fma::load(numbers) }
    }

    fn lane<const N: usize>(self, number: &[Self::Digit; N], lane: usize, digits: &mut [i64]) {
        // SAFETY: as above.
        unsafe { fma::lane(number, lane, digits) }
    }

    fn square<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    ) {
        // SAFETY: as above.
        unsafe { fma::square(x, modulus, work) }
    }

    fn multiply<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        y: &[Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    ) {
        // SAFETY: as above.
        unsafe { fma::multiply(x, y, modulus, work) }
    }

    fn divide<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    ) {
        // SAFETY: as above.
        unsafe { fma::divide(x, modulus, work) }
    }

    fn sum<const N: usize>(self, x: &mut [Self::Digit; N], y: &[Self::Digit; N]) {
        // SAFETY: as above.
        unsafe { fma::sum(x, y) }
    }

    fn choose<const N: usize>(
        self,
        chosen: &mut [Self::Digit; N],
        powers: &[[Self::Digit; N]; POWERS],
        indices: [u8; MOST],
    ) {
        // SAFETY: as above.
        unsafe { fma::choose(chosen, powers, indices) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Unit for Ifma {
    const LANES: usize = 8;
    const RADIX: Radix = ifma::RADIX;
    type Digit = ifma::Digit;
    type Column = ifma::Column;

    fn zero(self) -> (Self::Digit, Self::Column) {
        // SAFETY: a value of this type is only made where the machine has the features.
        unsafe { ifma::zero() }
    }

    fn load<const N: usize>(self, numbers: [&[u64]; MOST]) -> [Self::Digit; N] {
        // SAFETY: as above.
        unsafe { ifma::load(numbers) }
    }

    fn lane<const N: usize>(self, number: &[Self::Digit; N], lane: usize, digits: &mut [i64]) {
        // SAFETY: as above.
        unsafe { ifma::lane(number, lane, digits) }
    }

    fn square<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    ) {
        // SAFETY: as above.
        unsafe { ifma::square(x, modulus, work) }
    }

    fn multiply<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        y: &[Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    ) {
        // SAFETY: as above.
        unsafe { ifma::multiply(x, y, modulus, work) }
    }

    fn divide<const N: usize>(
        self,
        x: &mut [Self::Digit; N],
        modulus: &Modulus<Self::Digit, N>,
        work: &mut Work<Self::Digit, Self::Column, N>,
    ) {
        // SAFETY: as above.
        unsafe { ifma::divide(x, modulus, work) }
    }

    fn sum<const N: usize>(self, x: &mut [Self::Digit; N], y: &[Self::Digit; N]) {
        // SAFETY: as above.
        unsafe { ifma::sum(x, y) }
    }

    fn choose<const N: usize>(
        self,
        chosen: &mut [Self::Digit; N],
        powers: &[[Self::Digit; N]; POWERS],
        indices: [u8; MOST],
    ) {
        // SAFETY: as above.
        unsafe { ifma::choose(chosen, powers, indices) }
    }
}
