//! What the allocator keeps.

/// Gives memory that was freed back to the system, as far as the C library can: where all memory of the process is locked it
/// keeps most of it for what is allocated next.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and the C library keeps its own memory in order.
    unsafe {
        libc::malloc_trim(0)
    };
}
