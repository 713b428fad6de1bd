//! Units as values that exist only where the machine has them: calls into code for their instructions are sound then.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_storeu_si128, _mm256_loadu_si256, _mm256_storeu_si256,
};

#[cfg(target_arch = "x86_64")]
use crate::MOST;
#[cfg(target_arch = "x86_64")]
use crate::cbc::{BLOCK, Job, fours, single, streams};
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

/// Four lanes of doubles: AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fma(());

/// Eight lanes of 52 bits: AVX-512 with IFMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ifma(());

/// The instructions of AES.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aes(());

/// The same for four blocks each: VAES with AVX-512.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vaes(());

/// The instructions of SHA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sha(());

impl Sha {
    /// Where this machine has it.
    pub(crate) fn here() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("avx") {
            return Some(Self(()));
        }
        None
    }
}

/// Eight lanes of 32 bits: AVX-512 on registers of 256 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes(());

impl Lanes {
    /// Where this machine has it.
    pub(crate) fn here() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            return Some(Self(()));
        }
        None
    }
}

impl Vaes {
    /// Where this machine has it.
    pub(crate) fn here() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx512f") {
            return Some(Self(()));
        }
        None
    }
}

impl Aes {
    /// Where this machine has it.
    pub(crate) fn here() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx") {
            return Some(Self(()));
        }
        None
    }
}

impl Fma {
    /// Where this machine has it.
    pub(crate) fn here() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Some(Self(()));
        }
        None
    }
}

impl Ifma {
    /// Where this machine has it.
    pub(crate) fn here() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma") {
            return Some(Self(()));
        }
        None
    }
}

/// Each byte of a word through the S-box of AES.
#[cfg(target_arch = "x86_64")]
pub(crate) fn substitute(_: Aes, word: u32) -> u32 {
    // SAFETY: a value of that type is only made where the machine has the features.
    unsafe { streams::substitute(word) }
}

/// Encrypts messages whose keys have so many rounds.
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

/// So many blocks of messages, by the instructions of SHA.
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

/// Four words in a register, the first lowest.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn load_four(words: &[u32; 4]) -> __m128i {
    // SAFETY: the words are readable for their length, and need not be aligned.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

/// The words of a register.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn store_four(register: __m128i) -> [u32; 4] {
    let mut words = [0; 4];
    // SAFETY: the words are writable for their length, and need not be aligned.
    unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), register) }
    words
}

/// Eight words in a register.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline]
pub(crate) fn load_eight(words: &[u32; 8]) -> __m256i {
    // SAFETY: as for four.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// As [`load_eight`], of bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline]
pub(crate) fn load_bytes(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: as for four.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The words of a register.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline]
pub(crate) fn store_eight(register: __m256i) -> [u32; 8] {
    let mut words = [0; 8];
    // SAFETY: as for four.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), register) }
    words
}

/// A block in a register.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn load(block: &[u8; BLOCK]) -> __m128i {
    // SAFETY: the block is readable for its length, and need not be aligned.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

/// A block in memory.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn store(state: __m128i, block: &mut [u8; BLOCK]) {
    // SAFETY: the block is writable for its length, and need not be aligned.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), state) }
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
/// All as they are. What is computed from the last two stands after what the first is computed from, in the order of the
/// machine's instructions: the compiler's own order follows what needs fewest registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn in_order(mut first: __m512i, [mut one, mut two]: [__m512i; 2]) -> (__m512i, [__m512i; 2]) {
    // SAFETY: it has no instruction, so it changes nothing.
    unsafe {
        asm!(
            "/* {0} {1} {2} */",
            inout(zmm_reg) first,
            inout(zmm_reg) one,
            inout(zmm_reg) two,
            options(nomem, nostack, preserves_flags)
        );
    }
    (first, [one, two])
}
