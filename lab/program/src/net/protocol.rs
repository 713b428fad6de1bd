//! Requests of the local end to the peer over a connection of their own, with one JSON line each way.

use super::account::Account;
use super::error::LoadError;
use super::why::look::Look;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::error::Category;
use sidecore_measure::interrupt::{Interrupt, STOPPED};
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Both ends must have the same version.
pub(super) const VERSION: u32 = 4;
pub(super) const MAX_SIZE: usize = 1 << 20;
pub(super) const MAX_CONNECTIONS: usize = 64;
pub(super) const MAX_DATAGRAM: usize = 65_507;
/// Longest line to a peer, bytes.
pub(super) const MAX_ASK: usize = 4 << 10;
/// Longest line from a peer, bytes: two accounts of a machine with more than 1,000 processors.
pub(super) const MAX_ANSWER: usize = 512 << 10;
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Direction {
    /// The local end sends continuously.
    Send,
    /// The peer sends continuously.
    Receive,
    /// The local end sends, and the peer answers with the same size.
    RoundTrip,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) transport: Transport,
    pub(super) direction: Direction,
    /// Bytes of each `write` or datagram.
    pub(super) size: usize,
    pub(super) connections: usize,
    /// Messages a second of each connection; `None`: unlimited.
    pub(super) rate: Option<f64>,
}

impl Load {
    pub(super) fn new(transport: Transport, direction: Direction, size: usize, connections: usize) -> Self {
        Self { transport, direction, size, connections, rate: None }
    }

    pub(super) fn op(&self) -> &'static str {
        match (self.transport, self.direction) {
            (Transport::Tcp, Direction::Send) => "tcp send",
            (Transport::Tcp, Direction::Receive) => "tcp receive",
            (Transport::Tcp, Direction::RoundTrip) => "tcp round trip",
            (Transport::Udp, Direction::Send) => "udp send",
            (Transport::Udp, Direction::Receive) => "udp receive",
            (Transport::Udp, Direction::RoundTrip) => "udp round trip",
        }
    }

    /// Payload of `messages` a second, Mbit/s.
    pub(super) fn mbit_per_s(&self, messages: f64) -> f64 {
        messages * self.size as f64 * 8.0 / 1e6
    }

    /// Checks the limits, because a stranger may have sent it.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        let most = if self.transport == Transport::Udp { MAX_DATAGRAM } else { MAX_SIZE };
        if !(1..=most).contains(&self.size) {
            return Err(LoadError::Size { most, size: self.size });
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            return Err(LoadError::Connections { most: MAX_CONNECTIONS, connections: self.connections });
        }
        match self.rate {
            Some(rate) if !(1.0..=1e7).contains(&rate) => Err(LoadError::Rate(rate)),
            _ => Ok(()),
        }
    }
}

/// Counting period of an end, starting at its first message. No line is needed during the load, which may leave no room
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) warm_up_ms: u64,
    pub(super) counted_ms: u64,
}

impl Window {
    const MAX_MS: u64 = 60_000;

    pub(super) fn time(self) -> Duration {
        Duration::from_millis(self.warm_up_ms.saturating_add(self.counted_ms))
    }

    pub(super) fn check(self) -> Result<(), LoadError> {
        if self.warm_up_ms > Self::MAX_MS || !(1..=Self::MAX_MS).contains(&self.counted_ms) {
            return Err(LoadError::Window { most_s: Self::MAX_MS / 1000 });
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Announces the connections of that load; traffic starts once they exist. `cpus`: number of the peer's last CPUs
    /// to use; `None`: all.
    Begin {
        version: u32,
        load: Load,
        cpus: Option<usize>,
        window: Option<Window>,
    },
    /// Permits the peer to send: its previous answer has arrived.
    Go,
    Count,
    /// The same, with the interface and the connections of the load.
    Look,
    End,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Connections are expected at these ports; each begins with the token. UDP has a port for each.
    Ready {
        ports: Vec<u16>,
        token: u64,
    },
    /// All connections arrived.
    Begun,
    /// Counts at the beginning and at the end of the window. The load has ended.
    Window(Box<[Account; 2]>),
    Counted(Box<Account>),
    Seen(Box<Look>),
    Ended,
    Refused(String),
}

#[derive(Debug)]
pub(super) struct Control {
    reader: BufReader<TcpStream>,
    patience: Duration,
    /// Longest accepted line, bytes.
    longest: usize,
    interrupt: Option<Interrupt>,
}

impl Control {
    pub(super) fn new(connection: TcpStream, patience: Duration, longest: usize) -> io::Result<Self> {
        connection.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(connection), patience, longest, interrupt: None })
    }

    pub(super) fn until(&mut self, interrupt: &Interrupt) {
        self.interrupt = Some(interrupt.clone());
    }

    pub(super) fn connection(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub(super) fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        let until = Instant::now() + self.patience;
        let mut said = 0;
        while said < line.len() {
            self.connection().set_write_timeout(Some(self.time_until(until)?))?;
            match self.reader.get_mut().write(&line[said..]) {
                Ok(more) => said += more,
                Err(error) if is_only_a_look(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// `None`: the other end has closed the connection.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.hear_within(self.patience)
    }

    pub(super) fn hear_within<T: DeserializeOwned>(&mut self, patience: Duration) -> io::Result<Option<T>> {
        let until = Instant::now() + patience;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            self.connection().set_read_timeout(Some(self.time_until(until)?))?;
            let some = match self.reader.fill_buf() {
                Ok([]) if line.is_empty() => return Ok(None),
                Ok([]) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up within a message")),
                Ok(some) => some,
                Err(error) if is_only_a_look(&error) => continue,
                Err(error) => return Err(error),
            };
            let len = some.iter().position(|byte| *byte == b'\n').map_or(some.len(), |at| at + 1);
            line.extend_from_slice(&some[..len]);
            self.reader.consume(len);
            if line.len() > self.longest {
                let wrong = format!("it said more than {} bytes in a line", self.longest);
                return Err(io::Error::new(io::ErrorKind::InvalidData, wrong));
            }
        }
        serde_json::from_slice(&line).map(Some).map_err(|error| not_understood(&error))
    }

    /// Whether the connection is open and has no unread line.
    pub(super) fn is_quiet(&self) -> bool {
        let seen = recv(self.connection().as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
        self.reader.buffer().is_empty() && matches!(seen, Err(Errno::EAGAIN | Errno::EINTR))
    }

    fn time_until(&self, until: Instant) -> io::Result<Duration> {
        if self.interrupt.as_ref().is_some_and(Interrupt::came) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, STOPPED));
        }
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(rest.min(CHECK_INTERVAL)) }
    }
}

/// Whether a call returned without result, only to let its thread check for the end.
pub(super) fn is_only_a_look(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Describes the position of the error without any of the text, because a stranger may have sent it.
pub(super) fn not_understood(error: &serde_json::Error) -> io::Error {
    let why = match error.classify() {
        Category::Eof => "it breaks off",
        Category::Syntax => "it is no JSON",
        Category::Data | Category::Io => "it is none of the known messages",
    };
    let wrong = format!("what it said cannot be understood: {why}, column {}", error.column());
    io::Error::new(io::ErrorKind::InvalidData, wrong)
}

#[cfg(test)]
mod tests {
    use super::super::account::{Counted, Figure, Processor};
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    fn control(patience: Duration) -> (Control, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Control::new(listener.accept().unwrap().0, patience, MAX_ASK).unwrap(), other)
    }

    #[test]
    fn a_message_that_comes_byte_by_byte_takes_no_longer_than_another() {
        let (mut control, mut other) = control(Duration::from_millis(50));
        let drips = thread::spawn(move || {
            for _ in 0..MAX_ASK - 1 {
                if other.write_all(b" ").is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
            let _ = other.write_all(b"\n");
        });
        assert_eq!(control.hear::<Ask>().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(control);
        drips.join().unwrap();
    }

    #[test]
    fn an_interrupt_ends_a_wait_for_the_other_end() {
        let (mut control, _other) = control(Duration::from_secs(3_600));
        control.until(&Interrupt::that_came());
        assert_eq!(control.hear::<Ask>().unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn what_is_too_long_or_wrong_is_not_repeated() {
        let (mut control, mut other) = control(Duration::from_secs(60));
        for wrong in ["\"secret\\u001b[31m\"", "{\"secret\":1}", "secret", "[\"secret\""] {
            other.write_all(format!("{wrong}\n").as_bytes()).unwrap();
            let said = control.hear::<Ask>().unwrap_err().to_string();
            assert!(said.contains("column") && !said.contains("secret"), "{said}");
        }
        other.write_all(&vec![b' '; MAX_ASK + 1]).unwrap();
        assert!(control.hear::<Ask>().unwrap_err().to_string().contains("more than 4096 bytes"));
    }

    #[test]
    fn who_hangs_up_or_speaks_is_not_quiet() {
        let (mut control, mut other) = control(Duration::from_secs(60));
        assert!(control.is_quiet());
        other.write_all(b"\"Go\"\n\"End\"\n").unwrap();
        while control.is_quiet() {}
        assert_eq!(control.hear::<Ask>().unwrap(), Some(Ask::Go));
        assert!(!control.is_quiet(), "the second is here, or on its way");
        assert_eq!(control.hear::<Ask>().unwrap(), Some(Ask::End));
        assert!(control.is_quiet());
        drop(other);
        while control.is_quiet() {}
        assert_eq!(control.hear::<Ask>().unwrap(), None);
    }

    #[test]
    fn there_is_room_for_what_a_large_machine_says() {
        let most = 99_999_999.99;
        let processor =
            Processor { user: most, system: most, softirq: most, interrupt: most, stolen: most, idle: most };
        let counted = Counted { messages: u64::MAX, bytes: u64::MAX };
        let mut account = Account { at_ns: u64::MAX, sent: counted, received: counted, ..Account::default() };
        account.processors = vec![processor; 1_000];
        account.figures.insert(Figure::ReceiveSoftirqs, u64::MAX);
        let answer = Answer::Window(Box::new([account.clone(), account]));
        assert!(serde_json::to_vec(&answer).unwrap().len() < MAX_ANSWER);
        let load = Load {
            transport: Transport::Tcp,
            direction: Direction::RoundTrip,
            size: usize::MAX,
            connections: usize::MAX,
            rate: Some(most),
        };
        let window = Some(Window { warm_up_ms: u64::MAX, counted_ms: u64::MAX });
        let ask = Ask::Begin { version: u32::MAX, load, cpus: Some(usize::MAX), window };
        assert!(serde_json::to_vec(&ask).unwrap().len() < MAX_ASK);
    }

    #[test]
    fn what_a_stranger_asks_is_within_bounds() {
        let good = Load::new(Transport::Udp, Direction::Send, MAX_DATAGRAM, MAX_CONNECTIONS);
        assert_eq!(good.check(), Ok(()));
        let bad = [
            Load { size: 0, ..good },
            Load { size: MAX_DATAGRAM + 1, ..good },
            Load { transport: Transport::Tcp, size: MAX_SIZE + 1, ..good },
            Load { connections: 0, ..good },
            Load { connections: MAX_CONNECTIONS + 1, ..good },
            Load { rate: Some(f64::NAN), ..good },
            Load { rate: Some(0.0), ..good },
        ];
        assert!(bad.iter().all(|load| load.check().is_err()));
        let window = |warm_up_ms, counted_ms| Window { warm_up_ms, counted_ms }.check().is_ok();
        assert!(window(0, 1) && window(60_000, 60_000));
        assert!(!window(0, 0) && !window(60_001, 1) && !window(0, u64::MAX));
    }
}
