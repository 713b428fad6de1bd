//! Descriptors of the program.

use std::os::fd::{BorrowedFd, RawFd};
use syscalls::{Sysno, syscall};

/// The program's descriptor with this number, which is open during the program's call.
pub(crate) fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: it is not closed here. If another thread of the program closes it, a system call fails or concerns
    // the number's next file, as with the program's own calls. It is not -1, because the table has it.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// Removes the socket from this set. Any other file with the set's number refuses.
pub(crate) fn leave_epoll(set: RawFd, fd: RawFd) {
    // SAFETY: a deletion reads and writes no memory.
    let _ = unsafe { syscall!(Sysno::epoll_ctl, set, libc::EPOLL_CTL_DEL, fd, 0) };
}
