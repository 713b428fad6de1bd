//! Actions of a program on itself.

/// Closes all descriptors but standard input, output and errors, as daemons do.
pub(crate) fn close_all() {
    for number in 3..4096 {
        // SAFETY: any program may do this, and the test is about it.
        unsafe { libc::close(number) };
    }
}

/// A child that runs longer hangs, seconds.
const TIME_LIMIT_S: u32 = 60;

pub(crate) fn in_child(work: impl FnOnce() -> bool) -> bool {
    let mut status = 0;
    // SAFETY: the child uses only objects that survive a fork, and leaves by `_exit`; `status` is valid.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::alarm(TIME_LIMIT_S);
            libc::_exit(i32::from(!work()));
        }
        libc::waitpid(pid, &raw mut status, 0) == pid && status == 0
    }
}
