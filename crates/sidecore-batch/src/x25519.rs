//! Shared secrets by X25519 (RFC 7748), of several keys side by side: a lane for each.
//!
//! A secret is released only if the ladder's two points still fit each other at its end, so that a fault of the
//! machine does not become a key.

#[cfg(target_arch = "x86_64")]
pub(crate) mod ladder;

use zeroize::Zeroize;

use crate::MOST;
use crate::stack::wiped;
use crate::sys::Ifma;

/// Length of a private key, of a public one and of a secret, in bytes.
pub const LEN: usize = 32;

/// One exchange.
pub struct Job<'a> {
    /// A private key, in RFC 7748's encoding: the fixed bits need not be set.
    pub private: &'a [u8; LEN],
    /// The peer's public key.
    pub public: &'a [u8; LEN],
    /// The shared secret: all zero where the peer's key is a point of small order, and unless `good`.
    pub output: &'a mut [u8; LEN],
    /// After the call: the result exists and was checked.
    pub good: bool,
    /// For tests: a bit is flipped on the way, like a fault of the machine.
    pub disturb: bool,
}

/// Whether this machine can do [`derive`].
pub fn is_here() -> bool {
    Ifma::here().is_some()
}

/// Does up to [`MOST`] jobs side by side. `false`: this machine cannot, or there are more jobs; none is good then.
pub fn derive(jobs: &mut [Job<'_>]) -> bool {
    for job in jobs.iter_mut() {
        job.good = false;
        job.output.zeroize();
    }
    let Some(unit) = Ifma::here().filter(|_| jobs.len() <= MOST) else { return false };
    wiped(|| secrets(unit, jobs));
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn secrets(_: Ifma, _: &mut [Job<'_>]) {}

#[cfg(target_arch = "x86_64")]
use by_lanes::secrets;

#[cfg(target_arch = "x86_64")]
mod by_lanes {
    use zeroize::Zeroizing;

    use super::ladder::{Digits, Scalar};
    use super::{Job, LEN};
    use crate::MOST;
    use crate::lanes::field::{BITS, DIGITS, MASK};
    use crate::number::Radix;
    use crate::sys::{Ifma, ladder};

    const RADIX: Radix = Radix(BITS as usize);
    /// `2^255 - 19`.
    const MODULUS: Digits = [MASK - 18, MASK, MASK, MASK, MASK];

    /// Lanes beyond the last job hold zeros.
    pub(super) fn secrets(unit: Ifma, jobs: &mut [Job<'_>]) {
        let mut scalars = Zeroizing::new([Scalar::default(); MOST]);
        let (mut points, mut disturbed) = ([Digits::default(); MOST], 0);
        for (lane, job) in jobs.iter().enumerate() {
            scalars[lane] = clamped(job.private);
            points[lane] = read(job.public);
            disturbed |= u8::from(job.disturb) << lane;
        }
        for (job, outcome) in jobs.iter_mut().zip(ladder(unit, &scalars, &points, disturbed)) {
            job.good = outcome.faults.map(least).iter().all(is_none);
            if job.good {
                write(&least(*outcome.secret), job.output);
            }
        }
    }

    /// Whether it is zero. The caller learns this: it is no secret.
    #[inline(never)]
    fn is_none(fault: &Digits) -> bool {
        fault.iter().all(|digit| *digit == 0)
    }

    fn clamped(private: &[u8; LEN]) -> Scalar {
        let (words, _) = private.as_chunks();
        let mut scalar: Scalar = std::array::from_fn(|at| u64::from_le_bytes(words[at]));
        scalar[0] &= !7;
        scalar[3] = (scalar[3] | 1 << 62) & !(1 << 63);
        scalar
    }

    /// A coordinate of up to 255 bits, not reduced.
    fn read(public: &[u8; LEN]) -> Digits {
        let (mut bytes, mut digits) = (*public, Digits::default());
        bytes[LEN - 1] &= 0x7f;
        bytes.reverse();
        RADIX.read(&bytes, &mut digits);
        digits
    }

    fn write(digits: &Digits, output: &mut [u8; LEN]) {
        RADIX.write(digits, output);
        output.reverse();
    }

    /// The residue from 0 on modulo `2^255 - 19`.
    fn least(mut digits: Digits) -> Digits {
        // The first round leaves less than 2^255 plus a carry, the second less than 2^255.
        for _ in 0..2 {
            let mut carry = 0;
            for digit in &mut digits {
                let sum = *digit + carry;
                (*digit, carry) = (sum & MASK, sum >> BITS);
            }
            digits[0] += 19 * carry;
        }
        RADIX.reduce_once(&mut digits, &MODULUS);
        digits
    }

    const _: () = assert!(DIGITS * BITS as usize == 255, "the digits hold what the modulus takes");
}
