//! Encryption by AES in CBC mode, of several messages side by side, each with its own key.
//!
//! Within one message each block waits for the one before it, so a core's AES unit stands idle most of the time;
//! another message does not wait. Decryption is not included: its blocks do not wait for each other.

#[cfg(target_arch = "x86_64")]
mod fours;
mod job;
#[cfg(target_arch = "x86_64")]
mod single;
#[cfg(target_arch = "x86_64")]
mod streams;
#[cfg(target_arch = "x86_64")]
mod sys;

pub use job::{BLOCK, Job, KEYS, Key};

use crate::MOST;
use crate::stack::wiped;
use crate::sys::{Aes, Vaes};
#[cfg(not(target_arch = "x86_64"))]
use elsewhere as sys;

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
    pub(super) fn encrypt(_: super::Aes, _: usize, _: &mut [super::Job<'_>]) {}

    pub(super) fn encrypt_fours(_: super::Vaes, _: usize, _: &mut [super::Job<'_>]) {}
}
