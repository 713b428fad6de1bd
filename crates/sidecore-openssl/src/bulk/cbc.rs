//! Cipher block chaining, with the padding of PKCS#7 or none.

use super::{BLOCK, Engine, PIECE};
use crate::failure::Failure;
use sidecore::client::Options;
use sidecore::core::session::Op;
use subtle::{ConstantTimeEq, ConstantTimeGreater};
use zeroize::Zeroizing;

/// A message in CBC mode.
#[derive(Clone)]
pub(super) struct Cbc {
    /// The last block of ciphertext, or the initialisation vector.
    pub(super) chain: [u8; BLOCK],
    encrypts: bool,
    padded: bool,
    /// What waits for the rest of its block, or may be the last one.
    rest: Zeroizing<Vec<u8>>,
}

impl Cbc {
    pub(super) fn new(iv: [u8; BLOCK], encrypts: bool, padded: bool) -> Self {
        Self { chain: iv, encrypts, padded, rest: Zeroizing::default() }
    }

    pub(super) fn update(&mut self, engine: &Engine, options: &Options, data: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut all = Zeroizing::new([&self.rest[..], data].concat());
        // The last block of a padded ciphertext is known as such at the end only.
        let kept = match all.len() % BLOCK {
            0 if self.padded && !self.encrypts => BLOCK.min(all.len()),
            rest => rest,
        };
        let whole = all.len() - kept;
        self.rest = Zeroizing::new(all.split_off(whole));
        self.run(engine, options, &all)
    }

    fn run(&mut self, engine: &Engine, options: &Options, blocks: &[u8]) -> Result<Vec<u8>, Failure> {
        let op = if self.encrypts { Op::Encrypt } else { Op::Decrypt };
        let mut result = Vec::with_capacity(blocks.len());
        for piece in blocks.chunks(PIECE) {
            let output = engine.run(options, op, &self.chain, &[], piece)?;
            let ciphertext = if self.encrypts { &output[..] } else { piece };
            if let Some(last) = ciphertext.last_chunk() {
                self.chain = *last;
            }
            result.extend(output);
        }
        Ok(result)
    }

    pub(super) fn finish(&mut self, engine: &Engine, options: &Options) -> Result<Vec<u8>, Failure> {
        let rest = std::mem::take(&mut self.rest);
        match (self.padded, self.encrypts) {
            (false, _) if rest.is_empty() => Ok(Vec::new()),
            (false, _) => Err(Failure::input("a message that is no whole number of blocks: use padding")),
            (true, true) => {
                let pad = BLOCK - rest.len();
                let block = Zeroizing::new([&rest[..], &vec![pad as u8; pad]].concat());
                self.run(engine, options, &block)
            }
            (true, false) if rest.len() != BLOCK => {
                Err(Failure::input("a ciphertext that is no whole number of blocks, or empty"))
            }
            (true, false) => {
                let mut block = self.run(engine, options, &rest)?;
                let len =
                    unpadded(&block).ok_or_else(|| Failure::input("the padding is wrong: another key or text"))?;
                block.truncate(len);
                Ok(block)
            }
        }
    }
}

/// The length of the last block without its padding. Which byte of it was wrong cannot be told from the time it takes.
fn unpadded(block: &[u8]) -> Option<usize> {
    let pad = *block.last()?;
    let mut good = !pad.ct_eq(&0) & !pad.ct_gt(&(BLOCK as u8));
    for (index, byte) in block.iter().enumerate() {
        let from_end = (block.len() - index) as u8;
        good &= from_end.ct_gt(&pad) | byte.ct_eq(&pad);
    }
    bool::from(good).then(|| block.len() - usize::from(pad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_checked_to_the_last_byte() {
        let mut block = [7; BLOCK];
        assert_eq!(unpadded(&block), Some(9));
        block[9] = 6;
        assert_eq!(unpadded(&block), None);
        assert_eq!(unpadded(&[16; BLOCK]), Some(0));
        for pad in [0, 17, 255] {
            assert_eq!(unpadded(&[pad; BLOCK]), None);
        }
    }
}
