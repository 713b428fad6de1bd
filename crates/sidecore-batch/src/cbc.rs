//! Encryption by AES in CBC mode, of several messages side by side, each with its own key.
//!
//! Within one message each block waits for the one before it, so a core's AES unit stands idle most of the time;
//! another message does not wait. Decryption is not included: its blocks do not wait for each other.

#[cfg(target_arch = "x86_64")]
pub(crate) mod fours;
#[cfg(target_arch = "x86_64")]
pub(crate) mod single;
#[cfg(target_arch = "x86_64")]
pub(crate) mod streams;

use zeroize::Zeroizing;

use crate::MOST;
use crate::stack::wiped;
#[cfg(target_arch = "x86_64")]
use crate::sys;
use crate::sys::{Aes, Vaes};
#[cfg(not(target_arch = "x86_64"))]
use elsewhere as sys;

/// Bytes of a block.
pub const BLOCK: usize = 16;
/// Lengths of a key, in bytes.
pub const KEYS: [usize; 2] = [16, 32];

/// Words of the longest key schedule: those of 15 rounds.
const WORDS: usize = 60;

/// A unit that encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Instructions that do one block each.
    Single,
    /// Instructions that do four blocks each: VAES with AVX-512.
    Fours,
}

impl Unit {
    /// All, the fastest first.
    pub const ALL: [Self; 2] = [Self::Fours, Self::Single];

    /// Whether this machine has it.
    pub fn is_here(self) -> bool {
        match self {
            Self::Single => Aes::here().is_some(),
            Self::Fours => Vaes::here().is_some(),
        }
    }

    /// The fastest unit of this machine.
    pub fn best() -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.is_here())
    }
}

/// A key, made ready.
pub struct Key {
    /// One word for each column of a round's key, in its byte order in memory.
    schedule: Box<Zeroizing<[u32; WORDS]>>,
    /// Number of round keys: rounds plus one.
    rounds: usize,
}

/// One message.
pub struct Job<'a> {
    /// All keys of a call have the same length.
    pub key: &'a Key,
    /// The initialisation vector.
    pub vector: &'a [u8; BLOCK],
    /// Whole blocks.
    pub input: &'a [u8],
    /// Has the input's length.
    pub output: &'a mut [u8],
}

impl Key {
    /// Makes a key ready. `None` for lengths other than [`KEYS`], and where this machine has no AES instructions.
    pub fn new(key: &[u8]) -> Option<Self> {
        let unit = Aes::here().filter(|_| KEYS.contains(&key.len()))?;
        Some(wiped(|| Self::scheduled(unit, key)))
    }

    fn scheduled(unit: Aes, key: &[u8]) -> Self {
        let mut schedule = Box::new(Zeroizing::new([0; WORDS]));
        let (words, rounds) = (key.len() / 4, key.len() / 4 + 7);
        for (word, bytes) in schedule.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        // FIPS 197, section 5.2.
        let mut constants = std::iter::successors(Some(1), |constant| Some(twice(*constant)));
        for at in words..4 * rounds {
            let before = schedule[at - 1];
            let mixed = match at % words {
                0 => sys::substitute(unit, before.rotate_right(8)) ^ constants.next().unwrap_or(0),
                4 if words == 8 => sys::substitute(unit, before),
                _ => before,
            };
            schedule[at] = schedule[at - words] ^ mixed;
        }
        Self { schedule, rounds }
    }

    /// The round keys' bytes in memory.
    #[cfg(test)]
    pub(crate) fn round_keys(&self) -> Vec<Vec<u8>> {
        let of_round = |words: &[u32; 4]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.schedule.as_chunks().0[..self.rounds].iter().map(of_round).collect()
    }
}

/// Doubles a number in the field of AES.
fn twice(x: u32) -> u32 {
    (x << 1) ^ ((x >> 7) * 0x11b)
}

/// Whether this machine can do [`encrypt`].
pub fn is_here() -> bool {
    Aes::here().is_some()
}

/// Encrypts up to [`MOST`] messages side by side, whose lengths may differ. `false`: this machine cannot, or the jobs
/// do not fit together; nothing is done then.
pub fn encrypt(jobs: &mut [Job<'_>]) -> bool {
    Unit::best().is_some_and(|unit| encrypt_by(unit, jobs))
}

/// As [`encrypt`], by the given unit.
pub fn encrypt_by(unit: Unit, jobs: &mut [Job<'_>]) -> bool {
    let Some(rounds) = jobs.first().map(|job| job.key.rounds) else { return true };
    let fits = |job: &Job<'_>| {
        job.key.rounds == rounds && job.input.len().is_multiple_of(BLOCK) && job.input.len() == job.output.len()
    };
    if jobs.len() > MOST || !jobs.iter().all(fits) {
        return false;
    }
    wiped(|| match unit {
        Unit::Single => Aes::here().map(|unit| sys::encrypt(unit, rounds, jobs)).is_some(),
        Unit::Fours => Vaes::here().map(|unit| sys::encrypt_fours(unit, rounds, jobs)).is_some(),
    })
}

/// Stubs for other architectures, where no unit has a value, so that no call exists.
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    pub(super) fn substitute(_: super::Aes, word: u32) -> u32 {
        word
    }

    pub(super) fn encrypt(_: super::Aes, _: usize, _: &mut [super::Job<'_>]) {}

    pub(super) fn encrypt_fours(_: super::Vaes, _: usize, _: &mut [super::Job<'_>]) {}
}
