//! Figures of the allocator.

pub(crate) fn allocated() -> u64 {
    // SAFETY: it takes nothing and returns numbers.
    let found = unsafe { libc::mallinfo2() };
    (found.uordblks + found.hblkhd) as u64
}
