//! Where things are in a lane's memory. Computed on each side from numbers agreed on at attach, never read from the
//! lane.
//!
//! ```text
//! line 0      armed word of the submission doorbell: the sidecore arms, the client clears
//! line 1      armed word of the completion doorbell: the client arms, the sidecore clears
//! line 2      advice of the service to the client: notify policy, park cost, wake-up time, sampling rate
//! line 3..32  report of the client: what only it can count (an allegation, shown as such)
//! line 32..   submission slots, then completion slots
//! page        payload arena
//! ```

use crate::words::LINE_BYTES;
use core::ops::Range;

/// Number of this layout and of the words in its slots. Client and service must agree.
pub const ABI: u32 = 3;
/// Line of the submission doorbell's armed word.
pub const SUBMISSION_DOORBELL: usize = 0;
/// Line of the completion doorbell's armed word.
pub const COMPLETION_DOORBELL: usize = 1;
/// Line of the service's advice.
pub const ADVICE: usize = 2;
/// Lines of the client's report.
pub const REPORT: Range<usize> = 3..CONTROL_LINES;

const CONTROL_LINES: usize = 32;
const PAGE: usize = 4096;

/// Fewest slots of a ring.
pub const MIN_SLOTS: u32 = 2;
/// Most slots of a ring.
pub const MAX_SLOTS: u32 = 4096;
/// Smallest arena, bytes.
pub const MIN_ARENA: u32 = 4096;
/// Largest arena, bytes.
pub const MAX_ARENA: u32 = 256 << 20;

/// Words of the advice line.
pub mod advice {
    /// Notify policy for the client's waits, as `Notify::to_word`.
    pub const NOTIFY: usize = 0;
    /// Cost of a sleep and a wake-up, ns.
    pub const PARK_COST: usize = 1;
    /// One request in this many carries stage times; 0: none.
    pub const SAMPLE_EVERY: usize = 2;
    /// Whether the client may spin: it does not share its core with a sidecore.
    pub const MAY_SPIN: usize = 3;
    /// How long a wake-up may take, ns.
    pub const WAKE_TIME: usize = 4;
}

/// The offsets of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    slots: u32,
    arena: u32,
}

/// Why a lane cannot have that shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Slots must be a power of two within the limits.
    Slots(u32),
    /// Arena bytes must be a multiple of the page size within the limits.
    Arena(u32),
}

impl core::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Slots(n) => write!(f, "{n} slots: use a power of two from {MIN_SLOTS} to {MAX_SLOTS}"),
            Self::Arena(n) => {
                write!(f, "an arena of {n} bytes: use a multiple of {PAGE} from {MIN_ARENA} to {MAX_ARENA}")
            }
        }
    }
}

impl Layout {
    /// A lane with `slots` slots in each ring and `arena` bytes of arena.
    ///
    /// # Errors
    /// A number outside its limits.
    pub fn new(slots: u32, arena: u32) -> Result<Self, LayoutError> {
        if !slots.is_power_of_two() || !(MIN_SLOTS..=MAX_SLOTS).contains(&slots) {
            return Err(LayoutError::Slots(slots));
        }
        if !(arena as usize).is_multiple_of(PAGE) || !(MIN_ARENA..=MAX_ARENA).contains(&arena) {
            return Err(LayoutError::Arena(arena));
        }
        Ok(Self { slots, arena })
    }

    /// Slots in each of the two rings, which is also the most requests in flight.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes of the payload arena.
    #[inline]
    pub fn arena_bytes(&self) -> u32 {
        self.arena
    }

    /// Lines of the submission ring.
    pub fn submission(&self) -> Range<usize> {
        CONTROL_LINES..CONTROL_LINES + self.slots as usize
    }

    /// Lines of the completion ring.
    pub fn completion(&self) -> Range<usize> {
        let start = self.submission().end;
        start..start + self.slots as usize
    }

    /// Number of cache lines before the arena, padding left out.
    pub fn lines(&self) -> usize {
        self.completion().end
    }

    /// Byte offset of the arena: the first page after the slots.
    pub fn arena_offset(&self) -> usize {
        (self.lines() * LINE_BYTES).next_multiple_of(PAGE)
    }

    /// Bytes of the whole lane.
    pub fn total_bytes(&self) -> usize {
        self.arena_offset() + self.arena as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn regions_are_apart_and_inside(log in 1u32..13, pages in 1u32..1000) {
            let layout = Layout::new(1 << log, pages * PAGE as u32).unwrap();
            prop_assert!(REPORT.end <= layout.submission().start);
            prop_assert_eq!(layout.submission().end, layout.completion().start);
            prop_assert!(layout.lines() * LINE_BYTES <= layout.arena_offset());
            prop_assert_eq!(layout.arena_offset() % PAGE, 0);
            prop_assert_eq!(layout.total_bytes(), layout.arena_offset() + layout.arena_bytes() as usize);
        }
    }

    #[test]
    fn shapes_outside_the_limits_are_refused() {
        for slots in [0, 1, 3, 8192] {
            assert_eq!(Layout::new(slots, MIN_ARENA), Err(LayoutError::Slots(slots)));
        }
        for arena in [0, 4095, 5000, u32::MAX] {
            assert_eq!(Layout::new(64, arena), Err(LayoutError::Arena(arena)));
        }
    }
}
