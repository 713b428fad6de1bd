//! What the measuring process asks of its clients, and what they answer: one JSON object a line.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// One order to a client process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Attach to this service, and open the memory of the bare exchanges, if there is any.
    Attach { socket: PathBuf, slots: u32, bare: Option<PathBuf> },
    /// Move the process to this core.
    Pin { cpu: usize },
    /// Ping-pong of one word.
    PingPong { ns: u64 },
    /// Echo of slots with payload.
    Echo { size: u32, depth: u32, ns: u64 },
    /// The operation in this process, with the library of the service.
    Inline { op: String, size: u32, ns: u64 },
    /// The operation in this process, so many times side by side as a batch device does it.
    SideBySide { op: String, size: u32, fill: usize, ns: u64 },
    /// The operation in this process, with the system's OpenSSL.
    OpenSsl { op: String, size: u32, ns: u64 },
    /// Through the lane, always `depth` requests in flight.
    Closed { op: String, size: u32, depth: u32, start: u64, ns: u64 },
    /// Through the lane, at random times of this rate, whatever is in flight.
    Open { op: String, size: u32, per_s: f64, seed: u64, start: u64, ns: u64 },
    /// Through the lane, requests of several sizes at random times, whatever is in flight.
    Mixed { op: String, mix: Mix, seed: u64, start: u64, ns: u64 },
    /// Load the provider as this configuration file of OpenSSL says.
    Provide { configuration: PathBuf },
    /// Signatures by OpenSSL.
    Sign(Signatures),
    /// Signatures by the key that has the operation's name as its label, of a PKCS#11 module's first token.
    Token { module: PathBuf, pin: String, op: String, start: u64, ns: u64 },
    /// Messages; what connections they go on last as long as the process.
    Send(Sending),
}

/// Requests of several sizes, and when they come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mix {
    /// So many bytes with that probability each.
    pub(crate) parts: Vec<(f64, u32)>,
    /// Requests a second.
    pub(crate) per_s: f64,
    /// Requests that come at once after a fifth of the time, besides.
    pub(crate) burst: u32,
}

/// Messages that a program is to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sending {
    /// Who takes them.
    pub(crate) to: SocketAddr,
    /// Over so many connections.
    pub(crate) connections: usize,
    /// Bytes of each.
    pub(crate) size: usize,
    /// When.
    pub(crate) traffic: Traffic,
    /// Which way.
    pub(crate) options: TcpOptions,
    /// Whether the bytes say where they belong, and are compared where they arrive.
    pub(crate) checked: bool,
    /// For so long before it is measured, ns.
    pub(crate) warm_up: u64,
    /// For so long while it is measured, ns.
    pub(crate) ns: u64,
}

#[cfg(test)]
impl Sending {
    /// Messages of 64 B on one connection.
    pub(crate) fn example(to: SocketAddr) -> Self {
        let (traffic, options) = (Traffic::Flood, TcpOptions::NoDelay);
        Self { to, connections: 1, size: 64, traffic, options, checked: false, warm_up: 0, ns: 0 }
    }
}

/// When messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Traffic {
    /// As fast as they are taken, to each connection in turn that has room.
    Flood,
    /// The same, while the peer of the first connection reads slowly. That one's messages do not count.
    Slow,
    /// The same on all but the first connection, which has one message each millisecond, with the time in it.
    Quiet,
    /// So many a second on all connections together: one to each, with the time in it, then a pause.
    Paced(u64),
    /// So many for each message received.
    Answers(usize),
    /// Over UDP, to one receiver, as fast as they are taken. Each begins with its number.
    Datagrams,
    /// A row of messages to each connection, and then nothing for as long as the process lasts.
    Silence,
}

impl Traffic {
    /// How many of the first connections do not count.
    pub(crate) fn uncounted(self) -> usize {
        usize::from(matches!(self, Self::Slow | Self::Quiet))
    }
}

/// What a program asks of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TcpOptions {
    /// `TCP_NODELAY`: each message is sent at once.
    NoDelay,
    /// As a socket is made: small messages wait while others are under way.
    Nagle,
    /// `TCP_CORK`, let go after so many messages and where an answer is complete.
    Cork,
    /// `TCP_NODELAY`, of a program that gathers messages itself and sends several by one call.
    Batch,
}

/// Signatures to make with the sample's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Signatures {
    /// E.g. `rsa-2048-sign`.
    pub(crate) op: String,
    /// By the provider, not by OpenSSL's own code.
    pub(crate) provided: bool,
    /// The file that stands for the stored key. Without one the provider gets the sample's key by import.
    pub(crate) pem: Option<String>,
    /// In flight at a time; 1: without asynchronous jobs.
    pub(crate) jobs: u32,
    /// From this time on, by the clock of the machine, ns.
    pub(crate) start: u64,
    /// For so long, ns.
    pub(crate) ns: u64,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Operations done.
    pub(crate) ops: u64,
    /// In so much time, ns.
    pub(crate) ns: u64,
    /// From this time on, by the clock of the machine, ns.
    pub(crate) began: u64,
    /// CPU time of the client, ns; without that of making up the load.
    pub(crate) cpu_ns: u64,
    /// Bytes sent over TCP or UDP, also in messages that do not count, and before it is measured.
    pub(crate) bytes: u64,
    /// Looks that found nothing.
    pub(crate) empty_polls: u64,
    /// Times by stage, as values in ns and their counts.
    pub(crate) total: Counts,
    /// See `total`.
    pub(crate) queue: Counts,
    /// See `total`.
    pub(crate) device: Counts,
    /// See `total`.
    pub(crate) deliver: Counts,
    /// Whole operations as the program sees them, from call to return.
    pub(crate) whole: Counts,
}

/// Values and how often each came.
pub(crate) type Counts = Vec<(u64, u64)>;

/// The answer to one order, or what went wrong.
pub(crate) type Answer = Result<Measured, String>;

impl Measured {
    /// Operations a second.
    pub(crate) fn per_s(&self) -> f64 {
        self.ops as f64 * 1e9 / (self.ns.max(1)) as f64
    }
}
