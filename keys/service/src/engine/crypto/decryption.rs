//! RSA decryption, and encryption to the public part.
//!
//! Decrypt: ciphertext, of exactly the modulus's length → plaintext. Encrypt: the other way round.

use std::ops::RangeInclusive;

use sidecore_core::session::{Op, Refusal};

use super::error::SessionError;
use super::implicit_rejection::ImplicitRejection;
use super::key::{self, Key};
use super::mechanism::{Mechanism, Opened, Written, check_input};
use crate::ffi::padding::Padding;
use crate::ffi::pkey::PKey;
use crate::spec::{DecryptionPadding, EncryptionPadding, KeyMaterial};

/// Bytes that PKCS#1 v1.5 adds to a plaintext.
const PADDING_LEN: usize = 11;
/// Longest label of OAEP, bytes: each session keeps its own.
const MAX_LABEL: usize = 1024;

struct Decryption {
    key: PKey,
    padding: Padding,
    /// Present for the padding of PKCS#1 v1.5.
    rejection: Option<Box<ImplicitRejection>>,
}

pub(super) fn open(padding: &DecryptionPadding, key: &KeyMaterial) -> Result<Opened, SessionError> {
    let key = Key::open(&key::RSA, key)?;
    if !key.private {
        return Err(SessionError::WrongKind("a private RSA key"));
    }
    opened(padding, key)
}

/// A session on the public part, in DER: for private operations it computes only lengths.
pub(super) fn public(padding: &DecryptionPadding, spki: &[u8]) -> Result<Opened, SessionError> {
    opened(padding, Key::open(&key::RSA, &KeyMaterial::Public(spki.to_vec()))?)
}

fn opened(padding: &DecryptionPadding, key: Key) -> Result<Opened, SessionError> {
    let mut rejection = None;
    match padding {
        DecryptionPadding::Pkcs1 if !key.private => {}
        DecryptionPadding::Pkcs1 => rejection = Some(ImplicitRejection::new(&key.pkey)?.into()),
        DecryptionPadding::Oaep { .. } => drop(check_padding(&key, padding)?),
    }
    let mechanism = Decryption { key: key.pkey, padding: Padding::Decryption(padding.clone()), rejection };
    Ok(Opened { algorithm: key.algorithm, ops: &[Op::Decrypt], mechanism: Box::new(mechanism) })
}

/// The most bytes of plaintext under this padding.
fn check_padding(key: &Key, padding: &DecryptionPadding) -> Result<usize, SessionError> {
    let overhead = match padding {
        DecryptionPadding::Pkcs1 => PADDING_LEN,
        DecryptionPadding::Oaep { label, .. } if label.len() > MAX_LABEL => {
            return Err(SessionError::LongLabel { found: label.len(), most: MAX_LABEL });
        }
        DecryptionPadding::Oaep { hash, .. } => 2 * hash.len() + 2,
    };
    key.check_room(overhead)?;
    Ok(key.pkey.len() - overhead)
}

struct Encryption {
    key: PKey,
    padding: Padding,
    plaintext: RangeInclusive<usize>,
}

pub(super) fn encryption(padding: &EncryptionPadding, key: &KeyMaterial) -> Result<Opened, SessionError> {
    let key = Key::open(&key::RSA, key)?;
    let plaintext = match padding {
        EncryptionPadding::None => key.pkey.len()..=key.pkey.len(),
        EncryptionPadding::Padded(padding) => 0..=check_padding(&key, padding)?,
    };
    let mechanism = Encryption { key: key.pkey, padding: Padding::Encryption(padding.clone()), plaintext };
    Ok(Opened { algorithm: key.algorithm, ops: &[Op::Encrypt], mechanism: Box::new(mechanism) })
}

impl Mechanism for Encryption {
    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        check_input(head_len == 0 && self.plaintext.contains(&input_len))?;
        Ok(self.key.len())
    }

    fn run(&self, _op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        // An unpadded input may exceed the modulus.
        self.key.encrypt(&self.padding, input, output).ok_or(Refusal::Authentication)
    }
}

impl Mechanism for Decryption {
    fn output_len(&self, _op: Op, head_len: usize, input_len: usize) -> Written {
        check_input(head_len == 0 && input_len == self.key.len())?;
        Ok(input_len)
    }

    fn refuse_bad_padding(&mut self) {
        if let Some(rejection) = &mut self.rejection {
            rejection.is_explicit = true;
        }
    }

    fn run(&self, _op: Op, _head_len: usize, input: &[u8], output: &mut [u8]) -> Written {
        let written = match &self.rejection {
            Some(rejection) => rejection.decrypt(&self.key, input, output),
            None => self.key.decrypt(&self.padding, input, output),
        };
        written.ok_or_else(|| {
            output.fill(0);
            Refusal::Authentication
        })
    }
}
