//! Descriptors of the program, and those that this library makes beside them.

use super::errno;
use crate::calls::settle;
use crate::gate;
use rustix::io::Errno;
use sidecore_core::streams::rule::Why;
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

/// Has the socket of that number, if it is watched, leave its ring until it is closed.
///
/// # Errors
/// The ring cannot be emptied: the call that would send behind it fails with this.
pub(super) fn drained_for_good(fd: RawFd, why: Why) -> Result<(), Errno> {
    gate::watched(fd).map_or(Ok(()), |gate| errno::kept(|| settle::drain_for_good(gate, why)))
}
