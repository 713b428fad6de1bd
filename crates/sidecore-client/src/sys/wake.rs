//! The two wake-up channels of a lane.
//!
//! A client rings its sidecore through a pipe, which the sidecore never reads: it is registered edge-triggered, so each
//! write is an event. A read could block it, because `O_NONBLOCK` belongs to the open file that the client shares. The
//! client empties the pipe when it is full. An eventfd would do as well, but a client could not tell its own from another
//! one: see [`super::own`].
//!
//! A sidecore must never *write* what a client reads and writes too: a hostile one could fill it and clear `O_NONBLOCK`. So
//! it wakes its clients through a second pipe, of which it keeps the end that writes.

use super::own::Own;
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The client's ends of a doorbell.
#[derive(Debug)]
pub struct Ringer {
    /// Held so that there is always a reader: without one a ring would end the program by a signal.
    reader: Own,
    writer: Own,
}

impl Ringer {
    /// Takes both ends of the pipe.
    ///
    /// # Errors
    /// No descriptor left to move them off the numbers 0, 1 and 2.
    pub fn new(reader: OwnedFd, writer: OwnedFd) -> io::Result<Self> {
        Ok(Self { reader: Own::new(reader)?, writer: Own::new(writer)? })
    }

    /// Wakes the sidecore. `false`: the program closed the doorbell.
    pub fn ring(&self) -> bool {
        let Some(writer) = self.writer.get() else { return false };
        let write = || retry_on_intr(|| write(writer, &[1]));
        if write() == Err(Errno::AGAIN) {
            let Some(reader) = self.reader.get() else { return false };
            let mut buffer = [0; 512];
            while retry_on_intr(|| read(reader, &mut buffer)) == Ok(buffer.len()) {}
            let _ = write();
        }
        true
    }
}

/// A pipe of one page: the end to wait on, and the end that wakes.
///
/// # Errors
/// No descriptor is left.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // One page instead of sixteen; where the kernel refuses, the pipe is only larger.
    let _ = fcntl_setpipe_size(&writer, 4096);
    Ok((reader, writer))
}

/// Writes one byte without ever blocking. A full pipe has woken its reader already; a closed one has none.
pub fn ring_pipe(writer: impl AsFd) {
    let _ = retry_on_intr(|| write(&writer, &[1]));
}

/// Empties the pipe, so that the next wait sleeps.
pub fn drain_pipe(reader: impl AsFd) {
    let mut buffer = [0; 64];
    while retry_on_intr(|| read(&reader, &mut buffer)) == Ok(buffer.len()) {}
}

/// Whether a system call was only interrupted by a signal.
pub fn interrupted(error: Errno) -> bool {
    error == Errno::INTR
}
