//! Ed25519 and X25519.
//!
//! Sign: message → signature (64). Verify: signature (`head_len`) ‖ message → nothing. Derive: the peer's public key
//! (32) → shared secret (32).

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey};
use aws_lc_rs::signature::{self, Ed25519KeyPair, KeyPair, ParsedPublicKey};
use sidecore_core::session::{Algorithm, Op, Refusal};

use super::error::OpenError;
use super::mechanism::{Mechanism, Written, check_input, check_verified, exactly};
use crate::spec::KeyMaterial;

const SIGNATURE_LEN: usize = 64;
/// Length of X25519's keys and secret, in bytes.
const X25519_LEN: usize = 32;

pub(super) struct Ed25519Session {
    signer: Option<Ed25519KeyPair>,
    verifier: ParsedPublicKey,
}

impl Ed25519Session {
    pub(super) fn open(key: &KeyMaterial) -> Result<Self, OpenError> {
        let signer = match key {
            KeyMaterial::Private(pkcs8) => Some(Ed25519KeyPair::from_pkcs8(pkcs8.expose())),
            KeyMaterial::Public(_) => None,
            _ => return Err(OpenError::KeyKind { expected: "a private or public Ed25519 key" }),
        };
        let signer = signer.transpose().map_err(|_| malformed("a PKCS#8 Ed25519 key in DER"))?;
        let public = match (&signer, key) {
            (Some(signer), _) => signer.public_key().as_ref(),
            (None, KeyMaterial::Public(public)) => public,
            (None, _) => return Err(OpenError::Library),
        };
        let verifier = ParsedPublicKey::new(&signature::ED25519, public)
            .map_err(|_| malformed("an SPKI Ed25519 key in DER, or 32 bytes"))?;
        Ok(Self { signer, verifier })
    }
}

fn malformed(expected: &'static str) -> OpenError {
    OpenError::MalformedKey { expected }
}

impl Mechanism for Ed25519Session {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Ed25519
    }

    fn can(&self, op: Op) -> bool {
        op == Op::Verify || self.signer.is_some() && op == Op::Sign
    }

    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        if op == Op::Verify {
            return check_input(head_len <= input_len).map(|()| 0);
        }
        check_input(head_len == 0).map(|()| SIGNATURE_LEN)
    }

    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        if op == Op::Verify {
            let (signature, message) = input.split_at_checked(head_len).ok_or(Refusal::InputLength)?;
            return check_verified(self.verifier.verify_sig(message, signature).is_ok());
        }
        let signer = self.signer.as_ref().ok_or(Refusal::Unsupported)?;
        let signature = signer.try_sign(input).map_err(|_| Refusal::Internal)?;
        output[..SIGNATURE_LEN].copy_from_slice(signature.as_ref());
        Ok(SIGNATURE_LEN)
    }
}

pub(super) struct X25519Session(PrivateKey);

impl X25519Session {
    pub(super) fn open(key: &KeyMaterial) -> Result<Self, OpenError> {
        let KeyMaterial::Private(secret) = key else {
            return Err(OpenError::KeyKind { expected: "a private X25519 key" });
        };
        let key: &[u8; X25519_LEN] = exactly(secret.expose())?;
        PrivateKey::from_private_key(&agreement::X25519, key).map(Self).map_err(|_| OpenError::Library)
    }
}

impl Mechanism for X25519Session {
    fn algorithm(&self) -> Algorithm {
        Algorithm::X25519
    }

    fn can(&self, op: Op) -> bool {
        op == Op::Derive
    }

    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        check_input(head_len == 0 && input_len == X25519_LEN).map(|()| X25519_LEN)
    }

    /// A peer of small order would make a secret that everybody knows, all zeros: it is refused.
    fn run(&self, _op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let peer = UnparsedPublicKey::new(&agreement::X25519, input);
        agreement::agree(&self.0, peer, Refusal::Authentication, |secret| {
            output[..X25519_LEN].copy_from_slice(secret);
            Ok(X25519_LEN)
        })
    }
}
