//! What the near end asks of the far one, over a connection of its own: a line of JSON each way.

use super::account::Account;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// Both ends must be of one version.
pub(super) const VERSION: u32 = 2;
/// Where a peer listens unless told otherwise.
pub(crate) const PORT: u16 = 5217;
/// Largest message, bytes.
pub(super) const MAX_SIZE: usize = 1 << 20;
/// Most connections at a time.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// Largest datagram, bytes.
pub(super) const MAX_DATAGRAM: usize = 65_507;
/// Longest line, bytes. An account has some hundred bytes for each processor.
const MAX_LINE: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Direction {
    /// The near end sends without end.
    Send,
    /// The far end does.
    Receive,
    /// The near end asks, the far end answers with as much.
    RoundTrip,
}

/// What goes over the path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) transport: Transport,
    pub(super) direction: Direction,
    /// Bytes of each message: of each `write`, or of each datagram.
    pub(super) size: usize,
    pub(super) connections: usize,
    /// Messages a second of each connection; `None`: as many as possible.
    pub(super) rate: Option<f64>,
}

impl Load {
    /// Whether both ends can do that. A stranger may have asked.
    ///
    /// # Errors
    /// What is out of bounds.
    pub(super) fn check(&self) -> Result<(), String> {
        let most = if self.transport == Transport::Udp { MAX_DATAGRAM } else { MAX_SIZE };
        if !(1..=most).contains(&self.size) {
            return Err(format!("messages have 1 to {most} bytes, not {}", self.size));
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            return Err(format!("there are 1 to {MAX_CONNECTIONS} connections, not {}", self.connections));
        }
        match self.rate {
            Some(rate) if !(1.0..=1e7).contains(&rate) => Err(format!("1 to 10 million messages a second, not {rate}")),
            _ => Ok(()),
        }
    }
}

/// When an end counts, from the first message on that it sends or receives. So nothing needs to be said while a load goes on, which
/// may leave no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) warm_up_ms: u64,
    pub(super) counted_ms: u64,
}

impl Window {
    /// Longest parts, ms.
    const MOST: u64 = 60_000;

    /// Whether an end can do that. A stranger may have asked.
    ///
    /// # Errors
    /// What is out of bounds.
    pub(super) fn check(self) -> Result<(), String> {
        if self.warm_up_ms > Self::MOST || !(1..=Self::MOST).contains(&self.counted_ms) {
            return Err(format!("a load warms up and is counted for {} s at most each", Self::MOST / 1000));
        }
        Ok(())
    }
}

/// What the near end asks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Connections for that load are about to come; traffic goes as they are there. The far end's threads run on so many of its
    /// CPUs, the last ones; `None`: on all.
    Begin { version: u32, load: Load, cpus: Option<usize>, window: Option<Window> },
    /// The far end may send: what it said has come.
    Go,
    /// What was counted until now.
    Count,
    /// The load has ended.
    End,
}

/// What the far end answers.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Connections are expected at these ports; each begins with the token. UDP has a port for each.
    Ready { ports: Vec<u16>, token: u64 },
    /// All of them came.
    Begun,
    /// What was counted at the begin and at the end of the window. The load has ended.
    Window(Box<[Account; 2]>),
    /// What was counted.
    Counted(Box<Account>),
    /// The load has ended.
    Ended,
    /// Not done: what is wrong.
    Refused(String),
}

/// One end's side of the connection.
#[derive(Debug)]
pub(super) struct Control {
    reader: BufReader<TcpStream>,
}

impl Control {
    pub(super) fn new(connection: TcpStream) -> Self {
        Self { reader: BufReader::new(connection) }
    }

    /// The connection below.
    pub(super) fn connection(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub(super) fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// `None`: the other end has hung up.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        (&mut self.reader).take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&line)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_asks_is_within_bounds() {
        let good = Load {
            transport: Transport::Udp,
            direction: Direction::Send,
            size: MAX_DATAGRAM,
            connections: MAX_CONNECTIONS,
            rate: None,
        };
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
