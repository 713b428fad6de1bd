//! A message to encrypt, and its key with the schedule of rounds.

use zeroize::Zeroizing;

use crate::stack::wiped;
use crate::sys::{Aes, substitute};

/// Bytes of a block.
pub const BLOCK: usize = 16;
/// Lengths of a key, in bytes.
pub const KEYS: [usize; 2] = [16, 32];

/// Words of the longest key schedule: those of 15 rounds.
const WORDS: usize = 60;

/// A key, made ready.
pub struct Key {
    /// One word for each column of a round's key, in its byte order in memory.
    pub(super) schedule: Box<Zeroizing<[u32; WORDS]>>,
    /// Number of round keys: rounds plus one.
    pub(super) rounds: usize,
}

/// One message.
pub struct Job<'a> {
    /// All keys of a call have the same length.
    pub key: &'a Key,
    /// The initialisation vector.
    pub vector: &'a [u8; BLOCK],
    /// Whole blocks.
    pub input: &'a [u8],
    /// Has the input's length.
    pub output: &'a mut [u8],
}

impl Key {
    /// Makes a key ready. `None` for lengths other than [`KEYS`], and where this machine has no AES instructions.
    pub fn new(key: &[u8]) -> Option<Self> {
        let unit = Aes::here().filter(|_| KEYS.contains(&key.len()))?;
        Some(wiped(|| Self::scheduled(unit, key)))
    }

    fn scheduled(unit: Aes, key: &[u8]) -> Self {
        let mut schedule = Box::new(Zeroizing::new([0; WORDS]));
        let (words, rounds) = (key.len() / 4, key.len() / 4 + 7);
        for (word, bytes) in schedule.iter_mut().zip(key.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        // FIPS 197, section 5.2.
        let mut constants = std::iter::successors(Some(1), |constant| Some(twice(*constant)));
        for at in words..4 * rounds {
            let before = schedule[at - 1];
            let mixed = match at % words {
                0 => substitute(unit, before.rotate_right(8)) ^ constants.next().unwrap_or(0),
                4 if words == 8 => substitute(unit, before),
                _ => before,
            };
            schedule[at] = schedule[at - words] ^ mixed;
        }
        Self { schedule, rounds }
    }

    #[cfg(test)]
    pub(crate) fn round_keys(&self) -> Vec<Vec<u8>> {
        let of_round = |words: &[u32; 4]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.schedule.as_chunks().0[..self.rounds].iter().map(of_round).collect()
    }
}

/// Doubles a number in the field of AES.
fn twice(x: u32) -> u32 {
    (x << 1) ^ ((x >> 7) * 0x11b)
}
