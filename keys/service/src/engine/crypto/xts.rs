//! AES-128 in XTS mode, which the library has for 256-bit keys only, from its AES blocks.
//!
//! IEEE 1619: the tweak's encryption under the second key, multiplied by x for each block, is added before and after
//! the block cipher. A last block that is not whole borrows ciphertext from the one before.

use crate::ffi::aes::{AesKey, BLOCK_LEN};
use crate::ffi::cipher::CipherKey;
use crate::ffi::{Direction, Source, wipe};
use crate::shm::span::Span;

type Block = [u8; BLOCK_LEN];

/// Blocks copied to private memory at a time: enough that the library overlaps them, small enough for the first cache.
const CHUNK_BLOCKS: usize = 32;
const CHUNK_LEN: usize = CHUNK_BLOCKS * BLOCK_LEN;

pub(super) struct Aes128Xts {
    data: CipherKey,
    tweak: AesKey,
}

impl Aes128Xts {
    /// Takes two 16-byte keys, one after the other.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        let (data, tweak) = key.split_at(key.len() / 2);
        Some(Self { data: CipherKey::aes_128_blocks(data)?, tweak: AesKey::new(tweak, Direction::Encrypt)? })
    }

    /// At least 16 bytes; returns the number of bytes written. `output` is `input`'s own place or does not overlap
    /// it. `None`: the library failed.
    pub(super) fn data_unit(
        &self,
        direction: Direction,
        tweak: &[u8],
        input: Source<'_>,
        output: Span<'_>,
    ) -> Option<usize> {
        let cipher = |blocks: &mut [u8]| {
            let place = Span::of(blocks);
            self.data.cipher(direction, &[], place.into(), place)
        };
        let (done, last) = self.whole_blocks(tweak.try_into().ok()?, input, output, cipher)?;
        if done < input.len() {
            // The two directions use the last two tweaks in opposite orders.
            let (first, second) = match direction {
                Direction::Encrypt => (last, last.next()),
                Direction::Decrypt => (last.next(), last),
            };
            steal(input, output, done, first, second, cipher)?;
        }
        Some(input.len())
    }

    fn whole_blocks(
        &self,
        tweak: &Block,
        input: Source<'_>,
        output: Span<'_>,
        cipher: impl Fn(&mut [u8]) -> Option<usize>,
    ) -> Option<(usize, Tweak)> {
        let blocks = input.len() / BLOCK_LEN - usize::from(!input.len().is_multiple_of(BLOCK_LEN));
        let end = blocks * BLOCK_LEN;
        let mut tweak = self.first_tweak(tweak);
        let (mut chunk, mut mask) = ([0; CHUNK_LEN], [0; CHUNK_LEN]);
        let mut done = 0;
        while done < end {
            let len = CHUNK_LEN.min(end - done);
            let (chunk, mask) = (&mut chunk[..len], &mut mask[..len]);
            input.copy_to(done, chunk);
            tweak = tweak.fill(mask);
            add(chunk, mask);
            cipher(chunk)?;
            add(chunk, mask);
            output.slice(done, len)?.copy_from(chunk);
            done += len;
        }
        let used = CHUNK_LEN.min(end);
        wipe(&mut chunk[..used]);
        wipe(&mut mask[..used]);
        Some((done, tweak))
    }

    fn first_tweak(&self, tweak: &Block) -> Tweak {
        let mut block = *tweak;
        self.tweak.encrypt_block(&mut block);
        Tweak(u128::from_le_bytes(block))
    }
}

/// The last whole block and the rest after it, at `done`. `first` is the tweak of the pass that makes the borrowed
/// bytes.
fn steal(
    input: Source<'_>,
    output: Span<'_>,
    done: usize,
    first: Tweak,
    second: Tweak,
    cipher: impl Fn(&mut [u8]) -> Option<usize>,
) -> Option<()> {
    let rest = input.len() - done - BLOCK_LEN;
    let (mut whole, mut tail) = ([0; BLOCK_LEN], [0; BLOCK_LEN]);
    input.copy_to(done, &mut whole);
    input.copy_to(done + BLOCK_LEN, &mut tail[..rest]);
    first.around(&mut whole, &cipher)?;
    tail[rest..].copy_from_slice(&whole[rest..]);
    second.around(&mut tail, &cipher)?;
    output.slice(done, BLOCK_LEN)?.copy_from(&tail);
    output.slice(done + BLOCK_LEN, rest)?.copy_from(&whole[..rest]);
    wipe(&mut whole);
    wipe(&mut tail);
    Some(())
}

fn add(chunk: &mut [u8], mask: &[u8]) {
    for (byte, mask) in chunk.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// An element of GF(2^128), little-endian.
#[derive(Clone, Copy)]
struct Tweak(u128);

impl Tweak {
    /// This times x, in time that does not depend on it.
    #[inline]
    fn next(self) -> Self {
        let carry = self.0 >> 127;
        Self((self.0 << 1) ^ (carry * 0x87))
    }

    fn fill(self, mask: &mut [u8]) -> Self {
        mask.as_chunks_mut().0.iter_mut().fold(self, |tweak, block| {
            *block = tweak.0.to_le_bytes();
            tweak.next()
        })
    }

    #[inline]
    fn around(self, block: &mut Block, cipher: impl Fn(&mut [u8]) -> Option<usize>) -> Option<()> {
        *block = (u128::from_le_bytes(*block) ^ self.0).to_le_bytes();
        cipher(block)?;
        *block = (u128::from_le_bytes(*block) ^ self.0).to_le_bytes();
        Some(())
    }
}
