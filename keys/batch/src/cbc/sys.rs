//! Calls into code for the units' instructions.

use super::job::Job;
use super::{fours, single};
use crate::sys::{Aes, Vaes};

pub(super) fn encrypt(_: Aes, rounds: usize, jobs: &mut [Job<'_>]) {
    // SAFETY: a value of that type is only made where the machine has the features.
    unsafe { single::encrypt(rounds, jobs) }
}

pub(super) fn encrypt_fours(_: Vaes, rounds: usize, jobs: &mut [Job<'_>]) {
    // SAFETY: as above.
    unsafe { fours::encrypt(rounds, jobs) }
}
