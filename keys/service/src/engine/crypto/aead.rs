//! AES-GCM and ChaCha20-Poly1305.
//!
//! Encrypt: nonce (12) ‖ associated data (`head_len`) ‖ plaintext → ciphertext ‖ tag (16). Decrypt: the reverse.

use sidecore_core::session::{Op, Refusal};

use super::mechanism::{Mechanism, Written, overlap_in_part};
use crate::ffi::aead::{AeadKey, NONCE_LEN, TAG_LEN};
use crate::shm::span::Span;

/// Associated data up to this length is copied out of shared memory; longer ones take the private path.
const MAX_SHARED_AAD: usize = 64;

impl Mechanism for AeadKey {
    #[inline]
    fn output_len(&self, op: Op, head_len: usize, input_len: usize) -> Written {
        let payload = input_len.checked_sub(NONCE_LEN).and_then(|rest| rest.checked_sub(head_len));
        let output = match op {
            Op::Encrypt => payload.and_then(|len| len.checked_add(TAG_LEN)),
            _ => payload.and_then(|len| len.checked_sub(TAG_LEN)),
        };
        output.ok_or(Refusal::InputLength)
    }

    #[inline]
    fn run(&self, op: Op, head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (nonce, rest) = input.split_first_chunk().ok_or(Refusal::InputLength)?;
        let (aad, payload) = rest.split_at_checked(head_len).ok_or(Refusal::InputLength)?;
        match op {
            Op::Encrypt => self.seal(nonce, aad, payload.into(), Span::of(output)).ok_or(Refusal::Internal),
            _ => self.open(nonce, aad, payload, output).ok_or(Refusal::Authentication),
        }
    }

    fn run_spans(&self, op: Op, head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        if op != Op::Encrypt || head_len > MAX_SHARED_AAD {
            return None;
        }
        let (mut nonce, mut aad) = ([0; NONCE_LEN], [0; MAX_SHARED_AAD]);
        let start = NONCE_LEN + head_len;
        let plaintext = input.slice(start, input.len().checked_sub(start)?)?;
        if overlap_in_part(plaintext, output) {
            return None;
        }
        input.copy_to(&mut nonce);
        if head_len > 0 {
            input.slice(NONCE_LEN, head_len)?.copy_to(&mut aad[..head_len]);
        }
        let written = self.seal(&nonce, &aad[..head_len], plaintext.into(), output);
        Some(written.ok_or(Refusal::Internal))
    }
}
