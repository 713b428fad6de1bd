//! Allocation in the payload arena. Private to the client: the service checks extents, not owners.

use super::Error;
use offset_allocator::{Allocation, Allocator};
use sidecore_core::wire::Extent;
use sidecore_core::words::LINE_BYTES;
use std::fmt;

/// Buffers begin at cache lines, so that two of them never share one.
const UNIT: u32 = LINE_BYTES as u32;
const MAX_BUFFERS: u32 = 65_536;

/// A buffer in the arena. Freed by [`super::Client::free`], else when the client is dropped.
pub struct Buffer {
    lane: u64,
    extent: Extent,
    allocation: Allocation,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({}, {} bytes)", self.extent.offset, self.extent.len)
    }
}

impl Buffer {
    /// Its position in the arena.
    #[inline]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Its first `len` bytes, or all if it is shorter.
    #[inline]
    pub fn prefix(&self, len: u32) -> Extent {
        Extent::new(self.extent.offset, len.min(self.extent.len))
    }

    #[inline]
    pub(super) fn lane(&self) -> u64 {
        self.lane
    }
}

#[derive(Debug)]
pub(super) struct Arena {
    lane: u64,
    allocator: Allocator,
}

impl Arena {
    pub(super) fn new(lane: u64, bytes: u32) -> Self {
        let units = bytes / UNIT;
        Self { lane, allocator: Allocator::with_max_allocs(units, units.min(MAX_BUFFERS)) }
    }

    pub(super) fn alloc(&mut self, len: u32) -> Result<Buffer, Error> {
        let allocation = self.allocator.allocate(len.div_ceil(UNIT).max(1)).ok_or(Error::ArenaFull)?;
        let extent = Extent::new(allocation.offset * UNIT, len);
        Ok(Buffer { lane: self.lane, extent, allocation })
    }

    #[expect(clippy::needless_pass_by_value, reason = "a buffer that was given back is gone")]
    pub(super) fn free(&mut self, buffer: Buffer) {
        let Buffer { lane, allocation, .. } = buffer;
        if lane == self.lane {
            self.allocator.free(allocation);
        }
    }

    pub(super) fn lane(&self) -> u64 {
        self.lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_apart_and_reused() {
        let mut arena = Arena::new(1, 8192);
        let buffers: Vec<Buffer> = (0..8).map(|_| arena.alloc(1000).unwrap()).collect();
        assert!(matches!(arena.alloc(1000), Err(Error::ArenaFull)));
        for pair in buffers.windows(2) {
            assert!(pair[0].extent().offset + 1000 <= pair[1].extent().offset);
        }
        for buffer in buffers {
            arena.free(buffer);
        }
        assert!(arena.alloc(8192).is_ok());
    }

    #[test]
    fn a_buffer_of_another_lane_is_not_freed_here() {
        let (mut one, mut other) = (Arena::new(1, 4096), Arena::new(2, 4096));
        let buffer = one.alloc(4096).unwrap();
        other.free(buffer);
        assert!(matches!(one.alloc(64), Err(Error::ArenaFull)));
    }
}
