//! Implicit rejection of RSA PKCS#1 v1.5 encryption padding.
//!
//! A decryptor that distinguishes good padding from bad decrypts any ciphertext for a caller with enough attempts
//! (Bleichenbacher 1998, Marvin 2023). This one never does: bad padding gives a plaintext, of a length in the same
//! range, that depends on key and ciphertext only. It is the scheme of draft-irtf-cfrg-rsa-guidance as OpenSSL 3.2
//! and later compute it, so that both give the same bytes.
//!
//! Until the plaintext's bounds are known, time does not depend on secrets. Its length is then public: the client
//! learns it either way.

use std::hint::black_box;

use zeroize::Zeroizing;

use super::error::SessionError;
use crate::ffi::hash::{self, HmacKey};
use crate::ffi::padding::Padding;
use crate::ffi::pkey::PKey;
use crate::spec::{DecryptionPadding, Hash};

/// Length of the longest modulus, in bytes.
const MAX_MODULUS_LEN: usize = 1024;
/// 0x00 0x02, at least eight bytes that are not zero, 0x00.
const MIN_PADDING_LEN: usize = 11;
/// Number of candidates: at least one of them fits, but for a chance of 2^-128.
const LENGTH_CANDIDATES: usize = 128;
const DIGEST_LEN: usize = Hash::Sha256.len();

type Block = Zeroizing<[u8; MAX_MODULUS_LEN]>;

pub(super) struct ImplicitRejection {
    derive: HmacKey,
    /// Bad padding is refused instead: a caller with this oracle can decrypt and sign anything.
    pub(super) is_explicit: bool,
}

impl ImplicitRejection {
    /// Keys the derivation with the digest of the private exponent.
    pub(super) fn new(key: &PKey) -> Result<Self, SessionError> {
        let mut exponent = Block::new([0; MAX_MODULUS_LEN]);
        let exponent = &mut exponent[..key.len()];
        key.private_exponent(exponent).ok_or(SessionError::Library)?;
        let mut digest = Zeroizing::new([0; DIGEST_LEN]);
        hash::digest(Hash::Sha256, (&*exponent).into(), &mut *digest);
        Ok(Self { derive: HmacKey::new(Hash::Sha256, &*digest).ok_or(SessionError::Library)?, is_explicit: false })
    }

    /// Decrypts `ciphertext`, which has the modulus's length; returns the number of bytes written. `output` holds at
    /// least the modulus length. `None`: the ciphertext is not below the modulus, the library failed, or bad padding
    /// is refused.
    pub(super) fn decrypt(&self, key: &PKey, ciphertext: &[u8], output: &mut [u8]) -> Option<usize> {
        let mut padded = Block::new([0; MAX_MODULUS_LEN]);
        let padded = &mut padded[..key.len()];
        key.decrypt(&Padding::Decryption(DecryptionPadding::Pkcs1), ciphertext, padded)?;
        let (mut synthetic, synthetic_start) = self.synthesise(ciphertext)?;
        let synthetic = &mut synthetic[..key.len()];
        let (good, message_start) = parse(padded);
        if self.is_explicit && good == 0 {
            return None;
        }
        for (synthetic, real) in synthetic.iter_mut().zip(&*padded) {
            *synthetic = select(good, usize::from(*real), usize::from(*synthetic)) as u8;
        }
        let message = &synthetic[select(good, message_start, synthetic_start)..];
        output[..message.len()].copy_from_slice(message);
        Some(message.len())
    }

    fn synthesise(&self, ciphertext: &[u8]) -> Option<(Block, usize)> {
        let mut tag = Zeroizing::new([0; hash::MAX_LEN]);
        let tag_len = self.derive.sign(ciphertext.into(), &mut tag);
        let derive = HmacKey::new(Hash::Sha256, &tag[..tag_len])?;
        let mut block = Block::new([0; MAX_MODULUS_LEN]);
        expand(&derive, b"message", &mut block[..ciphertext.len()]);
        let mut candidates = Zeroizing::new([0; 2 * LENGTH_CANDIDATES]);
        expand(&derive, b"length", &mut *candidates);
        Some((block, ciphertext.len() - choose_length(&*candidates, ciphertext.len())))
    }
}

fn choose_length(candidates: &[u8], modulus_len: usize) -> usize {
    // The draft excludes the two fixed bytes and the eight of padding, but not the separator.
    let limit = modulus_len - (MIN_PADDING_LEN - 1);
    let mask = (limit + 1).next_power_of_two() - 1;
    candidates.as_chunks().0.iter().fold(0, |chosen, pair| {
        let candidate = usize::from(u16::from_be_bytes(*pair)) & mask;
        select(below(candidate, limit), candidate, chosen)
    })
}

/// HMAC in counter mode: index ‖ label ‖ length in bits, for each 32 bytes.
fn expand(key: &HmacKey, label: &[u8], output: &mut [u8]) {
    let bits = (output.len() * 8) as u16;
    let mut tag = Zeroizing::new([0; hash::MAX_LEN]);
    for (index, chunk) in (0u16..).zip(output.chunks_mut(DIGEST_LEN)) {
        let input = [&index.to_be_bytes(), label, &bits.to_be_bytes()].concat();
        key.sign(input.as_slice().into(), &mut tag);
        chunk.copy_from_slice(&tag[..chunk.len()]);
    }
}

/// All ones where the padding is good, otherwise 0; and the start of the message if it is.
fn parse(padded: &[u8]) -> (usize, usize) {
    let (mut found, mut separator) = (0, 0);
    for (index, byte) in padded.iter().enumerate().skip(2) {
        let zero = below(usize::from(*byte), 1);
        separator = select(zero & !found, index, separator);
        found |= zero;
    }
    let header = (usize::from(padded[0]) << 8) | usize::from(padded[1]);
    let good = below(header ^ 0x0002, 1) & found & !below(separator, MIN_PADDING_LEN - 1);
    (good, separator + 1)
}

/// All ones where `a < b`, otherwise 0. Both stay below 2^63.
#[inline]
fn below(a: usize, b: usize) -> usize {
    black_box((a.wrapping_sub(b).cast_signed() >> (usize::BITS - 1)).cast_unsigned())
}

/// `yes` where `mask` is all ones, `no` where it is 0.
#[inline]
fn select(mask: usize, yes: usize, no: usize) -> usize {
    (yes & mask) | (no & !mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_compare_and_select() {
        assert_eq!(below(1, 2), usize::MAX);
        assert_eq!(below(2, 2), 0);
        assert_eq!(below(3, 2), 0);
        assert_eq!((select(usize::MAX, 7, 9), select(0, 7, 9)), (7, 9));
    }

    #[test]
    fn the_padding_is_parsed_as_pkcs1_says() {
        let block = |header: [u8; 2], random: usize| {
            let mut block = vec![1; 32];
            block[..2].copy_from_slice(&header);
            block[2 + random] = 0;
            block
        };
        assert_eq!(parse(&block([0, 2], 8)), (usize::MAX, 11));
        assert_eq!(parse(&block([0, 2], 29)), (usize::MAX, 32));
        assert_eq!(parse(&block([0, 2], 7)).0, 0);
        assert_eq!(parse(&block([0, 1], 8)).0, 0);
        assert_eq!(parse(&block([1, 2], 8)).0, 0);
        assert_eq!(parse(&[&[0, 2][..], &[1; 30]].concat()).0, 0);
    }

    #[test]
    fn the_last_possible_length_is_chosen() {
        let mut candidates = [0xff; 2 * LENGTH_CANDIDATES];
        assert_eq!(choose_length(&candidates, 256), 0);
        candidates[0..4].copy_from_slice(&[0, 17, 0, 245]);
        assert_eq!(choose_length(&candidates, 256), 245);
        candidates[4..6].copy_from_slice(&[0, 246]);
        assert_eq!(choose_length(&candidates, 256), 245);
    }
}
