//! Shared secrets: X25519, ECDH and ML-KEM-768.

use crate::keyops::call::{self, Request};
use crate::keyops::failure::{Failure, Reason};
use crate::keyops::key::{Key, Public, Raw};
use crate::keyops::wait::Caller;
use crate::spec::Scheme;
use sidecore_core::session::{Op, Refusal};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Length of a secret of X25519 and ML-KEM-768, bytes.
pub const SECRET_LEN: usize = 32;
/// Length of an encapsulation, bytes.
pub const CIPHERTEXT_LEN: usize = 1088;

/// Computes the shared secret of this private key and the peer's public key.
///
/// # Errors
/// A key of another type or without private part, a peer's key that gives no secret, or the service fails or refuses.
pub fn derive(caller: Caller<'_>, key: &Arc<Key>, peer: &Key) -> Result<Zeroizing<Vec<u8>>, Failure> {
    match (&key.public, &peer.public) {
        (Public::Raw(Raw::X25519, _), Public::Raw(Raw::X25519, point)) => {
            request(caller, key, Scheme::X25519, Op::Derive, point, SECRET_LEN)
        }
        (Public::Ec { curve, .. }, Public::Ec { curve: of_peer, point }) if curve == of_peer => {
            request(caller, key, Scheme::Ecdh, Op::Derive, point, curve.size())
        }
        _ => Err(wrong_peer()),
    }
}

/// Whether the peer's key is of the type and curve of this private key.
///
/// # Errors
/// It is not.
pub fn check_peer(key: &Key, peer: &Key) -> Result<(), Failure> {
    let fits = match (&key.public, &peer.public) {
        (Public::Raw(raw, _), Public::Raw(of_peer, _)) => raw == of_peer,
        (Public::Ec { curve, .. }, Public::Ec { curve: of_peer, .. }) => curve == of_peer,
        _ => false,
    };
    if fits { Ok(()) } else { Err(wrong_peer()) }
}

fn wrong_peer() -> Failure {
    Failure::input("the peer's key is of another type or curve: give one like the private key")
}

/// Length of the shared secret of a key with a peer, bytes.
pub fn secret_len(key: &Key) -> usize {
    match &key.public {
        Public::Ec { curve, .. } => curve.size(),
        _ => SECRET_LEN,
    }
}

/// Recovers the secret from an encapsulation.
///
/// # Errors
/// A key without private part, an encapsulation of another length, or the service fails or refuses.
pub fn decapsulate(caller: Caller<'_>, key: &Arc<Key>, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
    request(caller, key, Scheme::MlKem768, Op::Decapsulate, ciphertext, SECRET_LEN)
}

/// Makes a fresh encapsulation, followed by its secret.
///
/// # Errors
/// The service fails or refuses.
pub fn encapsulate(caller: Caller<'_>, key: &Arc<Key>) -> Result<Zeroizing<Vec<u8>>, Failure> {
    request(caller, key, Scheme::MlKem768, Op::Encapsulate, &[], CIPHERTEXT_LEN + SECRET_LEN)
}

fn request(
    caller: Caller<'_>,
    key: &Arc<Key>,
    scheme: Scheme,
    op: Op,
    input: &[u8],
    max_output: usize,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let request = Request { key, scheme, op, head: &[], input, max_output };
    match call::call(caller, &request)? {
        Ok(output) if output.len() == max_output => Ok(Zeroizing::new(output)),
        Ok(_) => Err(Failure::new(Reason::Service, "an answer of another length: update sidecore")),
        Err(Refusal::Authentication) => {
            Err(Failure::input("the peer's key gives a secret that everybody knows, or is no point of the curve"))
        }
        Err(Refusal::InputLength) => Err(Failure::input("an encapsulation of another length than 1088 bytes")),
        Err(refusal) => Err(refusal.into()),
    }
}
