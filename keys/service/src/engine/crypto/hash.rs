//! Digests and HMAC.
//!
//! Digest: data → digest. HMAC Sign: data → tag. HMAC Verify: tag (`head_len`, its full length) ‖ data → nothing.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use sidecore_core::session::{Op, Refusal};

use super::error::SessionError;
use super::mechanism::{Mechanism, Written, check_input, check_verified};
use crate::ffi::hash::{self, HmacKey};
use crate::shm::span::Span;
use crate::spec::Hash;

impl Mechanism for Hash {
    #[inline]
    fn output_len(&self, _op: Op, head_len: usize, _input_len: usize) -> Written {
        check_input(head_len == 0)?;
        Ok(self.len())
    }

    #[inline]
    fn run(&self, _op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        hash::digest(*self, input.into(), output);
        Ok(self.len())
    }

    fn run_spans(&self, _op: Op, _head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        let mut digest = [0; hash::MAX_LEN];
        hash::digest(*self, input.into(), &mut digest);
        output.copy_from(&digest[..self.len()]);
        Some(Ok(self.len()))
    }
}

pub(super) struct Hmac {
    key: HmacKey,
}

impl Hmac {
    pub(super) fn open(hash: Hash, key: &[u8]) -> Result<Self, SessionError> {
        Ok(Self { key: HmacKey::new(hash, key).ok_or(SessionError::Library)? })
    }
}

impl Mechanism for Hmac {
    #[inline]
    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        let len = self.key.hash.len();
        if op == Op::Sign {
            check_input(head_len == 0)?;
            return Ok(len);
        }
        check_input(head_len == len && head_len <= input_len)?;
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
        check_verified(verify_slices_are_equal(claimed, &tag[..len]).is_ok())
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
