//! The two wake-up channels of a lane, and the eventfd that wakes a service thread.
//!
//! A client rings its sidecore through an eventfd, which the sidecore never reads: it is registered edge-triggered, so
//! each write is an event. A read could block it, because `O_NONBLOCK` belongs to the open file that the client shares.
//!
//! For the same reason a sidecore must never *write* an eventfd that a client holds: a hostile client could fill the
//! counter and clear `O_NONBLOCK`. So it wakes its clients through a pipe, whose two ends are two open files.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Makes an eventfd for edge-triggered waiting.
pub(crate) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Wakes whoever waits on this eventfd. A counter that is full has woken it already.
pub(crate) fn ring(event: impl AsFd) {
    let _ = write(event, &1u64.to_ne_bytes());
}

/// A pipe of one page: the end to wait on, and the end that wakes.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // One page instead of sixteen; where the kernel refuses, the pipe is only larger.
    let _ = fcntl_setpipe_size(&writer, 4096);
    Ok((reader, writer))
}

/// Writes one byte without ever blocking. A full pipe has woken its reader already; a closed one has none.
pub(crate) fn ring_pipe(writer: impl AsFd) {
    let _ = write(writer, &[1]);
}

/// Empties the pipe, so that the next wait sleeps.
pub(crate) fn drain_pipe(reader: impl AsFd) {
    let mut buffer = [0; 64];
    while read(&reader, &mut buffer) == Ok(buffer.len()) {}
}

/// Whether a system call was only interrupted by a signal.
pub(crate) fn interrupted(error: Errno) -> bool {
    error == Errno::INTR
}
