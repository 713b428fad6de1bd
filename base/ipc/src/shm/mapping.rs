//! A shared mapping of a file; unmapped on drop.

use super::fork::{ForkGuard, PAGE};
use rustix::fs::fstat;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munlock, munmap};
use sidecore_core::words::{LINE_BYTES, Line};
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// Limit of one unmapping, which blocks other threads that map or unmap memory.
const MAX_UNMAP_BYTES: usize = 4 << 20;

/// `len` bytes of a file, shared with other processes. Unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// Set if forked children do not inherit the mapping: detects such a child.
    inherited: Option<ForkGuard>,
}

// SAFETY: the mapping is plain memory that belongs to no thread; all access is through atomics or raw copies.
unsafe impl Send for Mapping {}
// SAFETY: as above; `lines` returns atomics, `byte` a raw pointer.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes. The file must keep that length, because an access past its end faults: lanes have
    /// seals for that, counters have only one writer.
    ///
    /// # Errors
    /// `InvalidData`: the file is shorter; else errors of the system.
    pub fn new(file: impl AsFd, len: usize) -> io::Result<Self> {
        let size = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if len == 0 || size < len {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{size} bytes, {len} expected")));
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel picks overlaps nothing.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, inherited: None })
    }

    /// Keeps forked children from inheriting this mapping.
    ///
    /// # Errors
    /// The kernel does not support it, or has no memory left.
    pub fn not_in_children(&mut self) -> io::Result<()> {
        self.inherited = Some(ForkGuard::new()?);
        // SAFETY: the range is this mapping; the advice changes nothing in this process.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxDontFork)? };
        Ok(())
    }

    /// Lets forked children inherit the pages of these bytes again, at the same address.
    ///
    /// # Errors
    /// The kernel has no memory left.
    pub fn in_children(&self, bytes: &[Line]) -> io::Result<()> {
        let start = bytes.as_ptr().map_addr(|start| start & !(PAGE - 1));
        let end = bytes.as_ptr_range().end.addr().next_multiple_of(PAGE);
        let is_inside = start.addr() >= self.start.as_ptr().addr() && end <= self.start.as_ptr().addr() + self.len;
        assert!(is_inside, "pages beyond the mapping");
        // SAFETY: the range is within this mapping; the advice changes nothing in this process.
        unsafe { madvise(start.cast_mut().cast(), end - start.addr(), Advice::LinuxDoFork)? };
        Ok(())
    }

    /// Allows swapping, even if the process locks all of its memory.
    pub fn not_locked(&self) {
        // SAFETY: the range is this mapping; its contents stay. It fails only where nothing is mapped.
        let _ = unsafe { munlock(self.start.as_ptr().cast(), self.len) };
    }

    /// The whole cache lines of the first `bytes` bytes.
    pub fn lines(&self, bytes: usize) -> &[Line] {
        assert!(bytes <= self.len, "lines beyond the mapping");
        debug_assert!(self.start.as_ptr().addr().is_multiple_of(align_of::<Line>()));
        // SAFETY: the range is mapped for the life of `self`, page-aligned, and any bytes are valid atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), bytes / LINE_BYTES) }
    }

    /// Address of a byte of the mapping.
    #[inline]
    pub fn byte(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.len, "an offset beyond the mapping");
        // SAFETY: within the mapping or one past its end.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.inherited.as_ref().is_some_and(ForkGuard::forked) {
            // The mapping does not exist here, and its addresses may be in use for another one.
            return;
        }
        for offset in (0..self.len).step_by(MAX_UNMAP_BYTES) {
            let len = MAX_UNMAP_BYTES.min(self.len - offset);
            // SAFETY: the range was mapped by `new`, and every borrow of it ended with `self`.
            let _ = unsafe { munmap(self.start.as_ptr().add(offset).cast(), len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        let file = rustix::fs::memfd_create("short", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        assert!(Mapping::new(&file, 4097).is_err());
        assert!(Mapping::new(&file, 0).is_err());
        assert_eq!(Mapping::new(&file, 4096).unwrap().lines(4096).len(), 64);
    }
}
