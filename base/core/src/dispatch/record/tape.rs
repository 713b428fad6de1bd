//! The memory of a record.
//!
//! Words: [`MAGIC`], [`VERSION`], lanes and clients, in flight and classes, quantum, most deferred requests, balance;
//! then the calls, each with its decision; then [`END`] with whether the tape was full, and a [`hash`] over all words
//! before it.

use super::call::place_in;
use super::{Call, Decision, Limits};
use crate::policy::balance::Balance;
use crate::session::Class;
use alloc::vec::Vec;

/// First word of a record.
pub const MAGIC: u64 = u64::from_le_bytes(*b"sidecrec");
/// Second word: number of this format. Since 2 new devices reuse the numbers of removed ones; since 3 the number of
/// classes is recorded, and decides a device's words of them; since 4 keys may be on other machines;
/// since 5 requests are deferred for full devices under `priced`; since 6 there is one order on devices; since 7
/// time is shared by user first.
pub const VERSION: u64 = 7;
/// Number that stands for the end instead of a call.
pub const END: u8 = 255;

const CLASSES: u64 = Class::COUNT as u64;
const TRAILER: usize = 2;

/// Initial parameters of a dispatch.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Sizes of its tables.
    pub limits: Limits,
    /// Its first rule for devices.
    pub balance: Balance,
}

impl Start {
    /// Number of words that it has in a record, with the first two.
    pub const WORDS: usize = 7;

    fn words(&self) -> [u64; Self::WORDS] {
        let Limits { lanes, clients, in_flight, quantum, deferred } = self.limits;
        let tables = u64::from(lanes) | u64::from(clients) << 32;
        let balance = u64::from(place_in(&Balance::ALL, &self.balance));
        [MAGIC, VERSION, tables, u64::from(in_flight) | CLASSES << 32, quantum, deferred.into(), balance]
    }

    /// Reads it back. `None`: these words do not begin a record of this version.
    pub fn from_words(words: &[u64; Self::WORDS]) -> Option<Self> {
        let [MAGIC, VERSION, tables, in_flight, quantum, deferred, balance] = *words else { return None };
        // A class is its place in the table: records with another table do not match.
        if in_flight >> 32 != CLASSES {
            return None;
        }
        let (lanes, clients) = (tables as u32, (tables >> 32) as u32);
        let limits =
            Limits { lanes, clients, in_flight: in_flight as u32, quantum, deferred: u32::try_from(deferred).ok()? };
        Some(Self { limits, balance: *Balance::ALL.get(usize::try_from(balance).ok()?)? })
    }
}

/// A record being made.
#[derive(Debug)]
pub struct Tape {
    words: Vec<u64>,
    limit: usize,
    /// A call found no room: nothing is recorded any more.
    full: bool,
}

impl Tape {
    /// A tape of at most `words` words. Its memory is reserved now.
    pub fn new(start: Start, words: usize) -> Self {
        let limit = words.max(Start::WORDS + TRAILER);
        let mut tape = Self { words: Vec::with_capacity(limit), limit, full: false };
        tape.words.extend(start.words());
        tape
    }

    /// Writes a call and its decision, if both find room.
    // Out of line: the path without a tape stays short.
    #[inline(never)]
    pub fn write(&mut self, call: &Call, decision: Decision) {
        if self.full {
            return;
        }
        let from = self.words.len();
        self.put(0);
        let (number, first) = call.encode(|word| self.put(word));
        let decided_at = self.words.len();
        let significant = decision.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        decision[..significant].iter().for_each(|word| self.put(*word));
        if self.full {
            self.words.truncate(from);
            return;
        }
        let arguments = (decided_at - from - 1) as u64;
        self.words[from] = u64::from(number) | arguments << 8 | (significant as u64) << 24 | u64::from(first) << 32;
    }

    fn put(&mut self, word: u64) {
        if self.words.len() + TRAILER < self.limit {
            self.words.push(word);
        } else {
            self.full = true;
        }
    }

    /// The whole record, with its end.
    pub fn into_words(mut self) -> Vec<u64> {
        self.words.push(u64::from(END) | u64::from(self.full) << 32);
        self.words.push(hash(&self.words));
        self.words
    }
}

/// Hash of a record's words, to detect damage.
pub fn hash(words: &[u64]) -> u64 {
    let mix = |hash: u64, word: &u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    words.iter().fold(0x9e37_79b9_7f4a_7c15, mix)
}
