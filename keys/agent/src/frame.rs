//! Messages on a connection: a length of four bytes, and that number of bytes.
//!
//! An idle connection may stay. The rest of a message must arrive within a time after its first byte, and the client
//! must take a reply within the same time. Each read and write waits for the remaining time only, so single bytes extend
//! nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest message, bytes: that of OpenSSH's agent.
pub(crate) const MAX: usize = 256 * 1024;
/// For a message from its first byte on, and for a reply.
const TIME: Duration = Duration::from_secs(10);

/// The next message. `None`: the peer has ended the connection between messages.
pub(crate) fn read(stream: &UnixStream) -> io::Result<Option<Vec<u8>>> {
    stream.set_read_timeout(None)?;
    let mut first = [0];
    let read = loop {
        match (&*stream).read(&mut first) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if read == 0 {
        return Ok(None);
    }
    take(first[0], Timed::new(stream)).map(Some)
}

/// The message whose length begins with this byte. Memory is taken as bytes arrive, not by the length.
fn take(first: u8, mut rest: impl Read) -> io::Result<Vec<u8>> {
    let mut len = [first, 0, 0, 0];
    rest.read_exact(&mut len[1..])?;
    let len = u32::from_be_bytes(len);
    if len == 0 || len as usize > MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut message = Vec::new();
    rest.take(u64::from(len)).read_to_end(&mut message)?;
    if message.len() < len as usize { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(message) }
}

/// Sends a message, of at most [`MAX`] bytes.
pub(crate) fn write(stream: &UnixStream, message: &[u8]) -> io::Result<()> {
    let frame = [&(message.len() as u32).to_be_bytes()[..], message].concat();
    Timed::new(stream).write_all(&frame)
}

struct Timed<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a UnixStream) -> Self {
        Self { stream, deadline: Instant::now() + TIME }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn taken(frame: &[u8]) -> io::Result<Vec<u8>> {
        take(frame[0], &frame[1..])
    }

    #[test]
    fn a_length_that_no_message_has_is_refused_before_anything_is_read() {
        struct Unread;
        impl Read for Unread {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("it was read");
            }
        }
        for len in [0, MAX as u32 + 1, 1 << 31, u32::MAX] {
            let len = len.to_be_bytes();
            assert_eq!(take(len[0], len[1..].chain(Unread)).unwrap_err().kind(), ErrorKind::InvalidData);
        }
        let longest = [&(MAX as u32).to_be_bytes()[..], &vec![7; MAX]].concat();
        assert_eq!(taken(&longest).unwrap(), vec![7; MAX]);
    }

    #[test]
    fn a_length_takes_no_memory_before_its_bytes_are_there() {
        let mut frame = (MAX as u32).to_be_bytes().to_vec();
        frame.push(11);
        assert_eq!(taken(&frame).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_connection_that_ends_between_messages_is_no_error_and_one_that_ends_within_is() {
        let (here, there) = UnixStream::pair().unwrap();
        write(&there, b"one").unwrap();
        (&there).write_all(&[0, 0]).unwrap();
        drop(there);
        assert_eq!(read(&here).unwrap(), Some(b"one".to_vec()));
        assert_eq!(read(&here).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(read(&here).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in vec(any::<u8>(), 1..64)) {
            if let Ok(message) = taken(&bytes) {
                prop_assert!(bytes[4..].starts_with(&message) && !message.is_empty());
            }
        }

        #[test]
        fn a_message_is_read_from_pieces(message in vec(any::<u8>(), 1..600), more in vec(any::<u8>(), 0..9)) {
            let frame = [&(message.len() as u32).to_be_bytes()[..], &message, &more].concat();
            prop_assert_eq!(taken(&frame).unwrap(), message);
        }
    }
}
