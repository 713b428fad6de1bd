//! ECDSA on P-256 and P-384; signatures in DER.
//!
//! Sign: message → signature. `SignDigest`: digest → signature. Verify: signature (`head_len`) ‖ message → nothing.
//! Without a hash of its own a session takes digests only, also to verify.

use std::ops::RangeInclusive;

use sidecore_core::session::{Algorithm, Op, Refusal};

use super::error::OpenError;
use super::mechanism::{Mechanism, Written, check_hash, check_input, check_verified};
use super::rsa::signature_output_len;
use crate::ffi::ec::{Curve, EcKey};
use crate::ffi::hash;
use crate::ffi::pkey::PKey;
use crate::spec::{Hash, KeyMaterial};

/// Lengths of the digests that are signed, in bytes: SHA-1's, which old protocols still sign, to SHA-512's.
const DIGEST_LEN: RangeInclusive<usize> = 20..=64;

pub(super) struct EcdsaSession {
    curve: Curve,
    /// None: digests only.
    hash: Option<Hash>,
    key: EcKey,
    private: bool,
}

impl EcdsaSession {
    pub(super) fn open(hash: Option<Hash>, key: &KeyMaterial) -> Result<Self, OpenError> {
        let hash = hash.map(check_hash).transpose()?;
        let (pkey, private) = match key {
            KeyMaterial::Private(pkcs8) => (PKey::private(pkcs8.expose()), true),
            KeyMaterial::Public(spki) => (PKey::public(spki), false),
            _ => return Err(OpenError::KeyKind { expected: "a private or public EC key" }),
        };
        let expected = if private { "a PKCS#8 EC key in DER" } else { "an SPKI EC key in DER" };
        let key = pkey.and_then(EcKey::new).ok_or(OpenError::MalformedKey { expected })?;
        let curve = key.curve().ok_or(OpenError::UnsupportedCurve)?;
        Ok(Self { curve, hash, key, private })
    }
}

impl Mechanism for EcdsaSession {
    fn algorithm(&self) -> Algorithm {
        match self.curve {
            Curve::P256 => Algorithm::P256,
            Curve::P384 => Algorithm::P384,
        }
    }

    fn can(&self, op: Op) -> bool {
        match op {
            Op::Verify => true,
            Op::SignDigest => self.private,
            Op::Sign => self.private && self.hash.is_some(),
            _ => false,
        }
    }

    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        if op == Op::Verify && self.hash.is_none() {
            return check_input(input_len.checked_sub(head_len).is_some_and(|len| DIGEST_LEN.contains(&len)))
                .map(|()| 0);
        }
        signature_output_len(op, head_len, input_len, DIGEST_LEN, self.key.signature_len())
    }

    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (signature, message) = input.split_at_checked(head_len).ok_or(Refusal::InputLength)?;
        if op == Op::SignDigest {
            return self.key.sign(message, output).ok_or(Refusal::Internal);
        }
        let Some(hash) = self.hash else { return check_verified(self.key.verify(message, signature)) };
        let mut digest = [0; hash::MAX_LEN];
        let digest = &mut digest[..hash.len()];
        hash::digest(hash, message.into(), digest);
        if op == Op::Verify {
            return check_verified(self.key.verify(digest, signature));
        }
        self.key.sign(digest, output).ok_or(Refusal::Internal)
    }
}
