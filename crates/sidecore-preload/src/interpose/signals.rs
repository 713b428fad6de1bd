//! What the program does with signals.

use libc::c_int;
use std::mem::MaybeUninit;

const LAST: c_int = 64;

/// Whether a call that a signal interrupted goes on afterwards, as far as that can be told: each handler that the program has
/// set says so.
pub(crate) fn all_restart() -> bool {
    (1..=LAST).all(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: it is asked only, and writes what there is room for; all-zero bytes are an action.
        let action = unsafe {
            libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        let is_caught = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        !is_caught || action.sa_flags & libc::SA_RESTART != 0
    })
}

/// What the kernel does to who sends where nothing can be sent any more.
pub(crate) fn broken_pipe() {
    // SAFETY: raises a signal for this thread.
    unsafe { libc::raise(libc::SIGPIPE) };
}
