//! Signatures through a PKCS#11 module, one after the other.

use super::signing::{INPUT, check, one_by_one};
use crate::bench::error::BenchError;
use crate::ffi::Token;
use cryptoki_sys::{CKM_ECDSA, CKM_RSA_PKCS};
use sidecore_measure::experiment::Measured;
use std::thread;

/// `DigestInfo` of SHA-256 up to the digest, from RFC 8017, section 9.2.
const SHA_256: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20];

/// Each of the threads has a session of its own.
pub(super) fn sign(
    token: &Token,
    op: &str,
    threads: usize,
    pkcs8: &[u8],
    time: (u64, u64),
) -> Result<Measured, BenchError> {
    let all: Vec<Measured> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| in_one(token, op, pkcs8, time))).collect();
        let panicked = |_| BenchError::State("a thread that signs panicked");
        threads.into_iter().map(|thread| thread.join().map_err(panicked)?).collect::<Result<_, BenchError>>()
    })?;
    let mut sum = Measured::default();
    for one in all {
        sum.ops += one.ops;
        sum.ns = sum.ns.max(one.ns);
        sum.began = if sum.began == 0 { one.began } else { sum.began.min(one.began) };
        // Of the process.
        sum.cpu_ns = sum.cpu_ns.max(one.cpu_ns);
        sum.whole.extend(one.whole);
    }
    Ok(sum)
}

/// Checks the last signature with OpenSSL.
fn in_one(token: &Token, op: &str, pkcs8: &[u8], time: (u64, u64)) -> Result<Measured, BenchError> {
    let session = token.session()?;
    let key = session.private_key(op)?;
    let (mechanism, mut data) = if op.starts_with("rsa-") {
        (CKM_RSA_PKCS, [&SHA_256[..], &INPUT].concat())
    } else {
        (CKM_ECDSA, INPUT.to_vec())
    };
    let (mut signature, mut length) = ([0; _], 0);
    let measured = one_by_one(time, || {
        length = session.sign(mechanism, key, &mut data, &mut signature)?;
        Ok(())
    })?;
    let signature = signature.get(..length).ok_or(BenchError::State("a signature longer than its room"))?;
    let signature = if mechanism == CKM_ECDSA { in_der(signature) } else { signature.to_vec() };
    check(op, pkcs8, &INPUT, &signature)?;
    Ok(measured)
}

/// DER of the two numbers of an ECDSA signature. Limit: curves of at most 256 bits.
fn in_der(numbers: &[u8]) -> Vec<u8> {
    let (r, s) = numbers.split_at(numbers.len() / 2);
    let body = [integer(r), integer(s)].concat();
    [&[0x30, body.len() as u8][..], &body].concat()
}

fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(bytes.len().saturating_sub(1));
    let digits = &bytes[zeros..];
    let sign: &[u8] = if digits.first().is_some_and(|byte| byte & 0x80 != 0) { &[0] } else { &[] };
    [&[0x02, (sign.len() + digits.len()) as u8], sign, digits].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positive_and_as_short_as_can_be() {
        assert_eq!(in_der(&[0x00, 0x01, 0x80, 0x00]), [0x30, 8, 0x02, 1, 0x01, 0x02, 3, 0x00, 0x80, 0x00]);
    }
}
