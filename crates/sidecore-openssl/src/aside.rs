//! Work with large frames, away from the small stack of an asynchronous job: OpenSSL gives jobs 32 KiB and no guard page.

use crate::ffi::fibre;
use std::io;
use std::thread;

/// Enough for connecting and for opening sessions.
const STACK_BYTES: usize = 256 << 10;

/// Does the work: in a job on a thread of its own, which the job waits for; elsewhere here.
///
/// # Errors
/// No thread can be started.
pub(crate) fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if is_stack_small() { on_thread(work) } else { Ok(here(work)) }
}

#[inline(never)]
fn here<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[inline(never)]
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("sidecore".to_owned()).stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, work)?;
        thread.join().map_err(|_| io::Error::other("a thread of the provider ended early"))
    })
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
