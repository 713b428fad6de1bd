//! Digests and HMAC.
//!
//! Digest: data → digest. HMAC Sign: data → tag. HMAC Verify: tag (`head_len`, its full length) ‖ data → nothing.

use sidecore_core::session::{Algorithm, Op, Refusal};

use super::error::OpenError;
use super::mechanism::{Mechanism, Written, check_hash, check_input, check_verified};
use crate::ffi::{self, hash};
use crate::shm::span::Span;
use crate::spec::Hash;

pub(super) struct DigestSession(Hash);

impl DigestSession {
    pub(super) fn open(hash: Hash) -> Result<Self, OpenError> {
        check_hash(hash).map(Self)
    }
}

impl Mechanism for DigestSession {
    fn algorithm(&self) -> Algorithm {
        match self.0 {
            Hash::Sha1 | Hash::Sha256 => Algorithm::Sha256,
            Hash::Sha384 => Algorithm::Sha384,
            Hash::Sha512 => Algorithm::Sha512,
        }
    }

    fn can(&self, op: Op) -> bool {
        op == Op::Digest
    }

    #[inline]
    fn output_len(&self, _op: Op, head_len: usize, _input_len: usize) -> Written {
        check_input(head_len == 0)?;
        Ok(self.0.len())
    }

    #[inline]
    fn run(&self, _op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        hash::digest(self.0, input.into(), output);
        Ok(self.0.len())
    }

    fn run_spans(&self, _op: Op, _head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        let mut digest = [0; hash::MAX_LEN];
        hash::digest(self.0, input.into(), &mut digest);
        output.copy_from(&digest[..self.0.len()]);
        Some(Ok(self.0.len()))
    }
}

pub(super) struct HmacSession {
    hash: Hash,
    key: hash::HmacKey,
}

impl HmacSession {
    pub(super) fn open(hash: Hash, key: &[u8]) -> Result<Self, OpenError> {
        if key.is_empty() {
            return Err(OpenError::KeyLength { expected: hash.len(), found: 0 });
        }
        let key = hash::HmacKey::new(check_hash(hash)?, key).ok_or(OpenError::Library)?;
        Ok(Self { hash, key })
    }
}

impl Mechanism for HmacSession {
    fn algorithm(&self) -> Algorithm {
        match self.hash {
            Hash::Sha1 | Hash::Sha256 => Algorithm::HmacSha256,
            Hash::Sha384 => Algorithm::HmacSha384,
            Hash::Sha512 => Algorithm::HmacSha512,
        }
    }

    fn can(&self, op: Op) -> bool {
        matches!(op, Op::Sign | Op::Verify)
    }

    #[inline]
    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        if op == Op::Sign {
            check_input(head_len == 0)?;
            return Ok(self.hash.len());
        }
        check_input(head_len == self.hash.len() && head_len <= input_len)?;
        Ok(0)
    }

    #[inline]
    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (claimed, data) = input.split_at_checked(head_len).ok_or(Refusal::InputLength)?;
        let mut tag = [0; hash::MAX_LEN];
        let len = self.key.sign(data.into(), &mut tag);
        if op == Op::Sign {
            output[..len].copy_from_slice(&tag[..len]);
            return Ok(len);
        }
        check_verified(ffi::equal(claimed, &tag[..len]))
    }

    fn run_spans(&self, op: Op, _head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        if op != Op::Sign {
            return None;
        }
        let mut tag = [0; hash::MAX_LEN];
        let len = self.key.sign(input.into(), &mut tag);
        output.copy_from(&tag[..len]);
        Some(Ok(len))
    }
}
