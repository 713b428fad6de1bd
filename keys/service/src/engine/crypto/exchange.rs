//! Secrets shared with a peer: X25519, ECDH on P-256, P-384 and P-521, ML-KEM-768.
//!
//! Derive: the peer's public key (32) → secret (32); of ECDH a point, uncompressed or compressed → a coordinate.
//! Encapsulate: nothing → ciphertext (1088) ‖ secret (32). Decapsulate: ciphertext → secret.

use sidecore_client::keys::Kind;
use sidecore_core::session::{Algorithm, Op, Refusal};

use super::error::SessionError;
use super::key::{self, Key};
use super::mechanism::{Mechanism, Opened, Written, check_input, check_len};
use crate::ffi::pkey::{DECAPSULATION_KEY_LEN, PKey, SEED_LEN};
use crate::spec::KeyMaterial;

const X25519_LEN: usize = 32;
const CIPHERTEXT_LEN: usize = 1088;
const ENCAPSULATION_KEY_LEN: usize = 1184;
/// Length of the secrets of X25519 and ML-KEM-768, in bytes.
const SECRET_LEN: usize = 32;

struct Exchange {
    key: PKey,
}

pub(super) fn x25519(key: &KeyMaterial) -> Result<Opened, SessionError> {
    let KeyMaterial::Private(secret) = key else { return Err(SessionError::WrongKind("a private X25519 key")) };
    check_len(secret.expose(), X25519_LEN)?;
    let key = PKey::raw_private(Kind::X25519, secret.expose()).ok_or(SessionError::Library)?;
    Ok(Opened { algorithm: Algorithm::X25519, ops: &[Op::Derive], mechanism: Box::new(Exchange { key }) })
}

pub(super) fn ecdh(key: &KeyMaterial) -> Result<Opened, SessionError> {
    let key = Key::open(&key::EC, key)?;
    if !key.private {
        return Err(SessionError::WrongKind("a private EC key"));
    }
    Ok(on_curve(key))
}

/// A session on the public part of an EC key, in DER: for private operations it computes only lengths.
pub(super) fn ecdh_public(spki: &[u8]) -> Result<Opened, SessionError> {
    Ok(on_curve(Key::open(&key::EC, &KeyMaterial::Public(spki.to_vec()))?))
}

fn on_curve(Key { algorithm, pkey, .. }: Key) -> Opened {
    Opened {
        algorithm,
        ops: &[Op::Derive],
        mechanism: Box::new(Curve { coordinate: pkey.coordinate_len(), key: pkey }),
    }
}

/// A session on the public part, in DER: it does the public operations, and computes lengths for the private ones.
pub(super) fn public(kind: Kind, spki: &[u8]) -> Result<Opened, SessionError> {
    let (algorithm, ops, what): (_, &[Op], _) = match kind {
        Kind::X25519 => (Algorithm::X25519, &[Op::Derive], "a public X25519 key in DER"),
        _ => (Algorithm::MlKem768, &[Op::Encapsulate, Op::Decapsulate], "an ML-KEM-768 encapsulation key in DER"),
    };
    let key = PKey::public(spki).filter(|key| key.kind() == Some(kind)).ok_or(SessionError::Malformed(what))?;
    Ok(Opened { algorithm, ops, mechanism: Box::new(Exchange { key }) })
}

pub(super) fn ml_kem(key: &KeyMaterial) -> Result<Opened, SessionError> {
    let (key, ops): (_, &[Op]) = match key {
        KeyMaterial::Private(secret) => {
            let bytes = secret.expose();
            if bytes.len() != SEED_LEN {
                check_len(bytes, DECAPSULATION_KEY_LEN)?;
            }
            (PKey::raw_private(Kind::MlKem768, bytes), &[Op::Encapsulate, Op::Decapsulate])
        }
        KeyMaterial::Public(bytes) => {
            check_len(bytes, ENCAPSULATION_KEY_LEN)?;
            (PKey::raw_public(Kind::MlKem768, bytes), &[Op::Encapsulate])
        }
        _ => return Err(SessionError::WrongKind("an ML-KEM-768 decapsulation or encapsulation key")),
    };
    // The library checks a key's numbers and its inner hash only at use: the check belongs here, not in every
    // request.
    let key = key.ok_or(SessionError::Library)?;
    if !key.is_sound() {
        return Err(SessionError::Malformed("an ML-KEM-768 key whose parts fit each other"));
    }
    Ok(Opened { algorithm: Algorithm::MlKem768, ops, mechanism: Box::new(Exchange { key }) })
}

impl Mechanism for Exchange {
    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        let (input, output) = match op {
            Op::Encapsulate => (0, CIPHERTEXT_LEN + SECRET_LEN),
            Op::Decapsulate => (CIPHERTEXT_LEN, SECRET_LEN),
            _ => (X25519_LEN, SECRET_LEN),
        };
        check_input(head_len == 0 && input_len == input).map(|()| output)
    }

    // A secret of zeros would be publicly known.
    fn fits(&self, _op: Op, _input: &[u8], secret: &[u8]) -> bool {
        secret.len() == SECRET_LEN && secret.iter().any(|byte| *byte != 0)
    }

    fn run(&self, op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        match op {
            Op::Encapsulate => {
                let (ciphertext, secret) = output.split_at_mut_checked(CIPHERTEXT_LEN).ok_or(Refusal::OutputLength)?;
                self.key.encapsulate(ciphertext, secret).ok_or(Refusal::Internal)?;
                Ok(CIPHERTEXT_LEN + SECRET_LEN)
            }
            Op::Decapsulate => self.key.decapsulate(input, output).ok_or(Refusal::Internal),
            // A peer of small order would make a publicly known secret, all zeros: it is refused.
            _ => {
                let secret = PKey::raw_public(Kind::X25519, input).and_then(|peer| self.key.derive(&peer, output));
                secret.ok_or(Refusal::Authentication)
            }
        }
    }
}

struct Curve {
    key: PKey,
    coordinate: usize,
}

impl Mechanism for Curve {
    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        let lens = [1 + self.coordinate, 1 + 2 * self.coordinate];
        check_input(head_len == 0 && lens.contains(&input_len)).map(|()| self.coordinate)
    }

    fn fits(&self, _op: Op, _input: &[u8], secret: &[u8]) -> bool {
        secret.len() == self.coordinate
    }

    fn run(&self, _op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        // A point off the curve would reveal the key, one bit after the other: the library checks each point.
        self.key.derive_from_point(input, output).ok_or(Refusal::Authentication)
    }
}
