//! SHA-256 (FIPS 180-4) of several messages side by side.

#[cfg(target_arch = "x86_64")]
pub(crate) mod instructions;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;

use zeroize::Zeroizing;

use crate::MOST;
#[cfg(target_arch = "x86_64")]
use crate::sys;
use crate::sys::{Lanes, Sha};
#[cfg(not(target_arch = "x86_64"))]
use elsewhere as sys;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;
/// Bytes of the message's length in bits, which ends the last block.
const LENGTH: usize = 8;
/// Least number of messages where lanes are faster than the instructions of SHA, whose time grows with each message.
const LANES_FROM: usize = 7;

pub(crate) type Block = [u8; BLOCK];
/// The hash of the blocks compressed so far.
pub(crate) type State = [u32; 8];

/// The hash of nothing: the first bits of the square roots of the first eight primes.
pub(crate) const INITIAL: State =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// The rounds' constants, by fours: the first bits of the cube roots of the first 64 primes.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const CONSTANTS: [[u32; 4]; 16] = [
    [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5], [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
    [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3], [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
    [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc], [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
    [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7], [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
    [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13], [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
    [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3], [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
    [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5], [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
    [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208], [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
];

/// A unit that hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The instructions of SHA, on two or three messages in turn.
    Sha,
    /// Eight lanes of 32 bits: AVX-512 on registers of 256 bits.
    Lanes,
}

impl Unit {
    /// All.
    pub const ALL: [Self; 2] = [Self::Sha, Self::Lanes];

    /// Whether this machine has it.
    pub fn is_here(self) -> bool {
        Units::only(self).is_some()
    }
}

/// Units of this machine, at least one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Units {
    Sha(Sha),
    Lanes(Lanes),
    Both(Sha, Lanes),
}

/// A message, from its next block on.
pub(crate) struct Stream<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) blocks: &'a [Block],
}

impl Units {
    pub(crate) fn here() -> Option<Self> {
        match (Sha::here(), Lanes::here()) {
            (Some(sha), Some(lanes)) => Some(Self::Both(sha, lanes)),
            (sha, lanes) => sha.map(Self::Sha).or(lanes.map(Self::Lanes)),
        }
    }

    /// The given unit, if this machine has it.
    pub(crate) fn only(unit: Unit) -> Option<Self> {
        match unit {
            Unit::Sha => Sha::here().map(Self::Sha),
            Unit::Lanes => Lanes::here().map(Self::Lanes),
        }
    }

    /// Hashes up to [`MOST`] messages, after `before` bytes of each that are hashed already.
    pub(crate) fn hash(self, states: &mut [State], messages: &[&[u8]], before: usize) {
        let parts = messages.iter().map(|message| message.as_chunks());
        self.all(states, parts.clone().map(|(blocks, _)| blocks));
        let mut ends = Vec::with_capacity(MOST);
        ends.extend(parts.zip(messages).map(|((_, rest), message)| End::new(rest, before + message.len())));
        self.all(states, ends.iter().map(End::blocks));
    }

    fn all<'a>(self, states: &'a mut [State], blocks: impl Iterator<Item = &'a [Block]>) {
        let mut streams = Vec::with_capacity(MOST);
        streams.extend(states.iter_mut().zip(blocks).map(|(state, blocks)| Stream { state, blocks }));
        streams.sort_by_key(|stream| std::cmp::Reverse(stream.blocks.len()));
        // All continue until the shortest ends, then the others.
        while let Some(shortest) = streams.last().map(|stream| stream.blocks.len()) {
            self.compress(&mut streams, shortest);
            streams.retain(|stream| !stream.blocks.is_empty());
        }
    }

    /// Compresses `blocks` blocks of each stream.
    pub(crate) fn compress(self, streams: &mut [Stream<'_>], blocks: usize) {
        match self {
            Self::Both(_, unit) if streams.len() >= LANES_FROM => sys::compress_lanes(unit, streams, blocks),
            Self::Sha(unit) | Self::Both(unit, _) => sys::compress(unit, streams, blocks),
            Self::Lanes(unit) => sys::compress_lanes(unit, streams, blocks),
        }
        for stream in streams {
            stream.blocks = &stream.blocks[blocks..];
        }
    }
}

/// The last blocks of a message: its rest, a set bit, and the length at the end.
struct End {
    bytes: Zeroizing<[Block; 2]>,
    blocks: usize,
}

impl End {
    /// `rest` is shorter than a block; `len` is the whole length that was hashed, in bytes.
    fn new(rest: &[u8], len: usize) -> Self {
        let mut bytes = Zeroizing::new([[0; BLOCK]; 2]);
        let blocks = if rest.len() < BLOCK - LENGTH { 1 } else { 2 };
        let flat = &mut bytes.as_flattened_mut()[..blocks * BLOCK];
        flat[..rest.len()].copy_from_slice(rest);
        flat[rest.len()] = 0x80;
        flat[blocks * BLOCK - LENGTH..].copy_from_slice(&(8 * len as u64).to_be_bytes());
        Self { bytes, blocks }
    }

    fn blocks(&self) -> &[Block] {
        &self.bytes[..self.blocks]
    }
}

/// A hash in the standard's byte order.
pub(crate) fn bytes(state: &State) -> Zeroizing<[u8; 32]> {
    let mut bytes = Zeroizing::new([0; 32]);
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

/// Stubs for other architectures, where no unit has a value, so that no call exists.
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    use super::{Lanes, Sha, Stream};

    pub(super) fn compress(_: Sha, _: &mut [Stream<'_>], _: usize) {}

    pub(super) fn compress_lanes(_: Lanes, _: &mut [Stream<'_>], _: usize) {}
}
