//! All streams of a load by one thread that never waits for one of them: it looks who is ready, and does its turn there.

use super::{LOOK, Latencies, Role, Worker, is_only_a_look, latencies};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// Messages that a stream with room takes, in turn with the others, before this looks again who has room.
const TURNS: usize = 10;

/// A stream that is served.
struct Served {
    worker: Worker,
    stream: TcpStream,
    /// A message of its own, as programs have it: not what is in the cache because another stream just had it.
    message: Vec<u8>,
    /// How much of the message that is under way is written.
    written: usize,
    /// Its other end has gone: what came through by then is counted.
    gone: bool,
}

/// Until the load or all connections end.
pub(super) fn run(streams: Vec<(Worker, TcpStream)>, role: Role) -> Latencies {
    let served = |(worker, stream): (Worker, _)| {
        let message = vec![0; worker.size];
        Served { worker, stream, message, written: 0, gone: false }
    };
    let _ = serve(streams.into_iter().map(served).collect(), role);
    latencies()
}

fn serve(mut streams: Vec<Served>, role: Role) -> io::Result<()> {
    for served in &streams {
        served.stream.set_nonblocking(true)?;
    }
    let (event, turns) = if role == Role::Sends { (PollFlags::POLLOUT, TURNS) } else { (PollFlags::POLLIN, 1) };
    while streams.first().is_some_and(|served| !served.worker.is_over()) {
        let mut ready = ready(&streams, event)?;
        for _ in 0..turns {
            ready.retain(|at| {
                let served = &mut streams[*at];
                let turn = if role == Role::Sends { served.write() } else { served.read() };
                served.gone = turn.is_err();
                turn.unwrap_or(false)
            });
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
    /// What is left of a message, or what there is room for. Whether there may be more room.
    fn write(&mut self) -> io::Result<bool> {
        match self.stream.write(&self.message[self.written..]) {
            Ok(more) => self.written += more,
            Err(error) if is_only_a_look(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        let whole = self.written == self.message.len();
        if whole {
            self.worker.counters.sent.add(1, self.written);
            self.written = 0;
        }
        Ok(whole)
    }

    /// One message, or what there is of it. Whether there may be more.
    fn read(&mut self) -> io::Result<bool> {
        let mut done = 0;
        while done < self.message.len() {
            match self.stream.read(&mut self.message[done..]) {
                Ok(0) if done == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if is_only_a_look(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.worker.counters.received.add(u64::from(done > 0), done);
        Ok(done == self.message.len())
    }
}
