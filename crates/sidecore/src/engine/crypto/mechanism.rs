//! What each family of algorithms gives a session, and the checks they share.

use sidecore_core::session::{Algorithm, Op, Refusal};

use super::error::OpenError;
use crate::shm::span::Span;
use crate::spec::{Hash, KeyMaterial};

/// Result of a request: the number of bytes written.
pub(super) type Written = Result<usize, Refusal>;

/// One family of algorithms with its key. The session calls `run` and `run_spans` only for operations that it can do
/// and lengths that `output_len` let pass.
pub(super) trait Mechanism: Send + Sync {
    /// The algorithm, as classes count it.
    fn algorithm(&self) -> Algorithm;

    /// Whether this key can do `op`.
    fn can(&self, op: Op) -> bool;

    /// Checks the lengths; the most bytes that `run` writes.
    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written;

    /// Does it in private memory.
    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written;

    /// Does it in shared memory, where this is safe and faster than copying.
    fn run_spans(&self, _op: Op, _head_len: usize, _input: Span<'_>, _output: Span<'_>) -> Option<Written> {
        None
    }
}

/// `Err(InputLength)` unless `fits`.
#[inline]
pub(super) fn check_input(fits: bool) -> Result<(), Refusal> {
    if fits { Ok(()) } else { Err(Refusal::InputLength) }
}

/// `Err(Authentication)` unless `verified`; nothing is written either way.
#[inline]
pub(super) fn check_verified(verified: bool) -> Written {
    if verified { Ok(0) } else { Err(Refusal::Authentication) }
}

/// SHA-1 is refused where a collision would matter.
pub(super) fn check_hash(hash: Hash) -> Result<Hash, OpenError> {
    if hash == Hash::Sha1 { Err(OpenError::UnsupportedHash(hash)) } else { Ok(hash) }
}

/// The raw bytes of a symmetric key.
pub(super) fn symmetric(key: &KeyMaterial) -> Result<&[u8], OpenError> {
    match key {
        KeyMaterial::Symmetric(secret) => Ok(secret.expose()),
        _ => Err(OpenError::KeyKind { expected: "a symmetric key" }),
    }
}

/// The key as an array of the length that the scheme demands.
pub(super) fn exactly<const N: usize>(key: &[u8]) -> Result<&[u8; N], OpenError> {
    key.try_into().map_err(|_| OpenError::KeyLength { expected: N, found: key.len() })
}

/// Nothing, where the scheme has no key.
pub(super) fn keyless(key: &KeyMaterial) -> Result<(), OpenError> {
    match key {
        KeyMaterial::None => Ok(()),
        _ => Err(OpenError::KeyKind { expected: "none" }),
    }
}
