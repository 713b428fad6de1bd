//! A system call that none of the crates here offers: scheduling policy of a thread.

use std::io;

/// Gives the calling thread the lowest priority: it runs only if nothing else does.
pub(super) fn run_last() -> io::Result<()> {
    // SAFETY: all zeros are a valid value of this structure of numbers.
    let no_priority: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the call reads one structure, which lives through the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const no_priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
