//! Ciphers whose keys the program has by nature: their work done by the service.
//!
//! A program hands a message over in pieces of any length and wants each piece's result at once.

mod cbc;
mod chacha;
mod ctr;
mod digest;
mod gcm;

use crate::call::{self, Request};
use crate::failure::{Failure, Reason};
use crate::key::{Key, Private, Public};
use cbc::Cbc;
use chacha::ChaCha;
use ctr::Ctr;
pub(crate) use digest::Sum;
use gcm::Gcm;
use sidecore::client::Options;
use sidecore::core::session::{Op, Refusal};
use sidecore::engine::crypto::{Cipher, Scheme, Secret};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Bytes of an AES block.
const BLOCK: usize = 16;
/// Most bytes of one request where a message can be divided: what a lane's arena holds twice.
const PIECE: usize = 8 << 10;

/// How a cipher is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Gcm,
    Ctr,
    Cbc,
    ChaChaPoly,
}

/// What OpenSSL offers under one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Algorithm {
    pub(crate) mode: Mode,
    /// What the service does for it.
    pub(crate) cipher: Cipher,
}

impl Algorithm {
    /// Whether it authenticates.
    pub(crate) fn is_aead(self) -> bool {
        matches!(self.mode, Mode::Gcm | Mode::ChaChaPoly)
    }

    /// Bytes of initialisation vector, unless set otherwise.
    pub(crate) fn iv_len(self) -> usize {
        if self.is_aead() { 12 } else { BLOCK }
    }

    /// What is encrypted at a time; 1: any number of bytes.
    pub(crate) fn block_len(self) -> usize {
        if self.mode == Mode::Cbc { BLOCK } else { 1 }
    }
}

/// A key that the program gave, and what the service does with it.
#[derive(Clone)]
struct Engine {
    key: Arc<Key>,
    cipher: Cipher,
}

impl Engine {
    fn new(algorithm: Algorithm, key: &[u8]) -> Self {
        let key = Key::new(Public::Symmetric, Private::Imported(Secret::from(key)));
        Self { key: Arc::new(key), cipher: algorithm.cipher }
    }

    /// Whether it is this key.
    fn has(&self, key: &[u8]) -> bool {
        matches!(&self.key.private, Private::Imported(own) if own.expose().ct_eq(key).into())
    }

    fn run(&self, options: &Options, op: Op, iv: &[u8], head: &[u8], input: &[u8]) -> Result<Vec<u8>, Failure> {
        let (scheme, max_output) = (Scheme::Cipher(self.cipher), input.len() + BLOCK);
        let request = Request { key: &self.key, scheme, op, iv, head, input, max_output };
        call::call(options, &request)?.map_err(|refusal| match refusal {
            Refusal::TooLarge => Failure::input(
                "the message is longer than the service's limits.max_request_bytes: raise it, or send shorter ones",
            ),
            other => Failure::new(Reason::Service, other.message()),
        })
    }
}

/// A message under way.
#[derive(Clone)]
enum Message {
    Gcm(Gcm),
    Ctr(Ctr),
    Cbc(Cbc),
    ChaCha(ChaCha),
}

/// A cipher at work, or about to.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) algorithm: Algorithm,
    engine: Option<Engine>,
    encrypts: bool,
    pub(crate) iv: Vec<u8>,
    pub(crate) iv_len: usize,
    pub(crate) padded: bool,
    /// To be checked, or made.
    tag: Option<Vec<u8>>,
    message: Option<Message>,
}

impl State {
    /// Without key.
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let iv_len = algorithm.iv_len();
        Self { algorithm, engine: None, encrypts: true, iv: Vec::new(), iv_len, padded: true, tag: None, message: None }
    }

    /// Begins a message; what is not given stays as it was.
    pub(crate) fn begin(&mut self, encrypts: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Failure> {
        if let Some(iv) = iv
            && iv.len() != self.iv_len
        {
            let text = format!("an initialisation vector of {} bytes: give one of {}", iv.len(), self.iv_len);
            return Err(Failure::input(text));
        }
        if let Some(key) = key {
            let expected = self.algorithm.cipher.key_len();
            if key.len() != expected {
                return Err(Failure::input(format!("a key of {} bytes: give one of {expected}", key.len())));
            }
            // Programs set the same key for each message: its session stays open.
            if !self.engine.as_ref().is_some_and(|engine| engine.has(key)) {
                self.engine = Some(Engine::new(self.algorithm, key));
            }
        }
        self.encrypts = encrypts;
        self.restart(iv);
        if encrypts {
            self.tag = None;
        }
        Ok(())
    }

    /// Forgets the message under way. Without a new initialisation vector no key stream is used twice.
    fn restart(&mut self, iv: Option<&[u8]>) {
        let before = self.message.take();
        match (iv, before) {
            (Some(iv), _) => self.iv = iv.to_vec(),
            // As OpenSSL's own: on with the next block.
            (None, Some(Message::Ctr(message))) => self.message = Some(Message::Ctr(message.at_next_block())),
            (None, Some(Message::Gcm(_) | Message::ChaCha(_))) => self.iv = Vec::new(),
            (None, Some(Message::Cbc(_)) | None) => {}
        }
    }

    /// Sets the length of initialisation vectors.
    pub(crate) fn set_iv_len(&mut self, len: usize) -> Result<(), Failure> {
        let fits = match self.algorithm.mode {
            Mode::Gcm => (1..=128).contains(&len),
            _ => len == self.algorithm.iv_len(),
        };
        if !fits {
            let text = format!("an initialisation vector of {len} bytes: use {}", self.algorithm.iv_len());
            return Err(Failure::unsupported(text));
        }
        if len != self.iv_len {
            (self.iv_len, self.iv) = (len, Vec::new());
        }
        Ok(())
    }

    /// The tag that the message must have.
    pub(crate) fn set_tag(&mut self, tag: &[u8]) -> Result<(), Failure> {
        if self.encrypts || !(1..=BLOCK).contains(&tag.len()) {
            return Err(Failure::input("a tag of 1 to 16 bytes is set before a message is decrypted"));
        }
        self.tag = Some(tag.to_vec());
        Ok(())
    }

    /// The tag of the message that was encrypted.
    pub(crate) fn tag(&self) -> Option<&[u8]> {
        self.tag.as_deref().filter(|_| self.encrypts)
    }

    /// The initialisation vector as the next block uses it, and the bytes of a block that are used already.
    pub(crate) fn next_iv(&self) -> (Vec<u8>, usize) {
        match &self.message {
            Some(Message::Ctr(message)) => message.next(),
            Some(Message::Cbc(message)) => (message.chain.to_vec(), 0),
            _ => (self.iv.clone(), 0),
        }
    }

    fn message(&mut self, options: &Options) -> Result<(&Engine, &mut Message), Failure> {
        let engine = self.engine.as_ref().ok_or_else(|| Failure::input("no key: set one first"))?;
        if self.message.is_none() {
            if self.iv.len() != self.iv_len {
                return Err(Failure::input("no initialisation vector: set one first"));
            }
            let block = || self.iv.as_slice().try_into().unwrap_or_default();
            self.message = Some(match self.algorithm.mode {
                Mode::Gcm => Message::Gcm(Gcm::new(engine, options, &self.iv, self.encrypts)?),
                Mode::Ctr => Message::Ctr(Ctr::new(block())),
                Mode::Cbc => Message::Cbc(Cbc::new(block(), self.encrypts, self.padded)),
                Mode::ChaChaPoly => Message::ChaCha(ChaCha::new(&self.iv, self.encrypts)),
            });
        }
        match &mut self.message {
            Some(message) => Ok((engine, message)),
            None => Err(Failure::input("no message was begun")),
        }
    }

    /// Data that is authenticated and not encrypted.
    pub(crate) fn associate(&mut self, options: &Options, data: &[u8]) -> Result<(), Failure> {
        match self.message(options)?.1 {
            Message::Gcm(message) => message.associate(data),
            Message::ChaCha(message) => message.associate(data),
            _ => Err(Failure::unsupported("associated data with this cipher")),
        }
    }

    /// The next piece of the message; what it gives.
    pub(crate) fn update(&mut self, options: &Options, data: &[u8]) -> Result<Vec<u8>, Failure> {
        if data.is_empty() {
            return Ok(Vec::new());
        }
        match self.message(options)? {
            (engine, Message::Gcm(message)) => message.update(engine, options, data),
            (engine, Message::Ctr(message)) => message.update(engine, options, data),
            (engine, Message::Cbc(message)) => message.update(engine, options, data),
            (engine, Message::ChaCha(message)) => message.update(engine, options, data),
        }
    }

    /// Ends the message: what is left of it. An AEAD makes its tag, or checks it.
    pub(crate) fn finish(&mut self, options: &Options) -> Result<Vec<u8>, Failure> {
        let tag = match self.message(options)? {
            (_, Message::Ctr(_)) => None,
            (engine, Message::Cbc(message)) => return message.finish(engine, options),
            (engine, Message::Gcm(message)) => Some(message.finish(engine, options)?),
            (engine, Message::ChaCha(message)) => Some(message.finish(engine, options)?),
        };
        // An initialisation vector is used once where a tag depends on it.
        if let Some(made) = tag {
            (self.message, self.iv) = (None, Vec::new());
            self.settle(made)?;
        }
        Ok(Vec::new())
    }

    fn settle(&mut self, made: [u8; BLOCK]) -> Result<(), Failure> {
        if self.encrypts {
            self.tag = Some(made.to_vec());
            return Ok(());
        }
        let expected = self.tag.take().ok_or_else(|| Failure::input("no tag to check: set it before the end"))?;
        if bool::from(made[..expected.len()].ct_eq(&expected)) {
            return Ok(());
        }
        Err(Failure::input("the tag does not fit: throw away what was decrypted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(mode: Mode, cipher: Cipher, message: Message) -> State {
        let mut state = State::new(Algorithm { mode, cipher });
        state.begin(true, Some(&[1; 32]), Some(&vec![2; state.iv_len])).unwrap();
        state.message = Some(message);
        state
    }

    #[test]
    fn counter_mode_goes_on_at_the_next_block() {
        let last = [&[0; 15][..], &[0xff]].concat().try_into().unwrap();
        for (used, next) in [(0, 0xff), (1, 0x100), (15, 0x100)] {
            let message = Ctr::new(last).with_used(used);
            let mut state = begun(Mode::Ctr, Cipher::Aes256Ctr, Message::Ctr(message));
            state.begin(true, None, None).unwrap();
            assert_eq!(state.next_iv(), (u128::to_be_bytes(next).to_vec(), 0));
            state.begin(true, Some(&[3; 32]), None).unwrap();
            assert_eq!(state.next_iv(), (u128::to_be_bytes(next).to_vec(), 0));
            state.begin(true, None, Some(&[2; BLOCK])).unwrap();
            assert_eq!(state.next_iv(), (vec![2; BLOCK], 0));
        }
    }

    #[test]
    fn a_nonce_is_not_used_for_two_messages() {
        let message = Message::ChaCha(ChaCha::new(&[2; 12], true));
        let mut state = begun(Mode::ChaChaPoly, Cipher::ChaCha20Poly1305, message);
        state.begin(true, Some(&[1; 32]), None).unwrap();
        assert!(state.update(&Options::default(), &[0]).is_err_and(|error| error.text.contains("no init")));
    }

    #[test]
    fn a_vector_given_before_the_key_stays() {
        let mut state = State::new(Algorithm { mode: Mode::Gcm, cipher: Cipher::Aes256Ctr });
        state.begin(true, None, Some(&[2; 12])).unwrap();
        state.begin(true, Some(&[1; 32]), None).unwrap();
        assert_eq!(state.iv, [2; 12]);
    }
}
