//! Signatures: RSA, ECDSA on P-256, P-384 and P-521 (in DER), Ed25519, ML-DSA-65.
//!
//! Sign: message → signature. `SignDigest`: digest → signature. Verify: signature (`head_len`) ‖ message → nothing.
//! Without a hash of its own a session takes digests only, also to verify.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use aws_lc_rs::rand;
use sidecore_batch::{p256, rsa};
use sidecore_core::session::{Algorithm, Op, Refusal};
use zeroize::Zeroizing;

use super::batch::BatchKey;
use super::ecdsa;
use super::error::SessionError;
use super::key::{self, Key};
use super::mechanism::{Mechanism, Opened, Written, check_hash, check_input, check_verified};
use crate::ffi::hash;
use crate::ffi::padding::Padding;
use crate::ffi::pkey::PKey;
use crate::spec::{Hash, KeyMaterial, SaltLength, Scheme, SignaturePadding};

/// Lengths of the digests that ECDSA signs, in bytes: from SHA-1's, which old protocols still sign, to the most for
/// P-521.
const DIGEST_LEN: RangeInclusive<usize> = 20..=66;
/// Bytes that PKCS#1 v1.5 adds to a signature's payload.
const PADDING_LEN: usize = 11;
/// Numbers for the test of an RSA key: some bad keys are right on half of all numbers.
const TRIED: usize = 8;

enum Signs {
    /// Digests of messages, made here, and digests that the client made.
    Messages(Hash),
    /// Digests that the client made, also to verify.
    Digests,
    /// Whole messages: the algorithm makes its own digests.
    Whole,
}

impl Signs {
    fn ops(&self) -> &'static [Op] {
        match self {
            Self::Messages(_) => &[Op::Sign, Op::SignDigest, Op::Verify],
            Self::Digests => &[Op::SignDigest, Op::Verify],
            Self::Whole => &[Op::Sign, Op::Verify],
        }
    }
}

enum Ready {
    Rsa(Box<rsa::Key>),
    P256(Zeroizing<[u8; p256::LEN]>),
}

struct Signatures {
    key: PKey,
    padding: Padding,
    signs: Signs,
    digest: RangeInclusive<usize>,
    longest: usize,
    /// The key for batches, prepared and tested at its first use in one: that takes about as long as two signatures.
    batched: OnceLock<Option<Ready>>,
}

impl Signatures {
    fn ready(&self) -> Option<Ready> {
        if self.key.algorithm() == Some(Algorithm::P256) {
            // A key without a use is not copied.
            return self.key.scalar().filter(|_| p256::is_here()).map(Ready::P256);
        }
        self.key.batched().filter(|key| is_key(key) == Some(true)).map(Box::new).map(Ready::Rsa)
    }
}

/// Whether the public exponent undoes private operations of this key on random numbers. The library does not check
/// that the factors of a modulus are primes. With others results are wrong, and each wrong one is made again alone.
fn is_key(key: &rsa::Key) -> Option<bool> {
    let (mut inputs, mut outputs) = ([const { Vec::new() }; TRIED], [const { Vec::new() }; TRIED]);
    for (input, output) in inputs.iter_mut().zip(&mut outputs) {
        (*input, *output) = (vec![0; key.modulus_len()], vec![0; key.modulus_len()]);
        // Below the modulus, whose first byte is not zero.
        rand::fill(input.get_mut(1..)?).ok()?;
    }
    let jobs = inputs.iter().zip(&mut outputs);
    let mut jobs: Vec<_> = jobs.map(|(input, output)| rsa::Job { key, input, output, good: false }).collect();
    Some(rsa::private(&mut jobs) && jobs.iter().all(|job| job.good))
}

pub(super) fn rsa(padding: SignaturePadding, hash: Hash, key: &KeyMaterial) -> Result<Opened, SessionError> {
    let hash = check_hash(hash)?;
    let key = Key::open(&key::RSA, key)?;
    let mut digest = hash.len()..=hash.len();
    match padding {
        SignaturePadding::Pkcs1 => {}
        SignaturePadding::Pkcs1Raw => digest = 1..=key.pkey.len() - PADDING_LEN,
        SignaturePadding::Pss { salt, .. } | SignaturePadding::PssRaw { salt, .. } => {
            key.check_room(hash.len() + shortest_salt(salt, hash) + 2)?;
        }
    }
    let signs = match padding {
        SignaturePadding::Pkcs1 | SignaturePadding::Pss { .. } => Signs::Messages(hash),
        SignaturePadding::Pkcs1Raw | SignaturePadding::PssRaw { .. } => Signs::Digests,
    };
    Ok(open(key, Padding::Signature(padding, hash), signs, digest))
}

pub(super) fn ecdsa(hash: Option<Hash>, key: &KeyMaterial) -> Result<Opened, SessionError> {
    let signs = hash.map(check_hash).transpose()?.map_or(Signs::Digests, Signs::Messages);
    Ok(open(Key::open(&key::EC, key)?, Padding::None, signs, DIGEST_LEN))
}

pub(super) fn whole(family: &key::Family, key: &KeyMaterial) -> Result<Opened, SessionError> {
    Ok(open(Key::open(family, key)?, Padding::None, Signs::Whole, DIGEST_LEN))
}

pub(super) fn private_ops(scheme: &Scheme) -> Option<&'static [Op]> {
    let signs = match scheme {
        Scheme::RsaSignature { padding: SignaturePadding::Pkcs1 | SignaturePadding::Pss { .. }, hash }
        | Scheme::Ecdsa { hash } => Signs::Messages(*hash),
        Scheme::RsaSignature { .. } | Scheme::EcdsaRaw => Signs::Digests,
        Scheme::Ed25519 | Scheme::MlDsa65 => Signs::Whole,
        _ => return None,
    };
    Some(signs.ops())
}

fn open(key: Key, padding: Padding, signs: Signs, digest: RangeInclusive<usize>) -> Opened {
    let Key { algorithm, pkey, private } = key;
    let ops = if private { signs.ops() } else { &[Op::Verify] };
    let longest = pkey.len();
    let signatures = Signatures { key: pkey, padding, signs, digest, longest, batched: OnceLock::new() };
    Opened { algorithm, ops, mechanism: Box::new(signatures) }
}

fn shortest_salt(salt: SaltLength, hash: Hash) -> usize {
    match salt {
        SaltLength::Digest => hash.len(),
        SaltLength::Any => 0,
        SaltLength::Bytes(bytes) => usize::from(bytes),
    }
}

impl Mechanism for Signatures {
    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        let payload = input_len.checked_sub(head_len).ok_or(Refusal::InputLength)?;
        let is_digest = op == Op::SignDigest || matches!(self.signs, Signs::Digests);
        check_input((op == Op::Verify || head_len == 0) && (!is_digest || self.digest.contains(&payload)))?;
        Ok(if op == Op::Verify { 0 } else { self.longest })
    }

    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (signature, message) = input.split_at_checked(head_len).ok_or(Refusal::InputLength)?;
        let mut made = [0; hash::MAX_LEN];
        let digest = match self.signs {
            Signs::Whole if op == Op::Verify => return check_verified(self.key.verify_message(message, signature)),
            Signs::Whole => return self.key.sign_message(message, output).ok_or(Refusal::Internal),
            Signs::Messages(hash) if op != Op::SignDigest => {
                hash::digest(hash, message.into(), &mut made);
                &made[..hash.len()]
            }
            _ => message,
        };
        if op == Op::Verify {
            return check_verified(self.key.verify(&self.padding, digest, signature));
        }
        self.key.sign(&self.padding, digest, output).ok_or(Refusal::Internal)
    }

    fn digest(&self, op: Op, message: &[u8], made: &mut [u8; hash::MAX_LEN]) -> Option<usize> {
        match self.signs {
            Signs::Messages(hash) if op == Op::Sign => {
                hash::digest(hash, message.into(), made);
                Some(hash.len())
            }
            _ => None,
        }
    }

    fn batched(&self, op: Op) -> Option<BatchKey<'_>> {
        if op == Op::Verify {
            return None;
        }
        self.batched.get_or_init(|| self.ready()).as_ref().map(|ready| match ready {
            Ready::Rsa(key) => BatchKey::Rsa(key),
            Ready::P256(key) => BatchKey::P256(key),
        })
    }

    fn prepare(&self, op: Op, input: &mut Vec<u8>) -> Option<()> {
        let mut made = [0; hash::MAX_LEN];
        let digest = self.digest(op, input, &mut made).map_or(&input[..], |len| &made[..len]);
        if let Some(Some(Ready::P256(_))) = self.batched.get() {
            let number = ecdsa::number(digest);
            input.clear();
            input.extend_from_slice(&number);
            return Some(());
        }
        let mut number = vec![0; self.longest];
        self.key.encode(&self.padding, digest, &mut number)?;
        input.clear();
        input.extend_from_slice(&number);
        Some(())
    }

    fn fits(&self, _op: Op, input: &[u8], signature: &[u8]) -> bool {
        match self.signs {
            Signs::Whole => self.key.verify_message(input, signature),
            Signs::Messages(_) | Signs::Digests => self.key.verify(&self.padding, input, signature),
        }
    }
}
