//! The two wake-up channels of a lane.
//!
//! A client rings its sidecore through a pipe that the sidecore never reads: it is registered edge-triggered, so each
//! write is an event. A read could block it, because the client shares the open file and its `O_NONBLOCK` flag. The
//! client drains the pipe when it is full. An eventfd would work as well, but eventfds cannot be told apart: see
//! [`super::verified_fd`].
//!
//! A sidecore must never *write* to a file that a client both reads and writes: a hostile client could fill it and
//! clear `O_NONBLOCK`. So it wakes its clients through a second pipe and keeps the writing end.

use super::verified_fd::VerifiedFd;
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Both ends of a pipe in a program that may close them: a doorbell that the client rings, or a bell that it waits on
/// itself.
#[derive(Debug)]
pub struct Ringer {
    /// Keeps a reader open: without one a ring would end the program by a signal.
    reader: VerifiedFd,
    writer: VerifiedFd,
}

impl Ringer {
    /// Takes both ends of the pipe.
    ///
    /// # Errors
    /// No descriptor is left to move them off the numbers 0, 1 and 2.
    pub fn new(reader: OwnedFd, writer: OwnedFd) -> io::Result<Self> {
        Ok(Self { reader: VerifiedFd::new(reader)?, writer: VerifiedFd::new(writer)? })
    }

    /// A bell for this process. It is a pipe, because eventfds cannot be told apart.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn bell() -> io::Result<Self> {
        let (reader, writer) = pipe()?;
        Self::new(reader, writer)
    }

    /// Wakes the waiting side. `false`: the program closed the descriptor.
    pub fn ring(&self) -> bool {
        let Some(writer) = self.writer.get() else { return false };
        let write = || retry_on_intr(|| write(writer, &[1]));
        if write() == Err(Errno::AGAIN) {
            let Some(reader) = self.reader.get() else { return false };
            drain_pipe(reader);
            let _ = write();
        }
        true
    }

    /// Numbers of both ends, if they are still the ringer's.
    pub fn descriptors(&self) -> [Option<RawFd>; 2] {
        [&self.reader, &self.writer].map(|end| end.get().map(|fd| fd.as_raw_fd()))
    }

    /// The end to wait on. `None`: the program closed it.
    pub fn reader(&self) -> Option<BorrowedFd<'_>> {
        self.reader.get()
    }

    /// Whether it rang since the last call.
    pub fn rang(&self) -> bool {
        self.reader.get().is_some_and(drain_pipe)
    }
}

/// A pipe of one page: the end to wait on, and the end that wakes.
///
/// # Errors
/// No descriptor is left.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // One page instead of sixteen; if the kernel refuses, the pipe is only larger.
    let _ = fcntl_setpipe_size(&writer, 4096);
    Ok((reader, writer))
}

/// Writes one byte without blocking. A full pipe has woken its reader already; a closed one has no reader.
pub fn ring_pipe(writer: impl AsFd) {
    let _ = retry_on_intr(|| write(&writer, &[1]));
}

/// Drains the pipe, so that the next wait sleeps. Returns whether it had content.
pub fn drain_pipe(reader: impl AsFd) -> bool {
    let (mut any, mut buffer) = (false, [0; 64]);
    loop {
        let got = retry_on_intr(|| read(&reader, &mut buffer)).unwrap_or(0);
        any |= got > 0;
        if got < buffer.len() {
            return any;
        }
    }
}
