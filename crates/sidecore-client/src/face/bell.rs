//! A bell for who waits for a lane by a descriptor.

use crate::sys::own::Own;
use rustix::io::{read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::BorrowedFd;

/// Becomes readable when a lane is free. A pipe: other than eventfds, pipes can be told apart.
pub struct Bell {
    reader: Own,
    writer: Own,
}

impl Bell {
    /// One that did not ring.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { reader: Own::new(reader)?, writer: Own::new(writer)? })
    }

    /// Makes it readable. `false`: the program closed it.
    pub fn ring(&self) -> bool {
        let Some(writer) = self.writer.get() else { return false };
        // A full one has rung already.
        let _ = retry_on_intr(|| write(writer, &[1]));
        true
    }

    /// What becomes readable, or `None` if the program closed it.
    pub fn reader(&self) -> Option<BorrowedFd<'_>> {
        self.reader.get()
    }

    /// Whether it rang since it was asked last.
    pub fn rang(&self) -> bool {
        let Some(reader) = self.reader.get() else { return false };
        let (mut rang, mut buffer) = (false, [0; 64]);
        loop {
            let read = retry_on_intr(|| read(reader, &mut buffer)).unwrap_or(0);
            rang |= read > 0;
            if read < buffer.len() {
                return rang;
            }
        }
    }
}
