//! RSA signatures and decryption.
//!
//! Sign: message → signature. `SignDigest`: digest → signature. Verify: signature (`head_len`) ‖ message → nothing.
//! Decrypt: ciphertext, of exactly the modulus's length → plaintext.

use std::ops::RangeInclusive;

use sidecore_core::session::{Algorithm, Op, Refusal};

use super::error::OpenError;
use super::implicit_rejection::ImplicitRejection;
use super::mechanism::{Mechanism, Written, check_hash, check_input, check_verified};
use crate::ffi::hash;
use crate::ffi::pkey::PKey;
use crate::ffi::rsa::{Oaep, Pss, RsaKey};
use crate::spec::{DecryptionPadding, Hash, KeyMaterial, SaltLength, SignaturePadding};

/// Longest label of OAEP, bytes: each session keeps its own.
const MAX_LABEL: usize = 1024;

/// A key that both schemes read the same way.
struct Key {
    algorithm: Algorithm,
    rsa: RsaKey,
    private: bool,
}

impl Key {
    fn open(key: &KeyMaterial) -> Result<Self, OpenError> {
        let (pkey, private) = match key {
            KeyMaterial::Private(pkcs8) => (PKey::private(pkcs8.expose()), true),
            KeyMaterial::Public(spki) => (PKey::public(spki), false),
            _ => return Err(OpenError::KeyKind { expected: "a private or public RSA key" }),
        };
        let expected = if private { "a PKCS#8 RSA key in DER" } else { "an SPKI RSA key in DER" };
        let rsa = pkey.and_then(RsaKey::new).ok_or(OpenError::MalformedKey { expected })?;
        Ok(Self { algorithm: algorithm(rsa.bits())?, rsa, private })
    }

    fn check_room(&self, needed: usize) -> Result<(), OpenError> {
        let found = self.rsa.len();
        if needed <= found { Ok(()) } else { Err(OpenError::KeyTooSmall { needed, found }) }
    }
}

fn algorithm(bits: u32) -> Result<Algorithm, OpenError> {
    match bits {
        1024 => Ok(Algorithm::Rsa1024),
        2048 => Ok(Algorithm::Rsa2048),
        3072 => Ok(Algorithm::Rsa3072),
        4096 => Ok(Algorithm::Rsa4096),
        _ => Err(OpenError::ModulusBits(bits)),
    }
}

/// What PKCS#1 v1.5 puts around a signature's payload, in bytes.
const PADDING_LEN: usize = 11;

enum Signature {
    Pkcs1(Hash),
    Pkcs1Raw,
    Pss(Pss),
}

pub(super) struct SignatureSession {
    key: Key,
    hash: Hash,
    signature: Signature,
    /// The client made the digests, also those to verify.
    of_digests: bool,
}

impl SignatureSession {
    pub(super) fn open(padding: SignaturePadding, hash: Hash, key: &KeyMaterial) -> Result<Self, OpenError> {
        let hash = check_hash(hash)?;
        let key = Key::open(key)?;
        let signature = match padding {
            SignaturePadding::Pkcs1 => Signature::Pkcs1(hash),
            SignaturePadding::Pkcs1Raw => Signature::Pkcs1Raw,
            SignaturePadding::Pss { mgf1, salt } | SignaturePadding::PssRaw { mgf1, salt } => {
                key.check_room(hash.len() + shortest_salt(salt, hash) + 2)?;
                Signature::Pss(Pss { hash, mgf1, salt })
            }
        };
        let of_digests = !matches!(padding, SignaturePadding::Pkcs1 | SignaturePadding::Pss { .. });
        Ok(Self { key, hash, signature, of_digests })
    }

    fn is_raw(&self) -> bool {
        matches!(self.signature, Signature::Pkcs1Raw)
    }

    fn sign(&self, digest: &[u8], output: &mut [u8]) -> Written {
        let written = match self.signature {
            Signature::Pkcs1(hash) => self.key.rsa.sign_pkcs1(hash, digest, output),
            Signature::Pkcs1Raw => self.key.rsa.sign_raw(digest, output),
            Signature::Pss(pss) => self.key.rsa.sign_pss(pss, digest, output),
        };
        written.ok_or(Refusal::Internal)
    }

    fn verify(&self, digest: &[u8], signature: &[u8]) -> Written {
        check_verified(match self.signature {
            Signature::Pkcs1(hash) => self.key.rsa.verify_pkcs1(hash, digest, signature),
            Signature::Pkcs1Raw => self.key.rsa.verify_raw(digest, signature),
            Signature::Pss(pss) => self.key.rsa.verify_pss(pss, digest, signature),
        })
    }
}

fn shortest_salt(salt: SaltLength, hash: Hash) -> usize {
    match salt {
        SaltLength::Digest => hash.len(),
        SaltLength::Any => 0,
        SaltLength::Bytes(bytes) => usize::from(bytes),
    }
}

impl Mechanism for SignatureSession {
    fn algorithm(&self) -> Algorithm {
        self.key.algorithm
    }

    fn can(&self, op: Op) -> bool {
        match op {
            Op::Verify => true,
            Op::SignDigest => self.key.private,
            // Without a hash of its own it cannot sign a message.
            Op::Sign => self.key.private && !self.of_digests,
            _ => false,
        }
    }

    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        let longest = self.key.rsa.len();
        if self.is_raw() {
            let payload = input_len.checked_sub(head_len).ok_or(Refusal::InputLength)?;
            check_input((1..=longest - PADDING_LEN).contains(&payload) && (op == Op::Verify || head_len == 0))?;
            return Ok(if op == Op::Verify { 0 } else { longest });
        }
        let digest = self.hash.len();
        if op == Op::Verify && self.of_digests {
            return check_input(input_len.checked_sub(head_len) == Some(digest)).map(|()| 0);
        }
        signature_output_len(op, head_len, input_len, digest..=digest, longest)
    }

    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (signature, message) = input.split_at_checked(head_len).ok_or(Refusal::InputLength)?;
        if self.of_digests {
            return if op == Op::Verify { self.verify(message, signature) } else { self.sign(message, output) };
        }
        let mut digest = [0; hash::MAX_LEN];
        let digest = &mut digest[..self.hash.len()];
        match op {
            Op::SignDigest => digest.copy_from_slice(message),
            _ => hash::digest(self.hash, message.into(), digest),
        }
        if op == Op::Verify { self.verify(digest, signature) } else { self.sign(digest, output) }
    }
}

/// The lengths of signatures over messages and digests, the same for RSA and ECDSA.
pub(super) fn signature_output_len(
    op: Op,
    head_len: usize,
    input_len: usize,
    digest: RangeInclusive<usize>,
    longest: usize,
) -> Written {
    match op {
        Op::Verify => check_input(head_len <= input_len).map(|()| 0),
        Op::SignDigest => check_input(head_len == 0 && digest.contains(&input_len)).map(|()| longest),
        _ => check_input(head_len == 0).map(|()| longest),
    }
}

enum Decryption {
    Pkcs1(Box<ImplicitRejection>),
    Oaep(Oaep),
}

pub(super) struct DecryptionSession {
    key: Key,
    decryption: Decryption,
}

impl DecryptionSession {
    pub(super) fn open(padding: &DecryptionPadding, key: &KeyMaterial) -> Result<Self, OpenError> {
        let key = Key::open(key)?;
        if !key.private {
            return Err(OpenError::KeyKind { expected: "a private RSA key" });
        }
        let decryption = match padding {
            DecryptionPadding::Pkcs1 => Decryption::Pkcs1(Box::new(ImplicitRejection::new(&key.rsa)?)),
            DecryptionPadding::Oaep { hash, mgf1, label } => {
                key.check_room(2 * hash.len() + 2)?;
                if label.len() > MAX_LABEL {
                    return Err(OpenError::LabelTooLong { most: MAX_LABEL, found: label.len() });
                }
                Decryption::Oaep(Oaep { hash: *hash, mgf1: *mgf1, label: label.clone() })
            }
        };
        Ok(Self { key, decryption })
    }
}

impl Mechanism for DecryptionSession {
    fn algorithm(&self) -> Algorithm {
        self.key.algorithm
    }

    fn can(&self, op: Op) -> bool {
        op == Op::Decrypt
    }

    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        check_input(head_len == 0 && input_len == self.key.rsa.len())?;
        Ok(input_len)
    }

    fn run(&self, _op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let key = &self.key.rsa;
        let written = match &self.decryption {
            Decryption::Pkcs1(rejection) => rejection.decrypt(key, input, output),
            Decryption::Oaep(oaep) => key.decrypt_oaep(oaep, input, output),
        };
        written.ok_or_else(|| {
            output.fill(0);
            Refusal::Authentication
        })
    }
}
