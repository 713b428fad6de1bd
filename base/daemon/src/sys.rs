//! System calls of a service, in the types of the rest of the runtime.

pub mod cpu;
pub mod directory;
pub mod message;
pub mod packet;
pub mod park;
pub mod peer;
pub mod poller;
pub mod wake;

use std::ffi::c_uint;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A duplicate of the descriptor with this number. The program that started this one tells the number.
///
/// # Errors
/// There is no such descriptor, or none is left.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it takes three numbers, and does not change the existing descriptor, which other code may own.
    let code = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nothing else has.
    Ok(unsafe { OwnedFd::from_raw_fd(code) })
}

/// Gives the calling thread a table of descriptors of its own, a copy of the present one.
///
/// # Errors
/// Those of the system: Linux before 5.9, or a filter of its calls.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: it takes three numbers. No descriptor has this number, so none is closed, in either table.
    let code = unsafe { libc::syscall(libc::SYS_close_range, c_uint::MAX, c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
