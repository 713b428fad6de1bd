//! System calls of the service, each with the types that the rest of the runtime speaks; with those that clients make too.

pub mod cpu;
pub(crate) mod directory;
pub mod features;
pub(crate) mod message;
pub(crate) mod packet;
pub(crate) mod peer;
pub(crate) mod poller;
pub(crate) mod wake;

pub(crate) use sidecore_client::sys::poll;
pub use sidecore_client::sys::{clock, own};
use std::ffi::c_uint;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Another descriptor of the same file as this number. A program knows which numbers it has from the one that started it.
///
/// # Errors
/// There is no such descriptor, or none is left.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it takes three numbers, and changes nothing about a descriptor that somebody else may have.
    let code = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if code < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nothing else has.
    Ok(unsafe { OwnedFd::from_raw_fd(code) })
}

/// From now on the calling thread has a table of descriptors of its own, with all that there are now.
///
/// # Errors
/// Those of the system: it is Linux before 5.9, or something filters its calls.
pub(crate) fn own_descriptors() -> io::Result<()> {
    // SAFETY: it takes three numbers. No descriptor has this number, so none is closed, in either table.
    let code = unsafe { libc::syscall(libc::SYS_close_range, c_uint::MAX, c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives memory that was freed back to the system, as far as the C library can: where all memory of the process is locked it
/// keeps most of it for what is allocated next.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and the C library keeps its own memory in order.
    unsafe {
        libc::malloc_trim(0)
    };
}
