//! Signatures through a PKCS#11 module, one after the other.

use super::signing::{INPUT, Timing, check};
use super::text;
use crate::bench::task::Measured;
use crate::ffi::pkcs11::{Mechanism, Token};
use sidecore::sys::clock;

/// `DigestInfo` of SHA-256 up to the digest, from RFC 8017, section 9.2.
const SHA_256: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20];

/// Signs from `start` on for so long, and checks the last signature with OpenSSL.
pub(super) fn sign(
    token: &Token,
    label: &str,
    op: &str,
    pkcs8: &[u8],
    (start, ns): (u64, u64),
) -> Result<Measured, String> {
    let key = token.private_key(label).map_err(text)?;
    let (mechanism, mut data) = if op.starts_with("rsa-") {
        (Mechanism::RsaPkcs, [&SHA_256[..], &INPUT].concat())
    } else {
        (Mechanism::Ecdsa, INPUT.to_vec())
    };
    let mut signature = [0; _];
    token.sign(mechanism, key, &mut data, &mut signature).map_err(text)?;
    let mut timing = Timing::begin(start);
    let (mut began, mut length) = (timing.began, 0);
    while began - timing.began < ns {
        length = token.sign(mechanism, key, &mut data, &mut signature).map_err(text)?;
        let now = clock::now();
        timing.latency.saturating_record((now - began).max(1));
        began = now;
    }
    let signature = signature.get(..length).ok_or("a signature longer than its room")?;
    let measured = timing.end(began);
    match mechanism {
        Mechanism::RsaPkcs => check(op, pkcs8, signature)?,
        Mechanism::Ecdsa => check(op, pkcs8, &in_der(signature))?,
    }
    Ok(measured)
}

/// The two numbers of an ECDSA signature of a curve of at most 256 bits as OpenSSL takes them.
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
