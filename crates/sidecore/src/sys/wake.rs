//! The two wake-up channels of a lane, and the eventfd that wakes a service thread.
//!
//! A client rings its sidecore through a pipe, which the sidecore never reads: it is registered edge-triggered, so each
//! write is an event. A read could block it, because `O_NONBLOCK` belongs to the open file that the client shares. The
//! client empties the pipe when it is full. An eventfd would do as well, but a client could not tell its own from another
//! one: see [`super::own`].
//!
//! A sidecore must never *write* what a client reads and writes too: a hostile one could fill it and clear `O_NONBLOCK`. So
//! it wakes its clients through a second pipe, of which it keeps the end that writes.

use super::own::Own;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Makes an eventfd for edge-triggered waiting.
pub(crate) fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Wakes whoever waits on this eventfd. A counter that is full has woken it already.
pub(crate) fn ring(event: impl AsFd) {
    let _ = retry_on_intr(|| write(&event, &1u64.to_ne_bytes()));
}

/// The client's ends of a doorbell.
#[derive(Debug)]
pub(crate) struct Ringer {
    /// Held so that there is always a reader: without one a ring would end the program by a signal.
    reader: Own,
    writer: Own,
}

impl Ringer {
    pub(crate) fn new(reader: OwnedFd, writer: OwnedFd) -> io::Result<Self> {
        Ok(Self { reader: Own::new(reader)?, writer: Own::new(writer)? })
    }

    /// Wakes the sidecore. `false`: the program closed the doorbell.
    pub(crate) fn ring(&self) -> bool {
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
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // One page instead of sixteen; where the kernel refuses, the pipe is only larger.
    let _ = fcntl_setpipe_size(&writer, 4096);
    Ok((reader, writer))
}

/// Writes one byte without ever blocking. A full pipe has woken its reader already; a closed one has none.
pub(crate) fn ring_pipe(writer: impl AsFd) {
    let _ = retry_on_intr(|| write(&writer, &[1]));
}

/// Empties the pipe, so that the next wait sleeps.
pub(crate) fn drain_pipe(reader: impl AsFd) {
    let mut buffer = [0; 64];
    while retry_on_intr(|| read(&reader, &mut buffer)) == Ok(buffer.len()) {}
}

/// Whether a system call was only interrupted by a signal.
pub(crate) fn interrupted(error: Errno) -> bool {
    error == Errno::INTR
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poller::Poller;

    #[test]
    fn each_ring_is_an_event_though_nobody_reads() {
        let (reader, writer) = pipe().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add_edge(&reader, 7).unwrap();
        let ringer = Ringer::new(reader.try_clone().unwrap(), writer).unwrap();
        // Twice as often as the pipe has bytes.
        for _ in 0..8192 {
            assert!(ringer.ring());
            assert_eq!(poller.wait(Some(0)).collect::<Vec<_>>(), [7]);
            assert_eq!(poller.wait(Some(0)).count(), 0);
        }
    }
}
