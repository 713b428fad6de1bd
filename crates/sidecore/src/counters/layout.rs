//! Where each number is in the counter file. All of it is 64-bit words in the machine's byte order.
//!
//! ```text
//! header                 magic, version, shape, start, heartbeat, policies, whether clients may spin
//! sidecore 0, 1, …       generation, core, whether it may spin; counters; requests and bytes of each class; histograms of each class and stage
//! device 0, 1, …         generation, state, sidecore, core, kind, name, whether it may spin; counters; histogram
//! key 0, 1, …            for each sidecore: generation, name; counters; histograms of the stages in the service
//! lane 0, 1, …           generation, pid, user, sidecore, name; counters; histograms of each stage
//! ```
//!
//! Each block begins with its generation: odd while the block is open, one more at each opening and closing. Blocks
//! are whole cache lines, so no two writers share one. A key has a block for each sidecore, one after the other, with the
//! same generation and name. What devices still have of a deleted key counts for the next key at its place. Keys and lanes come last and are holes in the file until used.

use super::kinds::{DeviceCounter, KeyCounter, LaneCounter, SidecoreCounter};
use sidecore_core::histogram::BUCKETS;
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_core::words::LINE_WORDS;
use std::ops::Range;

/// First word of a counter file: `sidecore` in ASCII where bytes are little-endian.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"sidecore");
/// Number of this layout.
pub(super) const VERSION: u64 = 3;

/// Words of the header.
pub(super) mod header {
    pub(in crate::counters) const MAGIC: usize = 0;
    pub(in crate::counters) const VERSION: usize = 1;
    pub(in crate::counters) const SIDECORES: usize = 2;
    pub(in crate::counters) const LANES: usize = 3;
    pub(in crate::counters) const DEVICES: usize = 4;
    pub(in crate::counters) const PID: usize = 5;
    pub(in crate::counters) const SAMPLE_EVERY: usize = 6;
    pub(in crate::counters) const START: usize = 7;
    pub(in crate::counters) const HEARTBEAT: usize = 8;
    pub(in crate::counters) const NOTIFY: usize = 9;
    pub(in crate::counters) const BALANCE: usize = 13;
    pub(in crate::counters) const ORDER: usize = 14;
    pub(in crate::counters) const KEYS: usize = 15;
    /// 1: clients are told that they may spin.
    pub(in crate::counters) const CLIENTS_MAY_SPIN: usize = 16;
    pub(in crate::counters) const WORDS: usize = 24;
}

/// First word of each block.
pub(super) const GENERATION: usize = 0;
/// Words of a name, eight bytes each.
pub(super) const NAME_WORDS: usize = 4;
/// Words of a histogram: its buckets, then the sum of its values.
pub(super) const HISTOGRAM: usize = BUCKETS + 1;

/// Words of a sidecore's block.
pub(super) mod sidecore {
    use super::{Class, HISTOGRAM, SidecoreCounter, Stage, whole_lines};
    /// The core it is tied to plus 1, or 0.
    pub(in crate::counters) const CPU: usize = 1;
    /// 1: it may spin there.
    pub(in crate::counters) const MAY_SPIN: usize = 2;
    pub(in crate::counters) const COUNTERS: usize = 8;
    /// Two words for each class: requests and bytes.
    pub(in crate::counters) const CLASSES: usize = whole_lines(COUNTERS + SidecoreCounter::COUNT);
    pub(in crate::counters) const STAGES: usize = whole_lines(CLASSES + 2 * Class::COUNT);
    pub(in crate::counters) const WORDS: usize = whole_lines(STAGES + Class::COUNT * Stage::COUNT * HISTOGRAM);
}

/// Words of a device's block.
pub(super) mod device {
    use super::{DeviceCounter, HISTOGRAM, NAME_WORDS, whole_lines};
    pub(in crate::counters) const STATE: usize = 1;
    pub(in crate::counters) const SIDECORE: usize = 2;
    /// The core that it is tied to plus 1, or 0.
    pub(in crate::counters) const CPU: usize = 3;
    pub(in crate::counters) const KIND: usize = 4;
    pub(in crate::counters) const NAME: usize = KIND + NAME_WORDS;
    /// 1: it may spin there.
    pub(in crate::counters) const MAY_SPIN: usize = NAME + NAME_WORDS;
    pub(in crate::counters) const COUNTERS: usize = 16;
    pub(in crate::counters) const TIME: usize = whole_lines(COUNTERS + DeviceCounter::COUNT);
    pub(in crate::counters) const WORDS: usize = whole_lines(TIME + HISTOGRAM);
}

/// Words of a lane's block.
pub(super) mod lane {
    use super::{HISTOGRAM, LaneCounter, NAME_WORDS, Stage, whole_lines};
    pub(in crate::counters) const PID: usize = 1;
    pub(in crate::counters) const UID: usize = 2;
    pub(in crate::counters) const SIDECORE: usize = 3;
    pub(in crate::counters) const NAME: usize = 4;
    pub(in crate::counters) const COUNTERS: usize = NAME + NAME_WORDS;
    pub(in crate::counters) const STAGES: usize = whole_lines(COUNTERS + LaneCounter::COUNT);
    pub(in crate::counters) const WORDS: usize = whole_lines(STAGES + Stage::COUNT * HISTOGRAM);
}

/// Words of a key's block for one sidecore.
pub(super) mod key {
    use super::{HISTOGRAM, KeyCounter, whole_lines};
    use crate::keys::MAX_NAME;
    pub(in crate::counters) const NAME: usize = 1;
    pub(in crate::counters) const NAME_WORDS: usize = MAX_NAME / 8;
    pub(in crate::counters) const COUNTERS: usize = NAME + NAME_WORDS;
    pub(in crate::counters) const STAGES: usize = whole_lines(COUNTERS + KeyCounter::COUNT);
    /// The stages in the service: queue, device, host. What clients say of the others is not told by key.
    pub(in crate::counters) const KEPT_STAGES: usize = 3;
    pub(in crate::counters) const WORDS: usize = whole_lines(STAGES + KEPT_STAGES * HISTOGRAM);
}

/// How many blocks of each kind the file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Words of that sidecore's block.
    pub(super) fn sidecore(&self, index: usize) -> Range<usize> {
        block(header::WORDS, index, self.sidecores, sidecore::WORDS)
    }

    /// Words of that device's block.
    pub(super) fn device(&self, index: usize) -> Range<usize> {
        let start = header::WORDS + self.sidecores as usize * sidecore::WORDS;
        block(start, index, self.devices, device::WORDS)
    }

    /// Words of that key's blocks for all sidecores, in the order of the sidecores.
    pub(super) fn key(&self, place: usize) -> Range<usize> {
        block(self.keys_start(), place, self.keys, self.sidecores as usize * key::WORDS)
    }

    /// Words of that key's block for one sidecore.
    pub(super) fn key_on(&self, sidecore: usize, place: usize) -> Range<usize> {
        block(self.key(place).start, sidecore, self.sidecores, key::WORDS)
    }

    /// Words of that lane's block.
    pub(super) fn lane(&self, index: usize) -> Range<usize> {
        block(self.lanes_start(), index, self.lanes, lane::WORDS)
    }

    /// First word of the keys, from which on space is taken only by what is used.
    pub(super) fn keys_start(&self) -> usize {
        header::WORDS + self.sidecores as usize * sidecore::WORDS + self.devices as usize * device::WORDS
    }

    /// First word of the lanes.
    fn lanes_start(&self) -> usize {
        self.keys_start() + self.keys as usize * self.sidecores as usize * key::WORDS
    }

    /// Words of the whole file.
    pub(super) fn words(&self) -> usize {
        self.lanes_start() + self.lanes as usize * lane::WORDS
    }
}

fn block(start: usize, index: usize, count: u32, words: usize) -> Range<usize> {
    assert!(index < count as usize, "block {index} of {count}");
    let first = start + index * words;
    first..first + words
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
        let blocks = (0..2).map(|i| shape.sidecore(i)).chain((0..4).map(|i| shape.device(i)));
        let keys = (0..2).flat_map(|place| (0..2).map(move |sidecore| shape.key_on(sidecore, place)));
        let blocks = blocks.chain(keys);
        let end = blocks.chain((0..3).map(|i| shape.lane(i))).fold(header::WORDS, |end, block| {
            assert_eq!(block.start, end);
            assert!(block.start.is_multiple_of(LINE_WORDS));
            block.end
        });
        assert_eq!(end, shape.words());
        assert_eq!(shape.key(1), shape.key_on(0, 1).start..shape.key_on(1, 1).end);
    }

    #[test]
    #[should_panic(expected = "block 3 of 3")]
    fn a_block_beyond_the_shape_is_a_bug() {
        let _ = Shape { sidecores: 1, lanes: 3, devices: 1, keys: 0 }.lane(3);
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
