//! What a program may do to itself.

/// Closes all descriptors but standard input, output and errors, as daemons do.
pub(crate) fn close_all() {
    for number in 3..4096 {
        // SAFETY: what any program may do, and the matter of the test.
        unsafe { libc::close(number) };
    }
}
