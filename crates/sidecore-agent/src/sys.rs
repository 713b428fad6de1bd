//! System calls whose safety the caller cannot see: a descriptor by its number, a thread's mask of file modes.

use rustix::io::fcntl_dupfd_cloexec;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// A duplicate of the descriptor with this number.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it is only passed to the next call, which returns an error if no such descriptor is open.
    let named = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_dupfd_cloexec(named, 0)?)
}

/// Gives the calling thread a mask of file modes, a root and a working directory of its own.
pub(crate) fn own_mask() -> io::Result<()> {
    // SAFETY: of all flags, only the one for descriptors can take something from other code.
    unsafe { unshare_unsafe(UnshareFlags::FS) }?;
    Ok(())
}
