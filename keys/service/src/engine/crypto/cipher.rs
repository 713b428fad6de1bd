//! Unauthenticated modes: counter, cipher block chaining, XTS.
//!
//! iv ‖ data → data. The iv has 16 bytes, for triple DES 8; for XTS it is the tweak. `head_len` is 0.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use sidecore_batch::cbc;
use sidecore_core::session::{Op, Refusal};

use super::batch::BatchKey;
use super::error::SessionError;
use super::mechanism::{Mechanism, Written, check_input, overlap_in_part};
use super::xts::Aes128Xts;
use crate::ffi::aes::AesKey;
use crate::ffi::cipher::CipherKey;
use crate::ffi::{Direction, Source, aes};
use crate::shm::span::Span;
use crate::spec::Cipher;

/// Limit of a data unit in IEEE 1619: 2^20 blocks.
const MAX_DATA_UNIT: usize = 16 << 20;

enum Keys {
    Ctr(AesKey),
    Cbc {
        encrypt: AesKey,
        decrypt: AesKey,
        /// Present where this machine encrypts several messages side by side.
        batched: Option<Box<cbc::Key>>,
    },
    Xts128(Aes128Xts),
    /// AES-256 in XTS mode, triple DES.
    Other(CipherKey),
}

pub(super) struct Ciphers {
    cipher: Cipher,
    keys: Keys,
}

impl Ciphers {
    /// `key` has the length of the cipher's key.
    pub(super) fn open(cipher: Cipher, key: &[u8]) -> Result<Self, SessionError> {
        let aes = |direction| AesKey::new(key, direction);
        let (first, second) = key.split_at(key.len() / 2);
        let keys = match cipher {
            Cipher::Aes128Xts | Cipher::Aes256Xts if verify_slices_are_equal(first, second).is_ok() => {
                return Err(SessionError::EqualHalves);
            }
            Cipher::Aes128Ctr | Cipher::Aes256Ctr => aes(Direction::Encrypt).map(Keys::Ctr),
            Cipher::Aes128Cbc | Cipher::Aes256Cbc => aes(Direction::Encrypt)
                .zip(aes(Direction::Decrypt))
                .map(|(encrypt, decrypt)| Keys::Cbc { encrypt, decrypt, batched: cbc::Key::new(key).map(Box::new) }),
            Cipher::Aes128Xts => Aes128Xts::new(key).map(Keys::Xts128),
            Cipher::Aes256Xts => CipherKey::aes_256_xts(key).map(Keys::Other),
            Cipher::TripleDesCbc => CipherKey::triple_des_cbc(key).map(Keys::Other),
            Cipher::Aes128Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => None,
        };
        Ok(Self { cipher, keys: keys.ok_or(SessionError::Library)? })
    }

    fn takes(&self, len: usize) -> bool {
        match self.cipher {
            Cipher::Aes128Cbc | Cipher::Aes256Cbc | Cipher::TripleDesCbc => len.is_multiple_of(self.cipher.iv_len()),
            Cipher::Aes128Xts | Cipher::Aes256Xts => (aes::BLOCK_LEN..=MAX_DATA_UNIT).contains(&len),
            _ => true,
        }
    }

    #[inline]
    fn run_on(&self, op: Op, iv: &[u8], input: Source<'_>, output: Span<'_>) -> Written {
        let direction = if op == Op::Encrypt { Direction::Encrypt } else { Direction::Decrypt };
        let written = match &self.keys {
            Keys::Ctr(key) => key.ctr(iv, input, output),
            Keys::Cbc { encrypt, .. } if op == Op::Encrypt => encrypt.cbc(iv, input, output),
            Keys::Cbc { decrypt, .. } => decrypt.cbc(iv, input, output),
            Keys::Xts128(key) => key.data_unit(direction, iv, input, output),
            Keys::Other(key) => key.cipher(direction, iv, input, output),
        };
        written.ok_or(Refusal::Internal)
    }
}

impl Mechanism for Ciphers {
    #[inline]
    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        let len = input_len.checked_sub(self.cipher.iv_len()).ok_or(Refusal::InputLength)?;
        check_input(head_len == 0 && self.takes(len))?;
        Ok(len)
    }

    #[inline]
    fn run(&self, op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (iv, data) = input.split_at_checked(self.cipher.iv_len()).ok_or(Refusal::InputLength)?;
        self.run_on(op, iv, data.into(), Span::of(output))
    }

    fn batched(&self, op: Op) -> Option<BatchKey<'_>> {
        match &self.keys {
            Keys::Cbc { batched, .. } if op == Op::Encrypt => batched.as_deref().map(BatchKey::Cbc),
            _ => None,
        }
    }

    fn run_spans(&self, op: Op, _head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        let mut iv = [0; aes::BLOCK_LEN];
        let iv = &mut iv[..self.cipher.iv_len()];
        let data = input.slice(iv.len(), input.len().checked_sub(iv.len())?)?;
        if overlap_in_part(data, output) {
            return None;
        }
        input.copy_to(iv);
        Some(self.run_on(op, iv, data.into(), output))
    }
}
