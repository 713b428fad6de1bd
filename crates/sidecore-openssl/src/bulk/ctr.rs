//! Counter mode: the service encrypts, from any byte of the key stream on.

use super::{BLOCK, Engine, PIECE};
use crate::failure::Failure;
use sidecore::client::Options;
use sidecore::core::session::Op;

/// A message in counter mode.
#[derive(Clone)]
pub(super) struct Ctr {
    counter: u128,
    /// Bytes of the block at `counter` that are used already.
    used: usize,
}

impl Ctr {
    pub(super) fn new(counter: [u8; BLOCK]) -> Self {
        Self { counter: u128::from_be_bytes(counter), used: 0 }
    }

    /// The counter of the next fresh block, and the bytes that the last one was used for.
    pub(super) fn next(&self) -> (Vec<u8>, usize) {
        (self.fresh().to_be_bytes().to_vec(), self.used)
    }

    #[cfg(test)]
    pub(super) fn with_used(self, used: usize) -> Self {
        Self { used, ..self }
    }

    /// What is left of the block begun is given up.
    pub(super) fn at_next_block(&self) -> Self {
        Self { counter: self.fresh(), used: 0 }
    }

    fn fresh(&self) -> u128 {
        self.counter.wrapping_add(u128::from(self.used > 0))
    }

    pub(super) fn update(&mut self, engine: &Engine, options: &Options, data: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut result = Vec::with_capacity(data.len());
        for piece in data.chunks(PIECE) {
            let input = [&vec![0; self.used], piece].concat();
            let output = engine.run(options, Op::Encrypt, &self.counter.to_be_bytes(), &[], &input)?;
            result.extend(output.get(self.used..).unwrap_or_default());
            self.counter = self.counter.wrapping_add((input.len() / BLOCK) as u128);
            self.used = input.len() % BLOCK;
        }
        Ok(result)
    }
}
