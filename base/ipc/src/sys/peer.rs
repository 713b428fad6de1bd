//! Identity of the process at the other end of a Unix socket, from the kernel, at the time of connecting.

use super::poll::wait_readable;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A process with its user and group. A process in another PID namespace has the number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its number.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// The process that connected this socket, with its effective user and group at that time.
///
/// # Errors
/// Errors of the socket.
pub fn credentials(socket: impl AsFd) -> io::Result<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `found` is writable for `bytes`, which is writable itself, and the descriptor is borrowed, so open.
    let code = unsafe {
        let (fd, to) = (socket.as_fd().as_raw_fd(), (&raw mut found).cast::<c_void>());
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut bytes)
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Credentials { pid: found.pid.cast_unsigned(), uid: found.uid, gid: found.gid })
}

/// Whether the process that called `listen` on the peer's socket has ended, as far as the kernel reports it: since
/// Linux 6.5. Then another process holds the socket until the next one starts.
pub fn listener_has_ended(socket: impl AsFd) -> bool {
    let (mut process, mut bytes): (c_int, _) = (-1, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: `process` is writable for `bytes`, which is writable itself, and the descriptor is borrowed, so open.
    let code = unsafe {
        let (fd, to) = (socket.as_fd().as_raw_fd(), (&raw mut process).cast::<c_void>());
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERPIDFD, to, &raw mut bytes)
    };
    if code != 0 || process < 0 {
        // The first is of kernels before Linux 6.16.
        return matches!(io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL | libc::ESRCH));
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nothing else has.
    let process = unsafe { OwnedFd::from_raw_fd(process) };
    wait_readable(process.as_fd(), Some(0)).unwrap_or(false)
}
