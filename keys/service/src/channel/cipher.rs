//! The keys of a channel, and messages under them. All are padded, so that a relay learns lengths in steps of
//! [`STEP`] bytes.

use super::{Accepted, LINE};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{Context as Digest, SHA256};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use serde::{Deserialize, Serialize};
use sidecore_client::keys::transfer::Address;
use zeroize::Zeroizing;

/// Lengths of plaintexts are multiples of this, bytes.
const STEP: usize = 64;
/// Longest message beside its plaintext, bytes: padding, a tag, and fields around it.
pub(crate) const OVERHEAD: usize = 2 * STEP;
const TAG: usize = 16;
const NEAR_LABEL: &[u8] = b"sidecore channel v1: near to far";
const FAR_LABEL: &[u8] = b"sidecore channel v1: far to near";
pub(super) const SET_UP_LABEL: &[u8] = b"sidecore channel v1: set-up";
pub(super) const ANSWER_LABEL: &[u8] = b"sidecore channel v1: answer";

/// Kinds of messages under one key. Each has numbers of its own, so that no nonce comes twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Flow {
    /// Requests and questions of near, which share their numbers, and far's answers to both.
    Message = 1,
    /// Openings.
    Opening = 2,
}

/// The two keys of a channel.
pub(super) struct Cipher {
    near: LessSafeKey,
    far: LessSafeKey,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cipher(..)")
    }
}

impl Cipher {
    /// From the secrets that both HPKE contexts export, and both messages of the set-up.
    pub(super) fn new(secrets: [&[u8; 32]; 2], set_up: &[u8], accepted: &Accepted) -> Option<Self> {
        let mut transcript = Digest::new(&SHA256);
        for part in [&(set_up.len() as u64).to_le_bytes(), set_up, &accepted.encapsulated, &accepted.sealed] {
            transcript.update(part);
        }
        let mut joined = Zeroizing::new([0; 64]);
        joined[..32].copy_from_slice(secrets[0]);
        joined[32..].copy_from_slice(secrets[1]);
        let extracted = Salt::new(HKDF_SHA256, transcript.finish().as_ref()).extract(&joined[..]);
        let key = |label| {
            let key: UnboundKey = extracted.expand(&[label], &AES_256_GCM).ok()?.into();
            Some(LessSafeKey::new(key))
        };
        Some(Self { near: key(NEAR_LABEL)?, far: key(FAR_LABEL)? })
    }

    pub(super) fn seal_near(&self, flow: Flow, number: u64, bound_to: u64, plain: &impl Serialize) -> Option<Vec<u8>> {
        seal(&self.near, flow, number, bound_to, plain)
    }

    pub(super) fn open_near(&self, flow: Flow, number: u64, bound_to: u64, sealed: &[u8]) -> Option<Plain> {
        open(&self.near, flow, number, bound_to, sealed)
    }

    pub(super) fn seal_far(&self, number: u64, bound_to: u64, plain: &impl Serialize) -> Option<Vec<u8>> {
        seal(&self.far, Flow::Message, number, bound_to, plain)
    }

    pub(super) fn open_far(&self, number: u64, bound_to: u64, sealed: &[u8]) -> Option<Plain> {
        open(&self.far, Flow::Message, number, bound_to, sealed)
    }
}

/// An opened message with its padding.
pub(super) struct Plain(Zeroizing<Vec<u8>>);

impl Plain {
    pub(super) fn read<'a, M: Deserialize<'a>>(&'a self) -> Option<M> {
        let (message, padding) = postcard::take_from_bytes(&self.0).ok()?;
        padding.iter().all(|byte| *byte == 0).then_some(message)
    }
}

fn nonce(flow: Flow, number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&(flow as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn seal(key: &LessSafeKey, flow: Flow, number: u64, bound_to: u64, plain: &impl Serialize) -> Option<Vec<u8>> {
    let len = postcard::experimental::serialized_size(plain).ok()?;
    // Of its last size at once: growth would leave copies of a plaintext behind.
    let mut bytes = Vec::with_capacity(len.next_multiple_of(STEP) + TAG);
    bytes.resize(len.next_multiple_of(STEP), 0);
    postcard::to_slice(plain, &mut bytes).ok()?;
    key.seal_in_place_append_tag(nonce(flow, number), Aad::from(bound_to.to_le_bytes()), &mut bytes).ok()?;
    Some(bytes)
}

fn open(key: &LessSafeKey, flow: Flow, number: u64, bound_to: u64, sealed: &[u8]) -> Option<Plain> {
    let mut bytes = Zeroizing::new(sealed.to_vec());
    let len = key.open_in_place(nonce(flow, number), Aad::from(bound_to.to_le_bytes()), &mut bytes).ok()?.len();
    bytes.truncate(len);
    Some(Plain(bytes))
}

/// HPKE's `info` of a set-up.
pub(super) fn set_up_info(near: &Address, far: &Address) -> Vec<u8> {
    [LINE, &near.0, &far.0].concat()
}

/// HPKE's `info` of the answer to this set-up.
pub(super) fn answer_info(set_up: &[u8]) -> Vec<u8> {
    let mut digest = Digest::new(&SHA256);
    digest.update(set_up);
    [LINE, b"answer", digest.finish().as_ref()].concat()
}
