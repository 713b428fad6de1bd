//! Descriptors of the program, and those that this library makes beside them.

use std::os::fd::{BorrowedFd, RawFd};
use syscalls::{Sysno, syscall};

/// The program's descriptor of that number, which the program has open while it calls.
pub(crate) fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: it is not closed here. Where another thread of the program closes it meanwhile, a system call fails or concerns
    // what has the number then, as with the program's own calls. It is not -1, as something is known of it.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// What happens there is told by that set no more. Whatever else has the number of the set by now refuses.
pub(crate) fn leave_epoll(set: RawFd, fd: RawFd) {
    // SAFETY: a deletion reads and writes no memory.
    let _ = unsafe { syscall!(Sysno::epoll_ctl, set, libc::EPOLL_CTL_DEL, fd, 0) };
}
