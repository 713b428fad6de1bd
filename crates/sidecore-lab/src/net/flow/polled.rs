//! All streams of a load by one thread that never waits for one of them: it looks who is ready, and does its turn there.

use super::{LOOK, Latencies, Role, Worker, is_only_a_look, latencies};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// Messages that a stream with room takes before others have their turn.
const TURN: usize = 10;

/// A stream that is served.
struct Served {
    worker: Worker,
    stream: TcpStream,
    /// How much of the message that is under way is written.
    written: usize,
    /// Its other end has gone: what came through by then is counted.
    gone: bool,
}

/// Until the load or all connections end.
pub(super) fn run(streams: Vec<(Worker, TcpStream)>, role: Role) -> Latencies {
    let served = |(worker, stream)| Served { worker, stream, written: 0, gone: false };
    let _ = serve(streams.into_iter().map(served).collect(), role);
    latencies()
}

fn serve(mut streams: Vec<Served>, role: Role) -> io::Result<()> {
    let is_sender = role == Role::Sends;
    let event = if is_sender { PollFlags::POLLOUT } else { PollFlags::POLLIN };
    let mut message = vec![0; streams.iter().map(|served| served.worker.size).max().unwrap_or(0)];
    for served in &streams {
        served.stream.set_nonblocking(true)?;
    }
    while streams.first().is_some_and(|served| !served.worker.is_over()) {
        for at in ready(&streams, event)? {
            let served = &mut streams[at];
            let turn = if is_sender { served.write(&message) } else { served.read(&mut message) };
            served.gone = turn.is_err();
        }
        streams.retain(|served| !served.gone);
    }
    Ok(())
}

/// Which of them can go on, or have ended.
fn ready(streams: &[Served], event: PollFlags) -> io::Result<Vec<usize>> {
    let mut watched: Vec<_> = streams.iter().map(|served| PollFd::new(served.stream.as_fd(), event)).collect();
    match poll(&mut watched, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_ready = |watched: &PollFd| watched.any() == Some(true);
    Ok((0..streams.len()).filter(|at| is_ready(&watched[*at])).collect())
}

impl Served {
    fn write(&mut self, message: &[u8]) -> io::Result<()> {
        for _ in 0..TURN {
            match self.stream.write(&message[self.written..]) {
                Ok(more) => self.written += more,
                Err(error) if is_only_a_look(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.written < message.len() {
                return Ok(());
            }
            self.worker.counters.sent.add(1, self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// One message, or what there is of it.
    fn read(&mut self, message: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < message.len() {
            match self.stream.read(&mut message[done..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => done += more,
                Err(error) if is_only_a_look(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.worker.counters.received.add(u64::from(done > 0), done);
        Ok(())
    }
}
