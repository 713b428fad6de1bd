//! The measured program's peer: one thread that receives from all connections, or acts as the program's clients.

use super::content::Content;
use super::ffi::{Interest, Poll, discard, receive_stamped, stamp};
use crate::bench::client::counts;
use crate::bench::task::{Sending, Traffic};
use hdrhistogram::Histogram;
use sidecore_ipc::sys::clock;
use sidecore_measure::experiment::Counts;
use sidecore_report::statistics::histogram;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

const MAX_BYTES: usize = 256 << 10;
/// Bytes of one read by the slow peer, and the pause between two reads, ns: a megabyte a second.
const SLOW_BYTES: usize = 10_000;
const SLOW_GAP: u64 = 10_000_000;
/// Longest silence while a connection is open, ns.
const MAX_SILENCE_NS: u64 = 10_000_000_000;
/// Least number of answers after the warm-up. The program's measurement has begun by the second answer.
const MIN_ANSWERS: u64 = 2;
/// Interval of the log of received bytes, ns.
const LOG_EVERY: u64 = 500_000;
/// Longest wait of one call, ms.
const WAIT_MS: i32 = 10;

pub(super) struct Peer {
    links: Vec<Link>,
    poll: Poll,
    content: Content,
    sending: Sending,
    buffer: Vec<u8>,
    open: usize,
    /// Messages with the time in them count from this time on, ns.
    timed_from: Option<u64>,
    report: PeerReport,
}

struct Link {
    socket: TcpStream,
    received: u64,
    asked: u64,
}

pub(super) struct PeerReport {
    pub(super) bytes: u64,
    /// CPU time of the peer's threads, ns.
    pub(super) cpu_ns: u64,
    latencies: Histogram<u64>,
    /// Counted bytes. The log has their number at several times.
    counted: u64,
    log: Vec<(u64, u64)>,
}

impl PeerReport {
    pub(super) fn new() -> Self {
        Self { bytes: 0, cpu_ns: 0, latencies: histogram(), counted: 0, log: vec![(clock::now(), 0)] }
    }

    pub(super) fn came(&mut self, now: u64, bytes: u64) {
        self.bytes += bytes;
        self.count(now, bytes);
    }

    fn count(&mut self, now: u64, bytes: u64) {
        self.counted += bytes;
        if self.log.last().is_none_or(|(logged, _)| now > logged + LOG_EVERY) {
            self.log.push((now, self.counted));
        }
    }

    pub(super) fn ended(&mut self, now: u64) {
        self.log.push((now, self.counted));
    }

    pub(super) fn between(&self, from: u64, to: u64) -> f64 {
        until(&self.log, to) - until(&self.log, from)
    }

    pub(super) fn latencies(&self) -> Counts {
        counts(&self.latencies)
    }
}

impl Peer {
    pub(super) fn accept(listener: &TcpListener, sending: &Sending) -> io::Result<Self> {
        let (poll, mut ready, mut links) = (Poll::new()?, Vec::new(), Vec::new());
        listener.set_nonblocking(true)?;
        poll.add(listener, 0, Interest::Readable)?;
        let mut until = clock::now() + MAX_SILENCE_NS;
        while links.len() < sending.connections {
            poll.wait(&mut ready, WAIT_MS)?;
            match listener.accept() {
                Ok((socket, _)) => {
                    links.push(Link { socket, received: 0, asked: 0 });
                    until = clock::now() + MAX_SILENCE_NS;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && clock::now() < until => {}
                Err(error) => return Err(failed(format!("connection {}: {error}", links.len()))),
            }
        }
        poll.remove(listener)?;
        let content = Content::new(MAX_BYTES, sending.checked);
        let (open, buffer) = (links.len(), vec![0; MAX_BYTES]);
        Ok(Self {
            links,
            poll,
            content,
            sending: sending.clone(),
            buffer,
            open,
            timed_from: None,
            report: PeerReport::new(),
        })
    }

    pub(super) fn run(mut self) -> io::Result<PeerReport> {
        match self.sending.traffic {
            Traffic::Answers(each) => self.ask(each)?,
            Traffic::Flood | Traffic::Paced(_) => self.take_all(0, |_| Ok(()))?,
            Traffic::Slow => {
                let mut due = clock::now();
                self.take_all(1, |peer| peer.take_slowly(&mut due))?;
                // The program has ended: the slow connection's rest is read immediately.
                self.take_rest(0)?;
            }
            Traffic::Quiet => self.take_beside_quiet()?,
            Traffic::Datagrams | Traffic::Silence => return Err(failed("no traffic of connections that are read")),
        }
        self.report.cpu_ns += clock::thread_cpu();
        Ok(self.report)
    }

    fn take_all(&mut self, first: usize, mut between: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<()> {
        for (number, link) in self.links.iter().enumerate().skip(first) {
            self.poll.add(&link.socket, number, Interest::Readable)?;
        }
        let (mut ready, mut heard_at) = (Vec::new(), clock::now());
        while self.open > first {
            self.poll.wait(&mut ready, WAIT_MS)?;
            for number in &ready {
                let is_timed = matches!(self.sending.traffic, Traffic::Paced(_));
                let count = if is_timed { self.take_timed(*number)? } else { self.take(*number, MAX_BYTES)? };
                self.report.counted += count as u64;
                if count == 0 {
                    self.open -= 1;
                    self.poll.remove(&self.links[*number].socket)?;
                }
            }
            between(self)?;
            heard_at = self.patient(heard_at, !ready.is_empty())?;
            self.report.count(heard_at, 0);
        }
        self.report.ended(clock::now());
        Ok(())
    }

    fn patient(&self, heard_at: u64, is_heard: bool) -> io::Result<u64> {
        let now = clock::now();
        if now > heard_at + MAX_SILENCE_NS {
            return Err(failed(format!("nothing came for ten seconds, and {} connections are open", self.open)));
        }
        Ok(if is_heard { now } else { heard_at })
    }

    /// Reads up to `most` bytes of the connection. Returns their number; 0: it has ended.
    fn take(&mut self, number: usize, most: usize) -> io::Result<usize> {
        let link = &mut self.links[number];
        let count = if self.sending.checked {
            let count = link.socket.read(&mut self.buffer[..most])?;
            if self.buffer[..count] != *self.content.at(link.received, count) {
                let after = link.received;
                return Err(failed(format!("other bytes than were sent, after {after} on connection {number}")));
            }
            count
        } else {
            discard(&link.socket, most)?
        };
        link.received += count as u64;
        self.report.bytes += count as u64;
        Ok(count)
    }

    /// The same for messages that begin with their sending time.
    fn take_timed(&mut self, number: usize) -> io::Result<usize> {
        let link = &mut self.links[number];
        let (count, now, size) = (link.socket.read(&mut self.buffer)?, clock::now(), self.sending.size as u64);
        let timed_from = *self.timed_from.get_or_insert(now + self.sending.warm_up);
        let (mut rest, mut place) = (&self.buffer[..count], link.received);
        while !rest.is_empty() {
            let within = place % size;
            let (part, behind) = rest.split_at(rest.len().min((size - within) as usize));
            if let Some(sent) = part.first_chunk().filter(|_| within == 0 && now >= timed_from) {
                self.report.latencies.saturating_record(now.saturating_sub(u64::from_le_bytes(*sent)).max(1));
            }
            let time = size_of::<u64>().saturating_sub(within as usize).min(part.len());
            if self.sending.checked && part[time..] != *self.content.at(place + time as u64, part.len() - time) {
                return Err(failed(format!("other bytes than were sent, after {place} on connection {number}")));
            }
            (rest, place) = (behind, place + part.len() as u64);
        }
        (link.received, self.report.bytes) = (place, self.report.bytes + count as u64);
        Ok(count)
    }

    fn take_slowly(&mut self, due: &mut u64) -> io::Result<()> {
        if clock::now() < *due {
            return Ok(());
        }
        *due += SLOW_GAP;
        self.links[0].socket.set_nonblocking(true)?;
        match self.take(0, SLOW_BYTES) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other.map(drop),
        }
    }

    fn take_rest(&mut self, number: usize) -> io::Result<()> {
        let mut ready = Vec::new();
        self.poll.add(&self.links[number].socket, number, Interest::Readable)?;
        let mut heard_at = clock::now();
        loop {
            self.poll.wait(&mut ready, WAIT_MS)?;
            if !ready.is_empty() && self.take(number, MAX_BYTES)? == 0 {
                return Ok(());
            }
            heard_at = self.patient(heard_at, !ready.is_empty())?;
        }
    }

    /// Reads all connections. A separate thread reads the first one, so that its messages are taken singly.
    fn take_beside_quiet(&mut self) -> io::Result<()> {
        let (quiet, sending) = (self.links[0].socket.try_clone()?, self.sending.clone());
        stamp(&quiet)?;
        thread::scope(|scope| {
            let listens = thread::Builder::new().name("quiet peer".to_owned());
            let listens = listens.spawn_scoped(scope, || listen(&quiet, &sending))?;
            let taken = self.take_all(1, |_| Ok(()));
            let (bytes, latencies, cpu_ns) =
                listens.join().map_err(|_| failed("the thread of the quiet connection panicked"))??;
            self.report.bytes += bytes;
            self.report.cpu_ns += cpu_ns;
            self.report.latencies = latencies;
            taken
        })
    }

    fn ask(&mut self, each: usize) -> io::Result<()> {
        let (answer, question) = ((each * self.sending.size) as u64, vec![1; self.sending.size]);
        let mut start = None;
        for (number, link) in self.links.iter_mut().enumerate() {
            link.socket.set_nodelay(true)?;
            self.poll.add(&link.socket, number, Interest::Readable)?;
            link.ask(&question)?;
        }
        let (mut ready, mut heard_at) = (Vec::new(), clock::now());
        while self.open > 0 {
            self.poll.wait(&mut ready, WAIT_MS)?;
            for number in &ready {
                if self.take(*number, MAX_BYTES)? == 0 {
                    return Err(failed("the program ended a connection"));
                }
                let (link, now) = (&mut self.links[*number], clock::now());
                if link.received.is_multiple_of(answer) {
                    // The program's own time began before its first answer.
                    let start = *start.get_or_insert(now + self.sending.warm_up);
                    if link.asked >= start {
                        self.report.latencies.saturating_record(now - link.asked);
                    }
                    if now < start + self.sending.ns || self.report.latencies.len() < MIN_ANSWERS {
                        link.ask(&question)?;
                    } else {
                        link.socket.shutdown(Shutdown::Write)?;
                        self.open -= 1;
                    }
                }
            }
            heard_at = self.patient(heard_at, !ready.is_empty())?;
        }
        Ok(())
    }
}

impl Link {
    fn ask(&mut self, question: &[u8]) -> io::Result<()> {
        self.asked = clock::now();
        self.socket.write_all(question)
    }
}

/// Reads messages with the time in them until the connection ends. Returns their bytes, the times until they reached
/// this socket, and this thread's CPU time, ns.
fn listen(quiet: &TcpStream, sending: &Sending) -> io::Result<(u64, Histogram<u64>, u64)> {
    let content = Content::new(sending.size, sending.checked);
    let (mut bytes, mut message, mut filled, mut latencies) = (0, vec![0; sending.size], 0, histogram());
    let start = clock::now() + sending.warm_up;
    loop {
        let (count, at) = receive_stamped(quiet, &mut message[filled..])?;
        if count == 0 {
            return Ok((bytes, latencies, clock::thread_cpu()));
        }
        filled += count;
        if filled == sending.size {
            let (time, rest) = message.split_at(size_of::<u64>());
            if sending.checked && *rest != content.at(bytes, filled)[time.len()..] {
                return Err(failed(format!("other bytes than were sent, after {bytes} on the quiet connection")));
            }
            bytes += filled as u64;
            filled = 0;
            let sent = time.first_chunk().map(|sent| u64::from_le_bytes(*sent));
            // The kernel starts to note times with a delay.
            if let Some((at, sent)) = at.zip(sent).filter(|_| clock::now() >= start) {
                latencies.saturating_record(at.saturating_sub(sent).max(1));
            }
        }
    }
}

/// Bytes received at that time, interpolated between two entries of the log.
fn until(log: &[(u64, u64)], time: u64) -> f64 {
    let after = log.partition_point(|(at, _)| *at <= time);
    match (after.checked_sub(1).map(|before| log[before]), log.get(after)) {
        (None, _) => 0.0,
        (Some((_, bytes)), None) => bytes as f64,
        (Some((from, bytes)), Some((to, more))) => {
            bytes as f64 + (more - bytes) as f64 * (time - from) as f64 / (to - from) as f64
        }
    }
}

pub(super) fn failed(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_of_a_quiet_connection_is_compared() {
        let sending =
            Sending { traffic: Traffic::Quiet, checked: true, ..Sending::example("127.0.0.1:0".parse().unwrap()) };
        let content = Content::new(64, true);
        let received = |places: &[u64]| {
            let listener = TcpListener::bind(sending.to).unwrap();
            let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            for place in places {
                here.write_all(&[&7_u64.to_le_bytes(), &content.at(*place, 64)[8..]].concat()).unwrap();
            }
            drop(here);
            listen(&listener.accept().unwrap().0, &sending).map(|(bytes, ..)| bytes)
        };
        assert_eq!(received(&[0, 64, 128]).unwrap(), 192);
        for wrong in [&[64][..], &[0, 0], &[0, 128, 64]] {
            assert!(received(wrong).unwrap_err().to_string().contains("other bytes"));
        }
    }

    #[test]
    fn between_two_notes_bytes_come_evenly() {
        let log = [(100, 0), (200, 50), (300, 50), (400, 250)];
        let times = [50, 100, 150, 250, 350, 500].map(|time| until(&log, time).round() as u64);
        assert_eq!(times, [0, 0, 25, 50, 150, 250]);
    }
}
