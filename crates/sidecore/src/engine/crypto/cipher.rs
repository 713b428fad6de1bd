//! Unauthenticated modes: counter, cipher block chaining, XTS.
//!
//! iv ‖ data → data. The iv has 16 bytes, for triple DES 8; for XTS it is the tweak. `head_len` is 0.

use sidecore_core::session::{Op, Refusal};

use super::mechanism::{LIBRARY, Mechanism, Written, check_input, overlap_in_part};
use super::xts::Aes128Xts;
use crate::ffi::aes::AesKey;
use crate::ffi::cipher::CipherKey;
use crate::ffi::{Direction, Sink, Source, aes, des};
use crate::shm::span::Span;
use crate::spec::Cipher;

/// IEEE 1619 ends a data unit there: 2^20 blocks.
const MAX_DATA_UNIT: usize = 16 << 20;

/// A mode with its key schedules, both directions.
pub(super) enum Mode {
    Ctr(AesKey),
    Cbc { encrypt: AesKey, decrypt: AesKey },
    Xts128(Aes128Xts),
    Xts256(CipherKey),
    TripleDes(des::TripleDesKey),
}

impl Mode {
    /// `key` has the length of the cipher's key.
    pub(super) fn open(cipher: Cipher, key: &[u8]) -> Result<Self, String> {
        let aes = |direction| AesKey::new(key, direction);
        let (first, second) = key.split_at(key.len() / 2);
        let mode = match cipher {
            Cipher::Aes128Xts | Cipher::Aes256Xts if crate::ffi::equal(first, second) => {
                return Err("the two halves of the XTS key are equal: give two independent keys".to_owned());
            }
            Cipher::Aes128Ctr | Cipher::Aes256Ctr => aes(Direction::Encrypt).map(Self::Ctr),
            Cipher::Aes128Cbc | Cipher::Aes256Cbc => aes(Direction::Encrypt)
                .zip(aes(Direction::Decrypt))
                .map(|(encrypt, decrypt)| Self::Cbc { encrypt, decrypt }),
            Cipher::TripleDesCbc => key.try_into().ok().map(des::TripleDesKey::new).map(Self::TripleDes),
            Cipher::Aes128Xts => Aes128Xts::new(key).map(Self::Xts128),
            Cipher::Aes256Xts => CipherKey::aes_256_xts(key).map(Self::Xts256),
            Cipher::Aes128Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => None,
        };
        mode.ok_or_else(|| LIBRARY.to_owned())
    }

    fn iv_len(&self) -> usize {
        match self {
            Self::TripleDes(_) => des::BLOCK_LEN,
            _ => aes::BLOCK_LEN,
        }
    }

    fn takes(&self, len: usize) -> bool {
        match self {
            Self::Ctr(_) => true,
            Self::Cbc { .. } => len.is_multiple_of(aes::BLOCK_LEN),
            Self::TripleDes(_) => len.is_multiple_of(des::BLOCK_LEN),
            Self::Xts128(_) | Self::Xts256(_) => (aes::BLOCK_LEN..=MAX_DATA_UNIT).contains(&len),
        }
    }

    #[inline]
    fn cipher(&self, op: Op, iv: &[u8], input: Source<'_>, output: Sink<'_>) -> Written {
        let direction = if op == Op::Encrypt { Direction::Encrypt } else { Direction::Decrypt };
        let written = match self {
            Self::TripleDes(key) => Some(key.cbc(direction, vector(iv)?, input, output)),
            Self::Ctr(key) => Some(key.ctr(vector(iv)?, input, output)),
            Self::Cbc { encrypt, .. } if op == Op::Encrypt => Some(encrypt.cbc(vector(iv)?, input, output)),
            Self::Cbc { decrypt, .. } => Some(decrypt.cbc(vector(iv)?, input, output)),
            Self::Xts128(key) => key.data_unit(direction, vector(iv)?, input, output),
            Self::Xts256(key) => key.data_unit(direction, vector(iv)?, input, output),
        };
        written.ok_or(Refusal::Internal)
    }
}

impl Mechanism for Mode {
    #[inline]
    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        let len = input_len.checked_sub(self.iv_len()).ok_or(Refusal::InputLength)?;
        check_input(head_len == 0 && self.takes(len))?;
        Ok(len)
    }

    #[inline]
    fn run(&self, op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (iv, data) = input.split_at_checked(self.iv_len()).ok_or(Refusal::InputLength)?;
        self.cipher(op, iv, data.into(), output.into())
    }

    fn run_spans(&self, op: Op, _head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        let mut iv = [0; aes::BLOCK_LEN];
        let iv = &mut iv[..self.iv_len()];
        let data = input.slice(iv.len(), input.len().checked_sub(iv.len())?)?;
        if overlap_in_part(data, output) {
            return None;
        }
        input.copy_to(iv);
        Some(self.cipher(op, iv, data.into(), output.into()))
    }
}

#[inline]
fn vector<const N: usize>(iv: &[u8]) -> Result<&[u8; N], Refusal> {
    iv.try_into().map_err(|_| Refusal::InputLength)
}
