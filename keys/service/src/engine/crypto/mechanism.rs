//! The interface of each family of algorithms to a session, and their shared checks.

use sidecore_core::session::{Algorithm, Op, Refusal};

use super::batch::BatchKey;
use super::error::SessionError;
use crate::ffi::hash;
use crate::shm::span::Span;
use crate::spec::{Hash, KeyMaterial};

pub(super) type Written = Result<usize, Refusal>;

pub(super) struct Opened {
    pub(super) algorithm: Algorithm,
    pub(super) ops: &'static [Op],
    pub(super) mechanism: Box<dyn Mechanism>,
}

/// One family of algorithms with its key. The session calls `run` and `run_spans` only for supported operations, and
/// for lengths that `output_len` accepted.
pub(super) trait Mechanism: Send + Sync {
    /// Checks the lengths; returns the most bytes that `run` writes.
    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written;

    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written;

    /// Writes the digest of a message to the front of `made`, if that may be signed in the message's place, and
    /// returns its length. `None`: the input itself is needed.
    fn digest(&self, _op: Op, _message: &[u8], _made: &mut [u8; hash::MAX_LEN]) -> Option<usize> {
        None
    }

    /// Whether that can be the result of `op` on this input, as far as the public part of the key tells. The input is
    /// a digest where [`digest`](Self::digest) makes one.
    fn fits(&self, _op: Op, _input: &[u8], _result: &[u8]) -> bool {
        true
    }

    fn batched(&self, _op: Op) -> Option<BatchKey<'_>> {
        None
    }

    /// Turns a request's input into the input of a batch. `None`: it has to be done alone.
    fn prepare(&self, _op: Op, _input: &mut Vec<u8>) -> Option<()> {
        Some(())
    }

    fn refuse_bad_padding(&mut self) {}

    /// Does it in shared memory, where this is safe and faster than copying.
    fn run_spans(&self, _op: Op, _head_len: usize, _input: Span<'_>, _output: Span<'_>) -> Option<Written> {
        None
    }
}

/// Whether the two share bytes without starting at the same one: then a cipher would read bytes that it wrote, and
/// the request takes the private path. With the same start, or without a common byte, it may run in place.
pub(super) fn overlap_in_part(input: Span<'_>, output: Span<'_>) -> bool {
    let (from, to) = (input.as_ptr() as usize, output.as_ptr() as usize);
    from != to && from < to.saturating_add(output.len()) && to < from.saturating_add(input.len())
}

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
pub(super) fn check_hash(hash: Hash) -> Result<Hash, SessionError> {
    if hash == Hash::Sha1 { Err(SessionError::WeakHash(hash)) } else { Ok(hash) }
}

pub(super) fn check_len(key: &[u8], expected: usize) -> Result<(), SessionError> {
    let found = key.len();
    if found == expected { Ok(()) } else { Err(SessionError::KeyLength { found, expected }) }
}

pub(super) fn symmetric(key: &KeyMaterial) -> Result<&[u8], SessionError> {
    match key {
        KeyMaterial::Symmetric(secret) => Ok(secret.expose()),
        _ => Err(SessionError::WrongKind("a symmetric key")),
    }
}

pub(super) fn keyless(key: &KeyMaterial) -> Result<(), SessionError> {
    if matches!(key, KeyMaterial::None) { Ok(()) } else { Err(SessionError::WrongKind("none")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shifted_overlap_is_in_part() {
        let mut memory = [0u8; 64];
        let whole = Span::of(&mut memory);
        let at = |offset, len| whole.slice(offset, len).expect("inside");
        assert!(!overlap_in_part(at(0, 16), at(0, 16)));
        assert!(!overlap_in_part(at(0, 16), at(0, 32)));
        assert!(!overlap_in_part(at(0, 16), at(16, 16)));
        assert!(!overlap_in_part(at(32, 16), at(16, 16)));
        assert!(overlap_in_part(at(0, 16), at(15, 16)));
        assert!(overlap_in_part(at(16, 16), at(0, 17)));
    }
}
