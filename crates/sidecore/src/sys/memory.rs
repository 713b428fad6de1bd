//! What the allocator keeps.

/// Gives memory that was freed back to the system, as far as the C library can.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and the C library keeps its own memory in order.
    unsafe {
        libc::malloc_trim(0)
    };
}
