//! Detects with one load that this process is a forked child.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Smallest page size, bytes.
pub(super) const PAGE: usize = 4096;

/// A page that the kernel wipes in a forked child.
#[derive(Debug)]
pub struct ForkGuard(NonNull<AtomicU64>);

// SAFETY: the page is owned by the guard and only reached as an atomic.
unsafe impl Send for ForkGuard {}
// SAFETY: as above; atomics may be shared.
unsafe impl Sync for ForkGuard {}

impl ForkGuard {
    /// A guard with this process as the owner.
    ///
    /// # Errors
    /// No memory, or a kernel that cannot wipe pages on fork.
    pub fn new() -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh private mapping overlaps nothing.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), PAGE, protection, MapFlags::PRIVATE)? };
        let guard = Self(NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)?);
        // SAFETY: the page is the one just mapped.
        unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork)? };
        guard.claim();
        Ok(guard)
    }

    #[inline]
    fn word(&self) -> &AtomicU64 {
        // SAFETY: mapped and zeroed or written as an atomic for the life of the guard.
        unsafe { self.0.as_ref() }
    }

    /// Makes this process the owner.
    pub fn claim(&self) {
        self.word().store(1, Ordering::Relaxed);
    }

    /// Whether this process is a forked child of the owner.
    #[inline]
    pub fn forked(&self) -> bool {
        self.word().load(Ordering::Relaxed) == 0
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; nothing borrows it any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), PAGE) };
    }
}
