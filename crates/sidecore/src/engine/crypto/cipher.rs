//! Unauthenticated modes: counter, cipher block chaining, XTS.
//!
//! iv ‖ data → data. The iv has 16 bytes, for triple DES 8; for XTS it is the tweak. `head_len` is 0.

use sidecore_core::session::{Algorithm, Op, Refusal};

use super::error::OpenError;
use super::mechanism::{Mechanism, Written, check_input, exactly};
use super::overlap;
use super::xts::Aes128Xts;
use crate::ffi::aes::{DecryptKey, EncryptKey};
use crate::ffi::cipher::XtsKey;
use crate::ffi::{Sink, Source, aes, des};
use crate::shm::span::Span;
use crate::spec::Cipher;

/// IEEE 1619 ends a data unit there: 2^20 blocks.
const MAX_DATA_UNIT: usize = 16 << 20;

/// A mode with its key schedules, both directions.
enum Mode {
    Ctr(EncryptKey),
    Cbc(EncryptKey, DecryptKey),
    Xts128(Aes128Xts),
    Xts256(XtsKey),
    TripleDes(des::TripleDesKey),
}

pub(super) struct CipherSession {
    algorithm: Algorithm,
    mode: Mode,
}

impl CipherSession {
    /// `key` has the length of the cipher's key.
    pub(super) fn open(algorithm: Algorithm, cipher: Cipher, key: &[u8]) -> Result<Self, OpenError> {
        Ok(Self { algorithm, mode: Mode::open(cipher, key)? })
    }
}

impl Mode {
    fn open(cipher: Cipher, key: &[u8]) -> Result<Self, OpenError> {
        let encrypt = |key| EncryptKey::new(key).ok_or(OpenError::Library);
        let decrypt = |key| DecryptKey::new(key).ok_or(OpenError::Library);
        Ok(match cipher {
            Cipher::Aes128Ctr | Cipher::Aes256Ctr => Self::Ctr(encrypt(key)?),
            Cipher::Aes128Cbc | Cipher::Aes256Cbc => Self::Cbc(encrypt(key)?, decrypt(key)?),
            Cipher::TripleDesCbc => Self::TripleDes(des::TripleDesKey::new(exactly(key)?)),
            Cipher::Aes128Xts => Self::Xts128(Aes128Xts::new(different_halves(key)?)?),
            Cipher::Aes256Xts => {
                let key = exactly(different_halves(key)?)?;
                Self::Xts256(XtsKey::new(key).ok_or(OpenError::Library)?)
            }
            Cipher::Aes128Gcm | Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => return Err(OpenError::Library),
        })
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
            Self::Cbc(..) => len.is_multiple_of(aes::BLOCK_LEN),
            Self::TripleDes(_) => len.is_multiple_of(des::BLOCK_LEN),
            Self::Xts128(_) | Self::Xts256(_) => (aes::BLOCK_LEN..=MAX_DATA_UNIT).contains(&len),
        }
    }

    #[inline]
    fn run(&self, op: Op, iv: &[u8], input: Source<'_>, output: Sink<'_>) -> Written {
        let len = input.len();
        match (self, op) {
            (Self::TripleDes(key), Op::Encrypt) => key.encrypt(*vector(iv)?, input, output),
            (Self::TripleDes(key), _) => key.decrypt(*vector(iv)?, input, output),
            (Self::Ctr(key), _) => key.ctr(vector(iv)?, input, output),
            (Self::Cbc(key, _), Op::Encrypt) => key.cbc(vector(iv)?, input, output),
            (Self::Cbc(_, key), _) => key.cbc(vector(iv)?, input, output),
            (Self::Xts128(key), Op::Encrypt) => {
                return key.encrypt(vector(iv)?, input, output).ok_or(Refusal::Internal);
            }
            (Self::Xts128(key), _) => return key.decrypt(vector(iv)?, input, output).ok_or(Refusal::Internal),
            (Self::Xts256(key), Op::Encrypt) => {
                return key.encrypt(vector(iv)?, input, output).ok_or(Refusal::Internal);
            }
            (Self::Xts256(key), _) => return key.decrypt(vector(iv)?, input, output).ok_or(Refusal::Internal),
        }
        Ok(len)
    }
}

impl Mechanism for CipherSession {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    fn can(&self, op: Op) -> bool {
        matches!(op, Op::Encrypt | Op::Decrypt)
    }

    #[inline]
    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        let len = input_len.checked_sub(self.mode.iv_len()).ok_or(Refusal::InputLength)?;
        check_input(head_len == 0 && self.mode.takes(len))?;
        Ok(len)
    }

    #[inline]
    fn run(&self, op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let (iv, data) = input.split_at_checked(self.mode.iv_len()).ok_or(Refusal::InputLength)?;
        self.mode.run(op, iv, data.into(), output.into())
    }

    fn run_spans(&self, op: Op, _head_len: usize, input: Span<'_>, output: Span<'_>) -> Option<Written> {
        let mut iv = [0; aes::BLOCK_LEN];
        let iv = &mut iv[..self.mode.iv_len()];
        let data = input.slice(iv.len(), input.len().checked_sub(iv.len())?)?;
        if overlap::partial(data, output) {
            return None;
        }
        input.copy_to(iv);
        Some(self.mode.run(op, iv, data.into(), output.into()))
    }
}

#[inline]
fn vector<const N: usize>(iv: &[u8]) -> Result<&[u8; N], Refusal> {
    iv.try_into().map_err(|_| Refusal::InputLength)
}

fn different_halves(key: &[u8]) -> Result<&[u8], OpenError> {
    let (first, second) = key.split_at(key.len() / 2);
    if crate::ffi::equal(first, second) { Err(OpenError::EqualXtsKeys) } else { Ok(key) }
}
