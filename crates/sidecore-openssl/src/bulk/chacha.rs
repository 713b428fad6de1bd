//! ChaCha20-Poly1305 (RFC 8439). The service does whole messages: with each further piece it does the message so far again,
//! so that a message is best given at once.

use super::{BLOCK, Engine};
use crate::failure::Failure;
use sidecore::client::Options;
use sidecore::core::session::Op;
use zeroize::Zeroizing;

/// A message.
#[derive(Clone)]
pub(super) struct ChaCha {
    nonce: Vec<u8>,
    associated: Vec<u8>,
    encrypts: bool,
    /// What was given so far.
    input: Zeroizing<Vec<u8>>,
    /// The plaintext so far, where `input` is the ciphertext.
    plaintext: Zeroizing<Vec<u8>>,
    /// Of the message so far, where it is encrypted.
    tag: Option<[u8; BLOCK]>,
}

impl ChaCha {
    pub(super) fn new(nonce: &[u8], encrypts: bool) -> Self {
        let (input, plaintext) = (Zeroizing::default(), Zeroizing::default());
        Self { nonce: nonce.to_vec(), associated: Vec::new(), encrypts, input, plaintext, tag: None }
    }

    pub(super) fn associate(&mut self, data: &[u8]) -> Result<(), Failure> {
        if !self.input.is_empty() {
            return Err(Failure::input("associated data comes before the message"));
        }
        self.associated.extend(data);
        Ok(())
    }

    /// Encrypting is decrypting, but for the tag.
    pub(super) fn update(&mut self, engine: &Engine, options: &Options, data: &[u8]) -> Result<Vec<u8>, Failure> {
        let done = self.input.len();
        let all = Zeroizing::new([&self.input[..], data].concat());
        let mut output = engine.run(options, Op::Encrypt, &self.nonce, &self.associated, &all)?;
        let tag = output.split_off(all.len().min(output.len()));
        self.tag = tag.first_chunk().copied().filter(|_| self.encrypts);
        let piece = output.split_off(done.min(output.len()));
        self.input = all;
        if !self.encrypts {
            self.plaintext.extend(&piece);
        }
        Ok(piece)
    }

    /// The tag.
    pub(super) fn finish(&mut self, engine: &Engine, options: &Options) -> Result<[u8; BLOCK], Failure> {
        if let Some(tag) = self.tag {
            return Ok(tag);
        }
        let sealed = engine.run(options, Op::Encrypt, &self.nonce, &self.associated, &self.plaintext)?;
        Ok(sealed.last_chunk().copied().unwrap_or_default())
    }
}
