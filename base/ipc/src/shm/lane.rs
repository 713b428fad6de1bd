//! The memory of one lane.
//!
//! The service creates it as a memfd and seals its size before another process sees it, so no client can cause a fault
//! in the service by shrinking it. The client checks the seals as well, for the same protection against a service.

use super::mapping::Mapping;
use super::prefetch;
use super::span::Span;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use sidecore_core::doorbell::Doorbell;
use sidecore_core::layout::{self, Layout};
use sidecore_core::sync::AtomicU64;
use sidecore_core::wire::Extent;
use sidecore_core::words::{LINE_BYTES, Line};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A mapped lane. Both sides use it, and neither trusts its contents.
#[derive(Debug)]
pub struct LaneMemory {
    layout: Layout,
    /// Addresses of the first line and of each ring: computed once, used with each request.
    lines: NonNull<Line>,
    submission: NonNull<Line>,
    completion: NonNull<Line>,
    arena: NonNull<u8>,
    _mapping: Mapping,
}

// SAFETY: the pointers lead into the mapping, which may be sent; all access is through atomics or raw copies.
unsafe impl Send for LaneMemory {}
// SAFETY: as above; lines are atomics, and spans make no promise about writes of other processes.
unsafe impl Sync for LaneMemory {}

impl LaneMemory {
    /// Creates and seals the memory of a lane. Returns the descriptor for the client to map.
    ///
    /// # Errors
    /// No memory or no descriptor is left.
    pub fn create(layout: Layout) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("sidecore-lane", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, layout.total_bytes() as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let mapping = Mapping::new(&file, layout.total_bytes())?;
        // The contents pass through the client's memory, which may be swapped out too.
        mapping.not_locked();
        Ok((Self::new(mapping, layout), file))
    }

    /// Maps memory received from a service.
    ///
    /// # Errors
    /// `InvalidData`: the memory is not sealed, or too short; else errors of the system.
    pub fn open(file: impl AsFd, layout: Layout) -> io::Result<Self> {
        if !fcntl_get_seals(&file)?.contains(SEALS) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the lane's memory is not sealed"));
        }
        let mut mapping = Mapping::new(file, layout.total_bytes())?;
        mapping.not_in_children()?;
        Ok(Self::new(mapping, layout))
    }

    /// The mapping must have the layout's length.
    fn new(mapping: Mapping, layout: Layout) -> Self {
        let lines = mapping.lines(layout.lines() * LINE_BYTES);
        let first = |range: Range<usize>| NonNull::from(&lines[range]).cast();
        Self {
            lines: first(0..layout.lines()),
            submission: first(layout.submission()),
            completion: first(layout.completion()),
            arena: mapping.byte(layout.arena_offset()),
            layout,
            _mapping: mapping,
        }
    }

    /// Positions in the lane.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline]
    fn line(&self, number: usize) -> &Line {
        assert!(number < layout::REPORT.end, "a line of the rings");
        // SAFETY: those lines are mapped for the life of `self`, and any bytes are valid atomics.
        unsafe { self.lines.add(number).as_ref() }
    }

    /// Slots of the submission ring.
    #[inline]
    pub fn submission(&self) -> &[Line] {
        // SAFETY: that number of lines is mapped from there on for the life of `self`, and any bytes are valid
        // atomics.
        unsafe { slice::from_raw_parts(self.submission.as_ptr(), self.layout.slots() as usize) }
    }

    /// Slots of the completion ring.
    #[inline]
    pub fn completion(&self) -> &[Line] {
        // SAFETY: as for `submission`.
        unsafe { slice::from_raw_parts(self.completion.as_ptr(), self.layout.slots() as usize) }
    }

    /// Prefetches the slot of a submission that will be written soon.
    #[inline]
    pub fn prefetch_submission(&self, number: u64) {
        prefetch_slot(self.submission(), number);
    }

    /// Prefetches the slots of `count` submissions that will be read soon.
    #[inline]
    pub fn prefetch_submissions(&self, first: u64, count: u64) {
        let slots = self.submission();
        for number in first..first + count {
            prefetch::read(&raw const slots[number as usize & (slots.len() - 1)]);
        }
    }

    /// Prefetches the slot of a completion that will be written soon.
    #[inline]
    pub fn prefetch_completion(&self, number: u64) {
        prefetch_slot(self.completion(), number);
    }

    /// Rung by the client.
    #[inline]
    pub fn submission_doorbell(&self) -> Doorbell<'_> {
        Doorbell(&self.line(layout::SUBMISSION_DOORBELL).0[0])
    }

    /// Rung by the sidecore.
    #[inline]
    pub fn completion_doorbell(&self) -> Doorbell<'_> {
        Doorbell(&self.line(layout::COMPLETION_DOORBELL).0[0])
    }

    /// A word of the service's advice, see [`layout::advice`].
    #[inline]
    pub fn advice(&self, word: usize) -> &AtomicU64 {
        &self.line(layout::ADVICE).0[word]
    }

    /// Lines of the client's report.
    #[inline]
    pub fn report(&self) -> &[Line] {
        let len = layout::REPORT.len();
        // SAFETY: those lines are mapped for the life of `self`, and any bytes are valid atomics.
        unsafe { slice::from_raw_parts(self.lines.add(layout::REPORT.start).as_ptr(), len) }
    }

    /// The bytes of an extent. `None`: it leaves the arena.
    #[inline]
    pub fn span(&self, extent: Extent) -> Option<Span<'_>> {
        let end = extent.offset.checked_add(extent.len)?;
        if end > self.layout.arena_bytes() {
            return None;
        }
        // SAFETY: the range lies inside the arena, which is mapped for the life of `self`.
        Some(unsafe { Span::new(self.arena.add(extent.offset as usize), extent.len as usize) })
    }
}

#[inline]
fn prefetch_slot(slots: &[Line], number: u64) {
    prefetch::write(&raw const slots[number as usize & (slots.len() - 1)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new(8, 8192).unwrap()
    }

    #[test]
    fn both_sides_see_the_same_bytes() {
        let (service, file) = LaneMemory::create(layout()).unwrap();
        let client = LaneMemory::open(&file, layout()).unwrap();
        client.span(Extent::new(100, 3)).unwrap().copy_from(b"abc");
        let mut got = [0; 3];
        service.span(Extent::new(100, 3)).unwrap().copy_to(&mut got);
        assert_eq!(&got, b"abc");
    }

    #[test]
    fn the_size_is_sealed() {
        let (_service, file) = LaneMemory::create(layout()).unwrap();
        assert!(ftruncate(&file, 0).is_err());
        assert!(ftruncate(&file, 1 << 20).is_err());
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
    }

    #[test]
    fn unsealed_or_short_memory_is_refused() {
        let file = memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, layout().total_bytes() as u64).unwrap();
        assert!(LaneMemory::open(&file, layout()).is_err());
        let (_service, file) = LaneMemory::create(layout()).unwrap();
        assert!(LaneMemory::open(&file, Layout::new(8, 16384).unwrap()).is_err());
    }

    #[test]
    fn extents_outside_the_arena_have_no_span() {
        let (service, _file) = LaneMemory::create(layout()).unwrap();
        assert!(service.span(Extent::new(0, 8192)).is_some());
        for extent in [Extent::new(0, 8193), Extent::new(8192, 1), Extent::new(u32::MAX, 2), Extent::new(1, u32::MAX)] {
            assert!(service.span(extent).is_none());
        }
    }
}
