//! The private operation of RSA, of several keys side by side.
//!
//! Each operation takes two lanes, one for each prime (Chinese remainder theorem), so two operations fill a vector. A
//! result is released only after the public exponent led back from it to the input: a wrong one would reveal the
//! primes (D. Boneh and others, 1997).

#[cfg(target_arch = "x86_64")]
mod private;

use zeroize::{Zeroize, Zeroizing};

use crate::MOST;
use crate::number::{Digits, Radix};
use crate::sys::Ifma;

/// The public exponent that keys must have; others are rare.
pub const EXPONENT: u64 = 65_537;
/// Lengths of a modulus, in bits.
pub const MODULI: [usize; 4] = [1024, 2048, 3072, 4096];

/// A private key's numbers, big-endian.
pub struct Parts<'a> {
    /// `n = p q`.
    pub modulus: &'a [u8],
    /// `p` and `q`, of half the modulus's length each.
    pub primes: [&'a [u8]; 2],
    /// The private exponent modulo `p - 1` and `q - 1`.
    pub exponents: [&'a [u8]; 2],
    /// `1/q` modulo `p`.
    pub coefficient: &'a [u8],
}

const RADIX: Radix = Radix(52);

/// Digits for numbers of that length in bytes, with bits to spare: a multiple of five.
fn digits_of(bytes: usize) -> usize {
    (bytes * 8).div_ceil(RADIX.0 * 5) * 5
}

/// A private key, made ready.
pub struct Key {
    /// Length of the modulus, in bytes.
    len: usize,
    modulus: Modulus,
    primes: [Modulus; 2],
    /// Big-endian, padded to half the modulus.
    exponents: [Zeroizing<Vec<u8>>; 2],
    /// `R/q` modulo `p`.
    coefficient: Digits,
}

struct Modulus {
    digits: Digits,
    /// `-1/n` modulo `R`.
    inverse: Digits,
    /// `R²` modulo `n`: leads into Montgomery's form.
    square: Digits,
}

/// One private operation.
pub struct Job<'a> {
    /// The key of the operation.
    pub key: &'a Key,
    /// A number below the modulus, big-endian, of its length.
    pub input: &'a [u8],
    /// Has the modulus's length. All zero unless `good`.
    pub output: &'a mut [u8],
    /// After the call: the result exists and was checked.
    pub good: bool,
}

impl Key {
    /// Prepares a key. `None` where the CPU has no AVX-512-IFMA, for lengths other than [`MODULI`] and for malformed
    /// numbers. Inconsistent numbers show only in the check of a result.
    pub fn new(parts: &Parts<'_>) -> Option<Self> {
        let len = parts.modulus.len();
        let halves = parts.primes.iter().chain(&parts.exponents).chain([&parts.coefficient]);
        let is_odd = |number: &[u8]| number.last().is_some_and(|last| last & 1 == 1);
        let is_full = |number: &[u8]| number.first().is_some_and(|first| *first >= 0x80);
        let fits = MODULI.contains(&(len * 8)) && halves.into_iter().all(|half| half.len() == len / 2);
        if !is_here()
            || !fits
            || ![parts.modulus, parts.primes[0], parts.primes[1]].iter().all(|number| is_odd(number) && is_full(number))
        {
            return None;
        }
        let primes = parts.primes.map(Modulus::new);
        let count = primes[0].digits.len();
        let mut coefficient = RADIX.of_bytes(parts.coefficient, count);
        RADIX.double(&mut coefficient, count * RADIX.0, &primes[0].digits);
        Some(Self {
            len,
            modulus: Modulus::new(parts.modulus),
            primes,
            exponents: parts.exponents.map(|exponent| Zeroizing::new(exponent.to_vec())),
            coefficient,
        })
    }

    /// Length of the modulus, in bytes.
    pub fn modulus_len(&self) -> usize {
        self.len
    }
}

impl Modulus {
    fn new(bytes: &[u8]) -> Self {
        let digits = RADIX.of_bytes(bytes, digits_of(bytes.len()));
        let inverse = RADIX.negative_inverse(&digits);
        let square = RADIX.square_of_range(&digits, &inverse, bytes.len() * 8);
        Self { digits, inverse, square }
    }
}

/// Whether this machine can do [`private`].
pub fn is_here() -> bool {
    Ifma::here().is_some()
}

/// Does up to [`MOST`] jobs side by side; all keys have the same length. `false`: this machine cannot, or the jobs do
/// not fit together; none is good then.
pub fn private(jobs: &mut [Job<'_>]) -> bool {
    for job in jobs.iter_mut() {
        job.good = false;
        job.output.zeroize();
    }
    let Some(len) = jobs.first().map(|job| job.key.len) else { return true };
    let fits = |job: &Job<'_>| [job.key.len, job.input.len(), job.output.len()].iter().all(|found| *found == len);
    let Some(unit) = Ifma::here().filter(|_| jobs.len() <= MOST && jobs.iter().all(fits)) else { return false };
    powers(unit, len * 8, jobs);
    true
}

#[cfg(target_arch = "x86_64")]
fn powers(unit: Ifma, bits: usize, jobs: &mut [Job<'_>]) {
    match bits {
        1024 => private::all::<10, 20>(unit, jobs),
        2048 => private::all::<20, 40>(unit, jobs),
        3072 => private::all::<30, 60>(unit, jobs),
        _ => private::all::<40, 80>(unit, jobs),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn powers(_: Ifma, _: usize, _: &mut [Job<'_>]) {}
