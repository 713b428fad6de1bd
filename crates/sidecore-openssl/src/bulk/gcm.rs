//! Galois/counter mode (SP 800-38D): the service encrypts, with its counter mode; what is authenticated is hashed here,
//! as only so a message can come in pieces of any length, with nonces of any length and results at once.

use super::ctr::Ctr;
use super::{BLOCK, Engine};
use crate::failure::Failure;
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use sidecore::client::Options;
use sidecore::core::session::Op;

/// SP 800-38D, 5.2.1.1: most bytes of a message.
const MAX_MESSAGE: u64 = (1 << 36) - 32;

/// A message in Galois/counter mode.
#[derive(Clone)]
pub(super) struct Gcm {
    hash: GHash,
    /// Bytes that wait for the rest of their block.
    rest: Vec<u8>,
    associated: u64,
    len: u64,
    counter: [u8; BLOCK],
    encrypts: bool,
}

impl Gcm {
    pub(super) fn new(engine: &Engine, options: &Options, iv: &[u8], encrypts: bool) -> Result<Self, Failure> {
        let key = block(&engine.run(options, Op::Encrypt, &[0; BLOCK], &[], &[0; BLOCK])?);
        let hash = GHash::new(&key.into());
        let counter = first_counter(hash.clone(), iv);
        Ok(Self { hash, rest: Vec::new(), associated: 0, len: 0, counter, encrypts })
    }

    pub(super) fn associate(&mut self, data: &[u8]) -> Result<(), Failure> {
        if self.len > 0 {
            return Err(Failure::input("associated data comes before the message"));
        }
        self.associated += data.len() as u64;
        self.authenticate(data);
        Ok(())
    }

    pub(super) fn update(&mut self, engine: &Engine, options: &Options, data: &[u8]) -> Result<Vec<u8>, Failure> {
        if self.len == 0 {
            self.fill_block();
        }
        if self.len + data.len() as u64 > MAX_MESSAGE {
            return Err(Failure::input("a message of more than 64 GiB"));
        }
        let output = self.stream(engine, options, data)?;
        self.len += data.len() as u64;
        self.authenticate(if self.encrypts { &output } else { data });
        Ok(output)
    }

    /// Encrypts from the byte of the key stream on that the message is at. The counter's last four bytes wrap alone.
    fn stream(&mut self, engine: &Engine, options: &Options, data: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut output = Vec::with_capacity(data.len());
        while output.len() < data.len() {
            let at = self.len + output.len() as u64;
            let counter = self.counter_at(1 + at / BLOCK as u64);
            let skipped = (at % BLOCK as u64) as usize;
            let before_wrap = (u64::from(u32::MAX - low(counter)) + 1) * BLOCK as u64;
            let room = usize::try_from(before_wrap).unwrap_or(usize::MAX).min(super::PIECE) - skipped;
            let left = &data[output.len()..];
            let piece = &left[..room.min(left.len())];
            let stream = Ctr::new(counter).update(engine, options, &[&vec![0; skipped], piece].concat())?;
            output.extend(stream.get(skipped..).unwrap_or_default());
        }
        Ok(output)
    }

    fn counter_at(&self, number: u64) -> [u8; BLOCK] {
        let mut counter = self.counter;
        counter[12..].copy_from_slice(&low(self.counter).wrapping_add(number as u32).to_be_bytes());
        counter
    }

    /// The tag.
    pub(super) fn finish(&mut self, engine: &Engine, options: &Options) -> Result<[u8; BLOCK], Failure> {
        self.fill_block();
        let lengths = [(self.associated * 8).to_be_bytes(), (self.len * 8).to_be_bytes()].concat();
        self.authenticate(&lengths);
        let mask = block(&engine.run(options, Op::Encrypt, &self.counter, &[], &[0; BLOCK])?);
        let hash: [u8; BLOCK] = self.hash.clone().finalize().into();
        Ok(std::array::from_fn(|at| hash[at] ^ mask[at]))
    }

    fn authenticate(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
        let whole = self.rest.len() - self.rest.len() % BLOCK;
        self.hash.update_padded(&self.rest[..whole]);
        self.rest.drain(..whole);
    }

    /// What was begun ends with zeros.
    fn fill_block(&mut self) {
        self.hash.update_padded(&self.rest);
        self.rest.clear();
    }
}

fn block(bytes: &[u8]) -> [u8; BLOCK] {
    bytes.first_chunk().copied().unwrap_or_default()
}

fn low(counter: [u8; BLOCK]) -> u32 {
    counter.last_chunk().map_or(0, |last| u32::from_be_bytes(*last))
}

/// SP 800-38D, 7.1: a nonce of 12 bytes stands for itself, others are hashed.
fn first_counter(mut hash: GHash, iv: &[u8]) -> [u8; BLOCK] {
    if iv.len() == 12 {
        return block(&[iv, &[0, 0, 0, 1]].concat());
    }
    hash.update_padded(iv);
    hash.update_padded(&(iv.len() as u128 * 8).to_be_bytes());
    hash.finalize().into()
}
