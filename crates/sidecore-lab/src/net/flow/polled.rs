//! All streams of a load in one thread that never waits for a single stream: it polls for ready streams and serves each
//! once.

use super::{Latencies, MAX_CALL_WAIT, Role, Worker, is_only_a_look, latencies};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// Messages written to a stream with room, in turn with others, between two polls.
const TURNS: usize = 10;

struct Served {
    worker: Worker,
    /// Each stream has its own message, as in real programs: a shared one would stay in the cache.
    message: Vec<u8>,
    written: usize,
    /// The peer's side is closed. Earlier traffic counts.
    gone: bool,
}

pub(super) fn run(streams: Vec<(Worker, TcpStream)>, role: Role) -> Latencies {
    let served = |(worker, stream): (Worker, _)| {
        let message = vec![0; worker.size];
        (Served { worker, message, written: 0, gone: false }, stream)
    };
    let (served, streams) = streams.into_iter().map(served).unzip();
    let _ = serve(served, streams, role);
    latencies()
}

fn serve(mut served: Vec<Served>, mut streams: Vec<TcpStream>, role: Role) -> io::Result<()> {
    for stream in &streams {
        stream.set_nonblocking(true)?;
    }
    while served.first().is_some_and(|served| !served.worker.is_over()) {
        serve_all(&mut served, &streams, role)?;
        let mut stays = served.iter().map(|served| !served.gone);
        streams.retain(|_| stays.next() == Some(true));
        served.retain(|served| !served.gone);
    }
    Ok(())
}

/// Serves until the load ends, or until one stream closes. The set of polled streams is constant meanwhile.
fn serve_all(all: &mut [Served], streams: &[TcpStream], role: Role) -> io::Result<()> {
    let (event, turns) = if role == Role::Sends { (PollFlags::POLLOUT, TURNS) } else { (PollFlags::POLLIN, 1) };
    let mut watched: Vec<_> = streams.iter().map(|stream| PollFd::new(stream.as_fd(), event)).collect();
    let mut ready = Vec::with_capacity(streams.len());
    let mut is_one_gone = false;
    while !is_one_gone && !all[0].worker.is_over() {
        look(&mut watched, &mut ready)?;
        for _ in 0..turns {
            ready.retain(|at| {
                let (served, stream) = (&mut all[*at], &streams[*at]);
                let turn = if role == Role::Sends { served.write(stream) } else { served.read(stream) };
                served.gone = turn.is_err();
                is_one_gone |= served.gone;
                turn.unwrap_or(false)
            });
        }
    }
    Ok(())
}

fn look(watched: &mut [PollFd<'_>], ready: &mut Vec<usize>) -> io::Result<()> {
    ready.clear();
    match poll(watched, PollTimeout::try_from(MAX_CALL_WAIT).unwrap_or(PollTimeout::MAX)) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let is_ready = |watched: &PollFd<'_>| watched.any() == Some(true);
    ready.extend(watched.iter().enumerate().filter(|(_, watched)| is_ready(watched)).map(|(at, _)| at));
    Ok(())
}

impl Served {
    /// Writes the rest of a message as far as there is room. Returns whether there may be more room.
    fn write(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        match stream.write(&self.message[self.written..]) {
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

    /// Reads one message or the available part of it. Returns whether there may be more.
    fn read(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        let mut done = 0;
        while done < self.message.len() {
            match stream.read(&mut self.message[done..]) {
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
