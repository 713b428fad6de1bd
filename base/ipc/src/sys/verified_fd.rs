//! Descriptors of a library in a program that does not know of them.
//!
//! A program may close any number and reuse it: daemons close all descriptors that they did not open. So the library
//! stores the identity of each of its descriptors, and checks it before use and before closing. The check is a system
//! call, so it runs only next to another system call, and never while spinning.
//!
//! Device and inode identify an open file. Each socket and pipe has an inode of its own; eventfds, timers and epoll
//! sets share one. So lanes use sockets, pipes, and memory, which also has an inode of its own.

use rustix::fs::fstat;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use syscalls::{Sysno, syscall};

/// `select` accepts only smaller numbers.
pub const SELECT_LIMIT: RawFd = 1024;
/// Numbers below the limit on files for this library's descriptors, where the limit is low.
const BELOW_LIMIT: RawFd = 32;
/// First number after standard input, output and errors.
const FIRST: RawFd = 3;

/// A descriptor with an inode of its own: a socket, a pipe or memory. If its number refers to another file, it is
/// neither used nor closed.
#[derive(Debug)]
pub struct VerifiedFd {
    /// `None` only during drop.
    fd: Option<OwnedFd>,
    device: u64,
    inode: u64,
}

/// The record of a descriptor that was left open, without ownership.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Left {
    device: u64,
    inode: u64,
    number: RawFd,
}

impl Left {
    /// No descriptor.
    pub const NONE: Self = Self { device: 0, inode: 0, number: -1 };

    /// Device, inode and number, for storage in shared memory.
    pub fn words(self) -> [u64; 3] {
        [self.device, self.inode, self.number.cast_unsigned().into()]
    }

    /// Inverse of [`Left::words`]. Any other words are safe: [`VerifiedFd::recall`] compares device and inode.
    pub fn from_words([device, inode, number]: [u64; 3]) -> Self {
        Self { device, inode, number: (number as u32).cast_signed() }
    }

    /// The number. It may refer to another file now.
    pub fn number(self) -> RawFd {
        self.number
    }

    /// Duplicates the open file to one more number and leaves that open; no descriptor if this process does not have
    /// the file.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn again(self) -> io::Result<Self> {
        let Some(own) = VerifiedFd::recall(self) else { return Ok(Self::NONE) };
        let again = own.get().ok_or_else(closed).and_then(VerifiedFd::copy);
        own.leave();
        again.map(VerifiedFd::leave)
    }
}

impl VerifiedFd {
    /// Takes a descriptor, and moves it above the numbers that `select` accepts if the limit on files allows it: those
    /// are left to the program.
    ///
    /// # Errors
    /// No descriptor is left to move it off the numbers 0, 1 and 2: a program that closed these opens its own files
    /// there.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Self::remember(fd)?.moved(SELECT_LIMIT)
    }

    /// Takes a descriptor that the program may pass to `select`.
    ///
    /// # Errors
    /// As for [`VerifiedFd::new`].
    pub fn selectable(fd: OwnedFd) -> io::Result<Self> {
        Self::remember(fd)?.moved(FIRST)
    }

    /// Duplicates the open file to a number above those of `select`.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn copy(of: BorrowedFd<'_>) -> io::Result<Self> {
        Self::remember(copied_out_of_the_way(of)?)
    }

    /// The descriptor itself, for a process where no other code reuses its number.
    ///
    /// # Errors
    /// The descriptor is closed already.
    pub fn into_owned(mut self) -> io::Result<OwnedFd> {
        self.fd.take().ok_or_else(closed)
    }

    /// The descriptor, if it still refers to our file.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.fd.as_ref()?;
        let status = fstat(fd).ok()?;
        (status.st_dev == self.device && status.st_ino == self.inode).then(|| fd.as_fd())
    }

    /// Leaves it open, and returns its identity for [`VerifiedFd::recall`].
    pub fn leave(mut self) -> Left {
        let number = self.fd.take().map_or(-1, IntoRawFd::into_raw_fd);
        Left { number, device: self.device, inode: self.inode }
    }

    /// Takes ownership again of a descriptor that was left, if it is open in this process and still the same file.
    pub fn recall(left: Left) -> Option<Self> {
        if left.number < FIRST {
            return None;
        }
        // SAFETY: only queried for its inode, which is harmless for any number.
        let status = fstat(unsafe { BorrowedFd::borrow_raw(left.number) }).ok()?;
        let is_left = status.st_dev == left.device && status.st_ino == left.inode;
        // SAFETY: the file with this number is the one that was left, and the caller is its owner again.
        let fd = is_left.then(|| unsafe { OwnedFd::from_raw_fd(left.number) })?;
        Some(Self { fd: Some(fd), device: left.device, inode: left.inode })
    }

    /// The descriptor without a check, only for polling, which does not change a file.
    ///
    /// # Errors
    /// The descriptor is closed already.
    pub fn to_poll(&self) -> io::Result<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd).ok_or_else(closed)
    }

    fn moved(self, first: RawFd) -> io::Result<Self> {
        let fd = self.get().ok_or_else(closed)?;
        if fd.as_raw_fd() >= first {
            return Ok(self);
        }
        let moved = if first == SELECT_LIMIT { highest_copy(fd) } else { fcntl_dupfd_cloexec(fd, first) };
        match moved {
            // The limit is reached.
            Err(Errno::INVAL | Errno::MFILE) if fd.as_raw_fd() >= FIRST => Ok(self),
            moved => Self::remember(moved?),
        }
    }

    fn remember(fd: OwnedFd) -> io::Result<Self> {
        let status = fstat(&fd)?;
        Ok(Self { fd: Some(fd), device: status.st_dev, inode: status.st_ino })
    }
}

impl Drop for VerifiedFd {
    fn drop(&mut self) {
        let is_ours = self.get().is_some();
        if let Some(number) = self.fd.take().map(IntoRawFd::into_raw_fd).filter(|_| is_ours) {
            // The C library's `close` may be an interposed one that protects this descriptor.
            // SAFETY: the number is ours, and nothing uses it afterwards.
            let _ = unsafe { syscall!(Sysno::close, number) };
        }
    }
}

/// Moves a descriptor off the numbers 0, 1 and 2: a program that closed these opens its own files there.
///
/// # Errors
/// No descriptor is left.
pub fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST { Ok(fd) } else { Ok(fcntl_dupfd_cloexec(&fd, FIRST)?) }
}

/// Moves a descriptor without an inode of its own, as [`VerifiedFd::new`] does.
///
/// # Errors
/// No descriptor is left, and it has one of the numbers 0, 1 and 2.
pub fn out_of_the_way(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= SELECT_LIMIT {
        return Ok(fd);
    }
    // The limit may be reached.
    copied_out_of_the_way(fd.as_fd()).or_else(|_| above_standard(fd))
}

fn copied_out_of_the_way(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match highest_copy(fd) {
        Err(Errno::INVAL | Errno::MFILE) => Ok(fcntl_dupfd_cloexec(fd, FIRST)?),
        moved => Ok(moved?),
    }
}

/// A copy above the numbers of `select`. Where the limit on files is not above them, close below that limit: a program
/// gets the lowest free numbers, and may count on them.
fn highest_copy(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    match fcntl_dupfd_cloexec(fd, SELECT_LIMIT) {
        Err(Errno::INVAL) => {
            let limit = getrlimit(Resource::Nofile).current.and_then(|limit| RawFd::try_from(limit).ok());
            fcntl_dupfd_cloexec(fd, limit.map_or(FIRST, |limit| (limit - BELOW_LIMIT).max(FIRST)))
        }
        moved => moved,
    }
}

/// The error for a descriptor that is no longer ours.
pub fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the program closed the descriptors of its connection to the service")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn socket() -> VerifiedFd {
        let (one, _) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        VerifiedFd::new(one).unwrap()
    }

    #[test]
    fn what_was_left_is_recalled_and_nothing_else_under_its_number() {
        let left = socket().leave();
        let again = left.again().unwrap();
        drop(VerifiedFd::recall(left).unwrap());
        assert!(VerifiedFd::recall(left).is_none() && left.again().unwrap().number < 0);
        let other = socket();
        let stale = Left { number: other.to_poll().unwrap().as_raw_fd(), ..again };
        assert!(VerifiedFd::recall(stale).is_none() && other.get().is_some());
        assert!(VerifiedFd::recall(again).is_some() && VerifiedFd::recall(Left::NONE).is_none());
    }
}
