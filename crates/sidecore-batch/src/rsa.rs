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
use crate::sys::{Fma, Ifma};

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

/// A unit that multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Fused operations on four doubles: two private operations fill it. AVX2 and FMA.
    Fma,
    /// Multiplications of eight numbers of 52 bits: four private operations fill it. AVX-512 with IFMA.
    Ifma,
}

impl Unit {
    /// All, the fastest first.
    pub const ALL: [Self; 2] = [Self::Ifma, Self::Fma];

    /// Whether this machine has it.
    pub fn is_here(self) -> bool {
        match self {
            Self::Fma => Fma::here().is_some(),
            Self::Ifma => Ifma::here().is_some(),
        }
    }

    /// The fastest unit of this machine.
    pub fn best() -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.is_here())
    }

    fn radix(self) -> Radix {
        Radix(if self == Self::Fma { 51 } else { 52 })
    }

    /// Digits of numbers of this many bytes, with bits to spare: a multiple of five, and one more for doubles.
    fn digits_of(self, bytes: usize) -> usize {
        let (bits, five) = (bytes * 8, self.radix().0 * 5);
        match self {
            Self::Fma => bits / five * 5 + 1,
            Self::Ifma => bits.div_ceil(five) * 5,
        }
    }
}

/// A private key, made ready.
pub struct Key {
    unit: Unit,
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
    /// For tests: a bit of one prime's power is flipped, like a fault of the machine.
    pub disturb: bool,
}

impl Key {
    /// Prepares a key for the fastest unit of this machine. `None` where it has none, for lengths other than
    /// [`MODULI`] and for malformed numbers. Inconsistent numbers show only in the check of a result.
    pub fn new(parts: &Parts<'_>) -> Option<Self> {
        Self::of_unit(parts, Unit::best()?)
    }

    /// As [`new`](Self::new), for that unit. `None` for lengths other than [`MODULI`] and for malformed numbers.
    /// Inconsistent numbers show only in the check of a result.
    pub fn of_unit(parts: &Parts<'_>, unit: Unit) -> Option<Self> {
        let len = parts.modulus.len();
        let halves = parts.primes.iter().chain(&parts.exponents).chain([&parts.coefficient]);
        let is_odd = |number: &[u8]| number.last().is_some_and(|last| last & 1 == 1);
        let is_full = |number: &[u8]| number.first().is_some_and(|first| *first >= 0x80);
        let fits = MODULI.contains(&(len * 8)) && halves.into_iter().all(|half| half.len() == len / 2);
        if !fits
            || ![parts.modulus, parts.primes[0], parts.primes[1]].iter().all(|number| is_odd(number) && is_full(number))
        {
            return None;
        }
        let primes = parts.primes.map(|prime| Modulus::new(prime, unit));
        let (count, radix) = (primes[0].digits.len(), unit.radix());
        let mut coefficient = radix.of_bytes(parts.coefficient, count);
        radix.double(&mut coefficient, count * radix.0, &primes[0].digits);
        Some(Self {
            unit,
            len,
            modulus: Modulus::new(parts.modulus, unit),
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
    fn new(bytes: &[u8], unit: Unit) -> Self {
        let (count, radix) = (unit.digits_of(bytes.len()), unit.radix());
        let digits = radix.of_bytes(bytes, count);
        let inverse = radix.negative_inverse(&digits);
        let square = radix.square_of_range(&digits, &inverse, bytes.len() * 8);
        Self { digits, inverse, square }
    }
}

/// Whether this machine can do [`private`].
pub fn is_here() -> bool {
    Unit::best().is_some()
}

/// Does up to [`MOST`] jobs side by side; all keys have the same length. `false`: this machine cannot, or the jobs do
/// not fit together; none is good then.
pub fn private(jobs: &mut [Job<'_>]) -> bool {
    for job in jobs.iter_mut() {
        job.good = false;
        job.output.zeroize();
    }
    let Some((len, unit)) = jobs.first().map(|job| (job.key.len, job.key.unit)) else { return true };
    let fits = |job: &Job<'_>| {
        job.key.unit == unit && [job.key.len, job.input.len(), job.output.len()].iter().all(|found| *found == len)
    };
    jobs.len() <= MOST && jobs.iter().all(fits) && by_unit(unit, jobs)
}

/// `false`: there is none.
#[cfg(target_arch = "x86_64")]
fn by_unit(unit: Unit, jobs: &mut [Job<'_>]) -> bool {
    let bits = jobs.first().map_or(0, |job| job.key.len * 8);
    match (unit, Fma::here(), Ifma::here()) {
        (Unit::Fma, Some(fma), _) => match bits {
            1024 => private::all::<_, 11, 21>(fma, jobs),
            2048 => private::all::<_, 21, 41>(fma, jobs),
            3072 => private::all::<_, 31, 61>(fma, jobs),
            _ => private::all::<_, 41, 81>(fma, jobs),
        },
        (Unit::Ifma, _, Some(ifma)) => match bits {
            1024 => private::all::<_, 10, 20>(ifma, jobs),
            2048 => private::all::<_, 20, 40>(ifma, jobs),
            3072 => private::all::<_, 30, 60>(ifma, jobs),
            _ => private::all::<_, 40, 80>(ifma, jobs),
        },
        _ => return false,
    }
    true
}

/// `false`: there is none.
#[cfg(not(target_arch = "x86_64"))]
fn by_unit(_: Unit, _: &mut [Job<'_>]) -> bool {
    false
}
