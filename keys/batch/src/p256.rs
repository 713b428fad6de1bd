//! Signatures by ECDSA on P-256 (FIPS 186-5), of several keys side by side: a lane for each.
//!
//! A signature is released only after two tests. Its point, with the `r` of the signature, must lie on the curve, and
//! `s k = z + r d` must hold, with both sides computed again. A fault during the additions of points leaves the curve
//! but for a negligible chance; one modulo the group's order breaks the equation.
//!
//! The tests do not find these faults: a point of the table that is another point of the curve, a digit of the nonce
//! that is misread or gets the wrong sign, a key or nonce that was wrong before. Such a signature does not verify. An
//! observer of one with a wrong digit can find that digit; a key could be computed from the digits of very many. Only
//! a verification of the signature would find these faults as well, at several times the work of making it. AWS-LC,
//! which would sign instead, tests neither.

#[cfg(target_arch = "x86_64")]
mod curve;
#[cfg(target_arch = "x86_64")]
pub(crate) mod signing;
#[cfg(target_arch = "x86_64")]
mod table;

use zeroize::Zeroize;

use crate::MOST;
use crate::number::Radix;
use crate::stack::wiped;
use crate::sys::Ifma;

const BITS: usize = 52;
const DIGITS: usize = 5;

/// Length of a private key and of a nonce, in bytes.
pub const LEN: usize = 32;
/// The group's order `n`, big-endian: private keys and nonces are from 1 to `n - 1`.
pub const ORDER: [u8; LEN] = [
    0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa, 0xad, 0xa7,
    0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// One signature.
pub struct Job<'a> {
    /// A private key, big-endian.
    pub private: &'a [u8; LEN],
    /// A secret number, big-endian, that is random and used for this signature only.
    pub nonce: &'a [u8; LEN],
    /// The first 256 bits of a message's digest; a shorter one whole, after zeros.
    pub digest: &'a [u8; LEN],
    /// `r` and `s`, big-endian. All zero unless `good`.
    pub output: &'a mut [u8; 2 * LEN],
    /// After the call: the result exists and was checked.
    pub good: bool,
}

/// Whether that number is valid as a private key or a nonce: from 1 to `n - 1`. The machine's steps depend only on
/// the answer.
pub fn is_in_range(number: &[u8; LEN]) -> bool {
    let bits = Radix(BITS);
    let (mut difference, order) = (bits.of_bytes(number, DIGITS), bits.of_bytes(&ORDER, DIGITS));
    let is_zero = difference.iter().fold(0, |all, digit| all | digit) == 0;
    bits.subtract(&mut difference, &order) != 0 && !is_zero
}

/// Whether this machine can do [`sign`].
pub fn is_here() -> bool {
    Ifma::here().is_some()
}

/// Does up to [`MOST`] jobs side by side. `false`: this machine cannot, or there are more jobs; none is good then.
pub fn sign(jobs: &mut [Job<'_>]) -> bool {
    for job in jobs.iter_mut() {
        job.good = false;
        job.output.zeroize();
    }
    let Some(unit) = Ifma::here().filter(|_| jobs.len() <= MOST) else { return false };
    wiped(|| signatures(unit, jobs));
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn signatures(_: Ifma, _: &mut [Job<'_>]) {}

#[cfg(target_arch = "x86_64")]
use by_lanes::signatures;

#[cfg(target_arch = "x86_64")]
mod by_lanes {
    use zeroize::Zeroizing;

    use super::signing::{Digits, Input, Outcome};
    use super::{Job, LEN};
    use crate::MOST;
    use crate::lanes::prime::RADIX;
    use crate::sys::{Ifma, sign};

    /// Lanes beyond the last job hold zeros.
    pub(super) fn signatures(unit: Ifma, jobs: &mut [Job<'_>]) {
        let mut inputs = Zeroizing::new([Input::default(); MOST]);
        for (job, input) in jobs.iter().zip(inputs.iter_mut()) {
            RADIX.read(job.private, &mut input.private);
            RADIX.read(job.nonce, &mut input.nonce);
            RADIX.read(job.digest, &mut input.digest);
        }
        release(jobs, &sign(unit, &inputs));
    }

    /// Writes the signatures in which no test found a fault. Of all others nothing leaves.
    fn release(jobs: &mut [Job<'_>], outcomes: &[Outcome; MOST]) {
        for (job, outcome) in jobs.iter_mut().zip(outcomes) {
            job.good = outcome.faults.iter().all(is_none) && !outcome.numbers.iter().any(is_none);
            if job.good {
                for (number, bytes) in outcome.numbers.iter().zip(job.output.chunks_mut(LEN)) {
                    RADIX.write(number, bytes);
                }
            }
        }
    }

    /// Whether it is zero. The caller learns this: it is no secret.
    #[inline(never)]
    fn is_none(number: &Digits) -> bool {
        number.iter().all(|digit| *digit == 0)
    }

    #[cfg(test)]
    mod tests;
}
