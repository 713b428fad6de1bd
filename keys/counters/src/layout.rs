//! Places of the numbers in the counter file. All of it is 64-bit words in the machine's byte order.
//!
//! ```text
//! header                 magic, version, shape, start, heartbeat, policies, whether clients may spin, use of limits
//! sidecore 0, 1, …       generation, where it runs; counters; requests and bytes of each class; histograms of each
//!                        class and stage
//! device 0, 1, …         generation, name, kind, sidecore, where it runs; counters; histogram
//! key 0, 1, …            for each sidecore: generation, name; counters; histograms of the stages in the service
//! lane 0, 1, …           generation, pid, user, sidecore, name; counters; histograms of each stage
//! ```
//!
//! Each block begins with its generation: odd while the block is open, one more at each opening and closing. Blocks
//! are whole cache lines, so no two writers share one. A key has a block for each sidecore, one after the other, with
//! the same generation and name. Devices' late counts for a deleted key go to the next key at its place. Keys and
//! lanes come last and are holes in the file until used.

use super::kinds::{Counter, DeviceCounter, KeyCounter, LaneCounter, SidecoreCounter};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sidecore_core::histogram::BUCKETS;
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_core::time::Nanos;
use sidecore_core::words::LINE_WORDS;
use std::ops::Range;

/// First word of a counter file: `sidecore` in ASCII where bytes are little-endian.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"sidecore");
pub(super) const VERSION: u64 = 9;
/// Bytes of a word.
pub(super) const WORD: usize = 8;

pub(super) mod header {
    use super::LIMIT_WORDS;
    use crate::limits::Limit;

    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    /// Shape and start, as postcard writes them.
    pub(crate) const ABOUT: usize = 2;
    pub(crate) const HEARTBEAT: usize = 8;
    pub(crate) const NOTIFY: usize = 9;
    pub(crate) const BALANCE: usize = 13;
    /// 1: clients are told that they may spin.
    pub(crate) const CLIENTS_MAY_SPIN: usize = 14;
    /// The use of each limit.
    pub(crate) const LIMITS: usize = 16;
    pub(crate) const WORDS: usize = super::whole_lines(LIMITS + Limit::COUNT * LIMIT_WORDS);
}

pub(super) const GENERATION: usize = 0;
/// Words of the use of a limit: used amount, limit, user plus 1.
pub(super) const LIMIT_WORDS: usize = 3;
/// Words of a histogram: its buckets, then the sum of its values.
pub(super) const HISTOGRAM: usize = BUCKETS + 1;

/// Counters with blocks of their own in the file, and the places in such a block, in words.
pub trait Filed: Counter<About: Default + Serialize + DeserializeOwned> {
    /// Place of the kind in the file.
    const ORDER: usize;
    /// First counter, after the generation and the description.
    const FIRST: usize;
    /// Number of classes counted in the block too.
    const CLASSES: usize = 0;
    /// Requests and bytes of the first class.
    const CLASSES_FIRST: usize = whole_lines(Self::FIRST + Self::ROWS.len());
    /// First histogram.
    const TIMES_FIRST: usize = whole_lines(Self::CLASSES_FIRST + 2 * Self::CLASSES);
    /// Words of a block.
    const WORDS: usize =
        whole_lines(Self::TIMES_FIRST + (Self::STAGES.len() + Self::CLASSES * Stage::COUNT) * HISTOGRAM);
}

impl Filed for SidecoreCounter {
    const ORDER: usize = 0;
    const FIRST: usize = 8;
    const CLASSES: usize = Class::COUNT;
}

impl Filed for DeviceCounter {
    const ORDER: usize = 1;
    const FIRST: usize = 16;
}

impl Filed for KeyCounter {
    const ORDER: usize = 2;
    const FIRST: usize = 10;
}

impl Filed for LaneCounter {
    const ORDER: usize = 3;
    const FIRST: usize = 8;
}

impl SidecoreCounter {
    #[inline]
    pub(super) fn class_first(class: Class) -> usize {
        Self::CLASSES_FIRST + 2 * class.index()
    }
}

/// The service's properties at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Its process id.
    pub pid: u32,
    /// One request in this number carries stage times; 0: none.
    pub sample_every: u32,
    /// The monotonic clock, ns.
    pub now: Nanos,
}

/// Number of blocks of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Sidecores.
    pub sidecores: u32,
    /// Lanes over all sidecores.
    pub lanes: u32,
    /// Devices over all sidecores.
    pub devices: u32,
    /// Places of stored keys.
    pub keys: u32,
}

impl Shape {
    /// Most blocks of each kind.
    pub const LIMIT: Self = Self { sidecores: 64, lanes: 64 * 65_536, devices: 64 * 64, keys: 4096 };

    /// Whether no number exceeds [`Shape::LIMIT`].
    pub fn is_within_limits(&self) -> bool {
        let Self { sidecores, lanes, devices, keys } = Self::LIMIT;
        self.sidecores <= sidecores && self.lanes <= lanes && self.devices <= devices && self.keys <= keys
    }

    /// Words of the block of that number among its kind. A key has one block for each sidecore, in sequence.
    pub(super) fn block<C: Filed>(&self, index: usize) -> Range<usize> {
        let (count, words) = self.kinds()[C::ORDER];
        assert!(index < count, "block {index} of {count}");
        let first = self.start(C::ORDER) + index * words;
        first..first + words
    }

    pub(super) fn key_on(&self, sidecore: usize, place: usize) -> Range<usize> {
        assert!(sidecore < self.sidecores as usize, "sidecore {sidecore} of {}", self.sidecores);
        let first = self.block::<KeyCounter>(place).start + sidecore * KeyCounter::WORDS;
        first..first + KeyCounter::WORDS
    }

    /// From there on only used blocks take space.
    pub(super) fn keys_start(&self) -> usize {
        self.start(KeyCounter::ORDER)
    }

    pub(super) fn words(&self) -> usize {
        self.start(self.kinds().len())
    }

    fn start(&self, kinds: usize) -> usize {
        self.kinds()[..kinds].iter().fold(header::WORDS, |start, (count, words)| start + count * words)
    }

    fn kinds(&self) -> [(usize, usize); 4] {
        let [sidecores, devices, keys, lanes] =
            [self.sidecores, self.devices, self.keys, self.lanes].map(|count| count as usize);
        [
            (sidecores, SidecoreCounter::WORDS),
            (devices, DeviceCounter::WORDS),
            (keys, sidecores * KeyCounter::WORDS),
            (lanes, LaneCounter::WORDS),
        ]
    }
}

const fn whole_lines(words: usize) -> usize {
    words.next_multiple_of(LINE_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_each_other_in_whole_lines() {
        let shape = Shape { sidecores: 2, lanes: 3, devices: 4, keys: 2 };
        let sidecores = (0..2).map(|i| shape.block::<SidecoreCounter>(i));
        let devices = (0..4).map(|i| shape.block::<DeviceCounter>(i));
        let keys = (0..2).flat_map(|place| (0..2).map(move |sidecore| shape.key_on(sidecore, place)));
        let lanes = (0..3).map(|i| shape.block::<LaneCounter>(i));
        let end = sidecores.chain(devices).chain(keys).chain(lanes).fold(header::WORDS, |end, block| {
            assert_eq!(block.start, end);
            assert!(block.start.is_multiple_of(LINE_WORDS));
            block.end
        });
        assert_eq!(end, shape.words());
        assert_eq!(shape.block::<KeyCounter>(1), shape.key_on(0, 1).start..shape.key_on(1, 1).end);
    }

    #[test]
    #[should_panic(expected = "block 3 of 3")]
    fn a_block_beyond_the_shape_is_a_bug() {
        let _ = Shape { sidecores: 1, lanes: 3, devices: 1, keys: 0 }.block::<LaneCounter>(3);
    }

    #[test]
    fn limits_hold_for_each_number() {
        let limit = Shape::LIMIT;
        assert!(limit.is_within_limits());
        assert!(!Shape { sidecores: limit.sidecores + 1, ..limit }.is_within_limits());
        assert!(!Shape { lanes: limit.lanes + 1, ..limit }.is_within_limits());
        assert!(!Shape { devices: limit.devices + 1, ..limit }.is_within_limits());
        assert!(!Shape { keys: limit.keys + 1, ..limit }.is_within_limits());
    }
}
