//! Threads in programs that belong to somebody else.

use std::io;
use std::mem::MaybeUninit;
use std::thread::Builder;

/// Starts a thread that gets none of the program's signals.
///
/// # Errors
/// No thread can be made.
pub(crate) fn spawn_without_signals(name: &str, stack: usize, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `sigfillset` makes `all` a set, which the next call reads; `before` is written by it.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    // A thread begins with the signals of who started it.
    let started = Builder::new().name(name.to_owned()).stack_size(stack).spawn(work);
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.map(drop)
}
