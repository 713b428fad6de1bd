//! Descriptors in a process that belongs to somebody else.
//!
//! A program may close any number and open something of its own there: daemons close all that they did not open. So a
//! library remembers what each of its descriptors is, and looks before it uses or closes one. That takes a system call,
//! which is why it is done where there is one anyway, and not while spinning.
//!
//! What tells open files apart is device and inode. Sockets and pipes have an inode each; eventfds, timers and epoll sets
//! share one. Hence lanes are made of the former, and of memory, which has an inode of its own too.

use rustix::fs::fstat;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use syscalls::{Sysno, syscall};

/// `select` takes smaller numbers only.
pub const SELECT_LIMIT: RawFd = 1024;
/// The numbers below are standard input, output and errors.
const FIRST: RawFd = 3;

/// A descriptor with an inode of its own: a socket, a pipe or memory. Where its number has another file by now it is
/// neither used nor closed.
#[derive(Debug)]
pub struct Own {
    /// There until dropped.
    fd: Option<OwnedFd>,
    device: u64,
    inode: u64,
}

/// A descriptor that was left open: a record without an owner.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Left {
    device: u64,
    inode: u64,
    number: RawFd,
}

impl Left {
    /// None was left.
    pub const NONE: Self = Self { device: 0, inode: 0, number: -1 };

    /// Device, inode and number, for shared memory.
    pub fn words(self) -> [u64; 3] {
        [self.device, self.inode, self.number.cast_unsigned().into()]
    }

    /// From [`Left::words`]. Any other words are safe: [`Own::recall`] compares device and inode.
    pub fn from_words([device, inode, number]: [u64; 3]) -> Self {
        Self { device, inode, number: (number as u32).cast_signed() }
    }

    /// The number. It may be another file's by now.
    pub fn number(self) -> RawFd {
        self.number
    }

    /// The same open file left under one more number; none, if this process does not have it.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn again(self) -> io::Result<Self> {
        let Some(own) = Own::recall(self) else { return Ok(Self::NONE) };
        let again = own.get().ok_or_else(closed).and_then(Own::copy);
        own.leave();
        again.map(Own::leave)
    }
}

impl Own {
    /// Takes a descriptor, and moves it behind the numbers that `select` takes, where the limit on files allows it: those are
    /// left to what programs select on.
    ///
    /// # Errors
    /// No descriptor left to move it off the numbers 0, 1 and 2: a program that closed them opens its own files there.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        Self::remember(fd)?.moved(SELECT_LIMIT)
    }

    /// Takes a descriptor that the program may wait for by `select`.
    ///
    /// # Errors
    /// As for [`Own::new`].
    pub fn selectable(fd: OwnedFd) -> io::Result<Self> {
        Self::remember(fd)?.moved(FIRST)
    }

    /// The same open file under one more number, which is out of the way.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn copy(of: BorrowedFd<'_>) -> io::Result<Self> {
        Self::remember(copied_out_of_the_way(of)?)
    }

    /// The descriptor, for a process whose numbers no other code takes over.
    ///
    /// # Errors
    /// None: it stays until dropped.
    pub fn into_owned(mut self) -> io::Result<OwnedFd> {
        self.fd.take().ok_or_else(closed)
    }

    /// The descriptor, if it is still ours.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.fd.as_ref()?;
        let status = fstat(fd).ok()?;
        (status.st_dev == self.device && status.st_ino == self.inode).then(|| fd.as_fd())
    }

    /// Its number and inode, to be found again by [`Own::recall`]. It stays open.
    pub fn leave(mut self) -> Left {
        let number = self.fd.take().map_or(-1, IntoRawFd::into_raw_fd);
        Left { number, device: self.device, inode: self.inode }
    }

    /// The descriptor that was left, if this process has it, open as it was left.
    pub fn recall(left: Left) -> Option<Self> {
        if left.number < FIRST {
            return None;
        }
        // SAFETY: asked for its inode only, which an arbitrary number survives.
        let status = fstat(unsafe { BorrowedFd::borrow_raw(left.number) }).ok()?;
        let is_left = status.st_dev == left.device && status.st_ino == left.inode;
        // SAFETY: the file behind the number is the one that was left, and who recalls it is its owner again.
        let fd = is_left.then(|| unsafe { OwnedFd::from_raw_fd(left.number) })?;
        Some(Self { fd: Some(fd), device: left.device, inode: left.inode })
    }

    /// The descriptor, ours or not: to poll it, which does nothing to it.
    ///
    /// # Errors
    /// None: it stays until dropped.
    pub fn to_poll(&self) -> io::Result<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd).ok_or_else(closed)
    }

    /// The same from that number on, where the limit on files allows it.
    fn moved(self, first: RawFd) -> io::Result<Self> {
        let fd = self.get().ok_or_else(closed)?;
        if fd.as_raw_fd() >= first {
            return Ok(self);
        }
        match fcntl_dupfd_cloexec(fd, first) {
            // The limit is below, or reached.
            Err(Errno::INVAL | Errno::MFILE) if fd.as_raw_fd() >= FIRST => Ok(self),
            Err(Errno::INVAL) => Self::remember(fcntl_dupfd_cloexec(fd, FIRST)?),
            moved => Self::remember(moved?),
        }
    }

    fn remember(fd: OwnedFd) -> io::Result<Self> {
        let status = fstat(&fd)?;
        Ok(Self { fd: Some(fd), device: status.st_dev, inode: status.st_ino })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let is_ours = self.get().is_some();
        if let Some(number) = self.fd.take().map(IntoRawFd::into_raw_fd).filter(|_| is_ours) {
            // The C library's `close` may be the one that keeps this descriptor from being closed by the program.
            // SAFETY: the number is ours, and nothing uses it afterwards.
            let _ = unsafe { syscall!(Sysno::close, number) };
        }
    }
}

/// Moves a descriptor off the numbers 0, 1 and 2: a program that closed them opens its own files there.
///
/// # Errors
/// No descriptor is left.
pub fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST { Ok(fd) } else { Ok(fcntl_dupfd_cloexec(&fd, FIRST)?) }
}

/// Moves a descriptor without an inode of its own as [`Own::new`] does.
///
/// # Errors
/// No descriptor is left, and it has one of the numbers 0, 1 and 2.
pub fn out_of_the_way(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= SELECT_LIMIT {
        return Ok(fd);
    }
    // The limit may be below, or reached.
    copied_out_of_the_way(fd.as_fd()).or_else(|_| above_standard(fd))
}

fn copied_out_of_the_way(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match fcntl_dupfd_cloexec(fd, SELECT_LIMIT) {
        Err(Errno::INVAL | Errno::MFILE) => Ok(fcntl_dupfd_cloexec(fd, FIRST)?),
        moved => Ok(moved?),
    }
}

/// What is said of a descriptor that is not ours any more.
pub fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the program closed the descriptors of its connection to the service")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn socket() -> Own {
        let (one, _) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        Own::new(one).unwrap()
    }

    #[test]
    fn what_was_left_is_recalled_and_nothing_else_under_its_number() {
        let left = socket().leave();
        let again = left.again().unwrap();
        drop(Own::recall(left).unwrap());
        assert!(Own::recall(left).is_none() && left.again().unwrap().number < 0);
        let other = socket();
        let stale = Left { number: other.to_poll().unwrap().as_raw_fd(), ..again };
        assert!(Own::recall(stale).is_none() && other.get().is_some());
        assert!(Own::recall(again).is_some() && Own::recall(Left::NONE).is_none());
    }
}
