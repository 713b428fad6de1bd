//! What the allocator keeps.

/// All threads allocate from one heap, which grows and shrinks at its end. Where all memory of a process is locked, the C
/// library can give back nothing of its other heaps (`MADV_DONTNEED` fails there). To be called before there are threads.
pub(crate) fn one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes two numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// Gives memory that was freed back to the system, as far as the C library can.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and the C library keeps its own memory in order.
    unsafe {
        libc::malloc_trim(0)
    };
}
