//! A descriptor by its number, whose safety the caller cannot see.

use rustix::io::fcntl_dupfd_cloexec;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// A duplicate of the descriptor with this number.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it is only passed to the next call, which returns an error if no such descriptor is open.
    let named = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_dupfd_cloexec(named, 0)?)
}
