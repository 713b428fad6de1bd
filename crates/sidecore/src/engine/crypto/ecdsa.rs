//! ECDSA on P-256 and P-384; signatures in DER.
//!
//! Sign: message → signature. `SignDigest`: digest → signature. Verify: signature (`head_len`) ‖ message → nothing.

use std::ops::RangeInclusive;

use sidecore_core::session::{Algorithm, Op, Refusal};

use super::mechanism::{Mechanism, Written, check_hash, check_verified};
use super::rsa::signature_output_len;
use super::spec::{Hash, KeyMaterial, OpenError};
use crate::ffi::ec::{Curve, EcKey};
use crate::ffi::hash;
use crate::ffi::pkey::PKey;

/// Lengths of the digests that are signed, in bytes: SHA-1's, which old protocols still sign, to SHA-512's.
const DIGEST_LEN: RangeInclusive<usize> = 20..=64;

pub(super) struct EcdsaSession {
    curve: Curve,
    hash: Hash,
    key: EcKey,
    private: bool,
}

impl EcdsaSession {
    pub(super) fn open(hash: Hash, key: &KeyMaterial) -> Result<Self, OpenError> {
        let hash = check_hash(hash)?;
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
        op == Op::Verify || self.private && matches!(op, Op::Sign | Op::SignDigest)
    }

    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        signature_output_len(op, head_len, input_len, DIGEST_LEN, self.key.signature_len())
    }

    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (signature, message) = input.split_at_checked(head_len).ok_or(Refusal::InputLength)?;
        if op == Op::SignDigest {
            return self.key.sign(message, output).ok_or(Refusal::Internal);
        }
        let mut digest = [0; hash::MAX_LEN];
        let digest = &mut digest[..self.hash.len()];
        hash::digest(self.hash, message.into(), digest);
        if op == Op::Verify {
            return check_verified(self.key.verify(digest, signature));
        }
        self.key.sign(digest, output).ok_or(Refusal::Internal)
    }
}
