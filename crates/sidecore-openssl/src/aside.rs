//! Work with large frames, away from the small stack of an asynchronous job: OpenSSL gives jobs 32 KiB and no guard page.

use crate::ffi::fibre;

/// Enough for connecting and for opening sessions, bytes.
const STACK_BYTES: usize = 256 << 10;

/// Does the work: in a job on a stack of its own, elsewhere here. Not on a thread, for `HAProxy` lets its workers make
/// none.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    if is_stack_small() { stacker::grow(STACK_BYTES, work) } else { here(work) }
}

/// Keeps the frames of `work` out of the caller's.
#[inline(never)]
fn here<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(not(test))]
fn is_stack_small() -> bool {
    fibre::current().is_some()
}

#[cfg(test)]
thread_local! {
    /// Stands for a job: this thread has a small stack.
    pub(crate) static SMALL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
fn is_stack_small() -> bool {
    SMALL.get() || fibre::current().is_some()
}
