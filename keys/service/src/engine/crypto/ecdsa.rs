//! Parts of side-by-side P-256 signatures outside the arithmetic: digests as numbers, nonces, DER.

use aws_lc_rs::rand;
use der::asn1::UintRef;
use der::{Encode, Sequence};
use sidecore_batch::MOST;
use sidecore_batch::p256::{LEN, is_in_range};
use zeroize::Zeroizing;

#[derive(Sequence)]
struct Signature<'a> {
    r: UintRef<'a>,
    s: UintRef<'a>,
}

/// A digest as a number: its first 256 bits (FIPS 186-5, section 6.4.1).
pub(super) fn number(digest: &[u8]) -> [u8; LEN] {
    let taken = &digest[..digest.len().min(LEN)];
    let mut number = [0; LEN];
    number[LEN - taken.len()..].copy_from_slice(taken);
    number
}

/// A nonce for each of a batch, each equally likely (FIPS 186-5, A.3.2: values out of range are discarded). `None`
/// where the library has no randomness.
pub(super) fn nonces() -> Option<Zeroizing<[[u8; LEN]; MOST]>> {
    let mut nonces = Zeroizing::new([[0; LEN]; MOST]);
    rand::fill(nonces.as_flattened_mut()).ok()?;
    for nonce in nonces.iter_mut() {
        while !is_in_range(nonce) {
            rand::fill(nonce).ok()?;
        }
    }
    Some(nonces)
}

pub(super) fn encode(signature: &[u8; 2 * LEN], output: &mut [u8]) -> Option<usize> {
    let (r, s) = signature.split_at(LEN);
    let signature = Signature { r: UintRef::new(r).ok()?, s: UintRef::new(s).ok()? };
    Some(signature.encode_to_slice(output).ok()?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_digest_is_cut_and_a_short_one_is_filled_up() {
        let digest: Vec<u8> = (1..=64).collect();
        assert_eq!(number(&digest)[..], digest[..LEN]);
        assert_eq!(number(&digest[..LEN])[..], digest[..LEN]);
        assert_eq!(number(&digest[..20])[..], [&[0; 12], &digest[..20]].concat());
    }

    #[test]
    fn a_signature_is_as_short_as_its_numbers() {
        let (mut numbers, mut output) = ([0; 2 * LEN], [0; 72]);
        (numbers[LEN - 1], numbers[2 * LEN - 1]) = (1, 0x80);
        assert_eq!(encode(&numbers, &mut output), Some(9));
        assert_eq!(output[..9], [0x30, 7, 2, 1, 1, 2, 2, 0, 0x80]);
        assert_eq!(encode(&[0xff; 2 * LEN], &mut output), Some(72));
        assert_eq!(output[..5], [0x30, 70, 2, 33, 0]);
        assert_eq!(encode(&numbers, &mut output[..8]), None);
    }

    #[test]
    fn no_nonce_comes_twice() {
        let nonces: Vec<_> = (0..100).flat_map(|_| *nonces().unwrap()).collect();
        assert!(nonces.iter().all(is_in_range));
        assert_eq!(nonces.iter().collect::<std::collections::HashSet<_>>().len(), nonces.len());
    }
}
