//! Descriptors of the program, and those that this library makes beside them.

use std::os::fd::{BorrowedFd, RawFd};
use syscalls::{Sysno, syscall};

/// The program's descriptor of that number, which the program has open while it calls.
pub(crate) fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: it is not closed here. Where another thread of the program closes it meanwhile, a system call fails or concerns
    // what has the number then, as with the program's own calls. It is not -1, as something is known of it.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// Closes a descriptor of this library.
pub(crate) fn close_own(fd: RawFd) {
    // SAFETY: the number is this library's, and nothing uses it any more.
    let _ = unsafe { syscall!(Sysno::close, fd) };
}
