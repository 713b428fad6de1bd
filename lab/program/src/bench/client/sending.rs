//! The program that `bench sockets` measures. It has no knowledge of sidecore: it sends on TCP connections like a
//! broker, a log shipper or a server, by the C library's `send`, `recv` and `epoll`.

use super::super::error::BenchError;
use super::super::sockets::content::Content;
use super::super::sockets::ffi::{Interest, Poll, set_cork};
use super::super::task::{Sending, TcpOptions, Traffic};
use sidecore_daemon::sys::cpu;
use sidecore_ipc::sys::clock;
use sidecore_measure::experiment::Measured;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, SystemTime};

pub(super) const CLOCK_EVERY: usize = 64;
/// Messages in a row on a connection before its silence: more than the number that moves it into a ring.
const LAST_WORDS: usize = 32;
const LAST_ROWS: usize = 10;
/// Pause between two rows. The service makes room for more connections meanwhile.
const LAST_PAUSE: Duration = Duration::from_millis(20);
/// Messages between two releases of a cork, and messages of one call in a program that gathers them,
const GATHERED: usize = 64;
/// unless their bytes exceed this.
const GATHERED_BYTES: usize = 64 << 10;
/// Time between two messages of a quiet connection, ns.
const QUIET_GAP: u64 = 1_000_000;
const WAIT_MS: i32 = 20;

pub(super) struct Sender {
    links: Vec<Link>,
    content: Content,
    poll: Poll,
    sending: Sending,
    measured: Option<Start>,
}

#[derive(Clone, Copy)]
struct Start {
    at: u64,
    cpu: u64,
    sent: u64,
}

struct Link {
    socket: TcpStream,
    corked: bool,
    batch: usize,
    rest: Vec<u8>,
    /// Bytes sent, and unsent bytes of the last message.
    sent: u64,
    left: usize,
    messages: u64,
    is_full: bool,
    /// Bytes received and not answered yet.
    received: usize,
}

impl Sender {
    pub(super) fn connect(sending: &Sending) -> Result<Self, BenchError> {
        let links = (0..sending.connections).map(|_| Link::connect(sending)).collect::<io::Result<_>>();
        let links = links.map_err(BenchError::on(format!("{} connections", sending.connections)))?;
        let content = Content::new(sending.size * batch(sending), sending.checked);
        Ok(Self { links, content, poll: Poll::new()?, sending: sending.clone(), measured: None })
    }

    pub(super) fn run(&mut self) -> Result<Measured, BenchError> {
        let begin = clock::now();
        match self.sending.traffic {
            Traffic::Flood | Traffic::Slow => self.flood(begin, None)?,
            Traffic::Quiet => self.flood(begin, Some(begin))?,
            Traffic::Paced(per_s) => self.pace(begin, per_s)?,
            Traffic::Answers(each) => self.answer(begin, each)?,
            Traffic::Silence => self.fall_silent(begin)?,
            Traffic::Datagrams => return Err(BenchError::State("datagrams have no connections")),
        }
        let Start { at, cpu, sent } = self.measured.ok_or(BenchError::State("it ended before it was measured"))?;
        let (ns, cpu_ns) = (clock::now() - at, clock::process_cpu() - cpu);
        let ops = (self.counted() - sent) / self.sending.size as u64;
        let bytes = self.links.iter().map(|link| link.sent).sum();
        Ok(Measured { ops, ns, began: at, cpu_ns, bytes, ..Measured::default() })
    }

    fn counted(&self) -> u64 {
        self.links[self.sending.traffic.uncounted()..].iter().map(|link| link.sent).sum()
    }

    fn is_over(&mut self, begin: u64, now: u64) -> bool {
        if now < begin + self.sending.warm_up {
            return false;
        }
        if self.measured.is_none() {
            self.measured = Some(Start { at: now, cpu: clock::process_cpu(), sent: self.counted() });
        }
        self.measured.is_some_and(|start| now >= start.at + self.sending.ns)
    }

    /// Sends to each connection with room in turn. `quiet`: the first connection is quiet, and its next message is due
    /// then.
    fn flood(&mut self, begin: u64, mut quiet: Option<u64>) -> io::Result<()> {
        let (size, first) = (self.sending.size, usize::from(quiet.is_some()));
        for (number, link) in self.links.iter().enumerate().skip(first) {
            self.poll.add(&link.socket, number, Interest::WritableEdge)?;
        }
        let (mut ready, mut full, mut unclocked) = (Vec::new(), 0, 0);
        loop {
            for link in self.links.iter_mut().skip(first).filter(|link| !link.is_full) {
                link.is_full = !link.send(&self.content, size * link.batch)?;
                full += usize::from(link.is_full);
                unclocked += 1;
            }
            if full > 0 {
                let all = full == self.links.len() - first;
                self.poll.wait(&mut ready, i32::from(all))?;
                for number in &ready {
                    full -= usize::from(std::mem::take(&mut self.links[*number].is_full));
                }
                unclocked = CLOCK_EVERY;
            }
            if unclocked >= CLOCK_EVERY {
                unclocked = 0;
                let now = clock::now();
                if self.is_over(begin, now) {
                    return Ok(());
                }
                if let Some(due) = quiet.as_mut().filter(|due| **due <= now) {
                    *due += QUIET_GAP;
                    self.links[0].send_time(&self.content, size)?;
                }
            }
        }
    }

    fn fall_silent(&mut self, begin: u64) -> io::Result<()> {
        self.is_over(begin, clock::now());
        // A row interrupted by other load does not count as a row, so each connection has several.
        for _ in 0..LAST_ROWS {
            for link in &mut self.links {
                for _ in 0..LAST_WORDS {
                    link.send(&self.content, self.sending.size)?;
                }
            }
            thread::sleep(LAST_PAUSE);
        }
        Ok(())
    }

    fn pace(&mut self, begin: u64, per_s: u64) -> io::Result<()> {
        cpu::precise_sleep();
        let gap = self.links.len() as u64 * 1_000_000_000 / per_s;
        let mut due = begin;
        while !self.is_over(begin, due) {
            for link in &mut self.links {
                link.send_timed(&self.content, self.sending.size)?;
            }
            due += gap;
            thread::sleep(Duration::from_nanos(due.saturating_sub(clock::now())));
        }
        Ok(())
    }

    fn answer(&mut self, begin: u64, each: usize) -> io::Result<()> {
        for (number, link) in self.links.iter().enumerate() {
            link.socket.set_nonblocking(false)?;
            self.poll.add(&link.socket, number, Interest::Readable)?;
        }
        let (mut ready, mut buffer, mut open) = (Vec::new(), vec![0; self.sending.size], self.links.len());
        while open > 0 {
            self.poll.wait(&mut ready, WAIT_MS)?;
            // The clients end the run.
            self.is_over(begin, clock::now());
            for number in &ready {
                let link = &mut self.links[*number];
                match link.socket.read(&mut buffer)? {
                    0 => {
                        self.poll.remove(&link.socket)?;
                        open -= 1;
                    }
                    count => link.answer(count, each, (&self.content, self.sending.size))?,
                }
            }
        }
        Ok(())
    }
}

fn batch(sending: &Sending) -> usize {
    match sending.options {
        TcpOptions::Batch => (GATHERED_BYTES / sending.size).clamp(1, GATHERED),
        TcpOptions::NoDelay | TcpOptions::Nagle | TcpOptions::Cork => 1,
    }
}

impl Link {
    fn connect(sending: &Sending) -> io::Result<Self> {
        let socket = TcpStream::connect(sending.to)?;
        socket.set_nonblocking(true)?;
        match sending.options {
            TcpOptions::NoDelay | TcpOptions::Batch => socket.set_nodelay(true)?,
            TcpOptions::Nagle => {}
            TcpOptions::Cork => set_cork(&socket, true)?,
        }
        let corked = sending.options == TcpOptions::Cork;
        let (batch, rest) = (batch(sending), Vec::new());
        Ok(Self { socket, corked, batch, rest, sent: 0, left: 0, messages: 0, is_full: false, received: 0 })
    }

    /// Sends the rest of a message or a new one of that size. Returns whether there was room.
    #[inline]
    fn send(&mut self, content: &Content, size: usize) -> io::Result<bool> {
        if self.left == 0 {
            self.left = size;
        }
        match self.socket.write(content.at(self.sent, self.left)) {
            Ok(count) => self.has_sent(count)?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn has_sent(&mut self, count: usize) -> io::Result<()> {
        self.sent += count as u64;
        self.left -= count;
        if self.left == 0 {
            self.messages += 1;
            if self.messages.is_multiple_of(GATHERED as u64) {
                self.uncork()?;
            }
        }
        Ok(())
    }

    /// A quiet connection always has room.
    fn send_time(&mut self, content: &Content, size: usize) -> io::Result<()> {
        let mut message = content.at(self.sent, size).to_vec();
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?;
        message[..size_of::<u64>()].copy_from_slice(&(time.as_nanos() as u64).to_le_bytes());
        self.socket.write_all(&message)?;
        self.sent += size as u64;
        self.uncork()
    }

    fn send_timed(&mut self, content: &Content, size: usize) -> io::Result<()> {
        if self.rest.is_empty() {
            self.rest.extend_from_slice(content.at(self.sent, size));
            self.rest[..size_of::<u64>()].copy_from_slice(&clock::now().to_le_bytes());
        }
        match self.socket.write(&self.rest) {
            Ok(count) => {
                self.rest.drain(..count);
                self.sent += count as u64;
                if self.rest.is_empty() { self.uncork() } else { Ok(()) }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn answer(&mut self, received: usize, each: usize, (content, size): (&Content, usize)) -> io::Result<()> {
        self.received += received;
        while self.received >= size {
            self.received -= size;
            let batch = self.batch.min(each);
            let enough = self.messages + each.div_ceil(batch) as u64;
            while self.messages < enough {
                self.send(content, size * batch)?;
            }
            self.uncork()?;
        }
        Ok(())
    }

    fn uncork(&self) -> io::Result<()> {
        if !self.corked {
            return Ok(());
        }
        set_cork(&self.socket, false)?;
        set_cork(&self.socket, true)
    }
}
