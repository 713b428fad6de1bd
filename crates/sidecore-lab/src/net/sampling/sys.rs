//! A system call that no crate here has: how urgently a thread runs.

use std::io;

/// The calling thread runs only where nothing else wants to.
///
/// # Errors
/// The system's.
pub(super) fn run_last() -> io::Result<()> {
    // SAFETY: all zeros are a valid value of this structure of numbers.
    let no_priority: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: it reads one structure, which is there for the whole call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const no_priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
