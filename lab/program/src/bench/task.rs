//! Orders of the measuring process to its clients, and their answers: one JSON object a line.

use serde::{Deserialize, Serialize};
use sidecore_measure::experiment::Measured;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Attach to this service, and open the memory of the bare exchanges if given.
    Attach { socket: PathBuf, slots: u32, bare: Option<PathBuf> },
    /// Move the process to this core.
    Pin { cpu: usize },
    /// Ping-pong of one word.
    PingPong { ns: u64 },
    /// Echo of slots with payload.
    Echo { size: u32, depth: u32, ns: u64 },
    /// The operation in this process, with the library of the service.
    Inline { op: String, size: u32, ns: u64 },
    /// The operation in this process, `fill` times side by side as in a batch device.
    SideBySide { op: String, size: u32, fill: usize, ns: u64 },
    /// The operation in this process, with the system's OpenSSL.
    OpenSsl { op: String, size: u32, ns: u64 },
    /// Through the lane, always `depth` requests in flight.
    Closed { op: String, size: u32, depth: u32, start: u64, ns: u64 },
    /// Through the lane, at random times of this rate, independent of completions.
    Open { op: String, size: u32, per_s: f64, seed: u64, start: u64, ns: u64 },
    /// Through the lane, requests of several sizes at random times, independent of completions.
    Mixed { op: String, mix: Mix, seed: u64, start: u64, ns: u64 },
    /// Load the provider with this configuration file of OpenSSL.
    Provide { configuration: PathBuf },
    /// Signatures by OpenSSL.
    Sign(Signatures),
    /// Signatures by the first token of a PKCS#11 module. The key's label is the operation's name.
    Token { module: PathBuf, pin: String, op: String, threads: usize, start: u64, ns: u64 },
    /// Signatures by the ssh-agent at this socket.
    Agent { socket: PathBuf, op: String, ns: u64 },
    /// Messages. Their connections last as long as the process.
    Send(Sending),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mix {
    /// Probabilities and sizes in bytes.
    pub(crate) parts: Vec<(f64, u32)>,
    /// Requests a second.
    pub(crate) per_s: f64,
    /// Additional simultaneous requests after a fifth of the time.
    pub(crate) burst: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sending {
    pub(crate) to: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) size: usize,
    pub(crate) traffic: Traffic,
    pub(crate) options: TcpOptions,
    /// Whether the bytes identify their position and are compared on arrival.
    pub(crate) checked: bool,
    /// Time before the measurement, ns.
    pub(crate) warm_up: u64,
    /// Measured time, ns.
    pub(crate) ns: u64,
}

#[cfg(test)]
impl Sending {
    pub(crate) fn example(to: SocketAddr) -> Self {
        let (traffic, options) = (Traffic::Flood, TcpOptions::NoDelay);
        Self { to, connections: 1, size: 64, traffic, options, checked: false, warm_up: 0, ns: 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Traffic {
    /// As fast as the kernel accepts them, to each connection with room in turn.
    Flood,
    /// The same, while the peer of the first connection reads slowly. The first connection does not count.
    Slow,
    /// The same on all but the first connection, which has one message each millisecond, with the time in it.
    Quiet,
    /// This rate per second over all connections: one message to each, with the time in it, then a pause.
    Paced(u64),
    /// This number of messages for each message received.
    Answers(usize),
    /// Over UDP, to one receiver, as fast as the kernel accepts them. Each begins with its number.
    Datagrams,
    Silence,
}

impl Traffic {
    pub(crate) fn uncounted(self) -> usize {
        usize::from(matches!(self, Self::Slow | Self::Quiet))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TcpOptions {
    NoDelay,
    /// Default of a new socket: small messages wait while others are in flight.
    Nagle,
    /// `TCP_CORK`, released after some messages and at the end of an answer.
    Cork,
    /// `TCP_NODELAY`, for a program that gathers messages itself and sends several by one call.
    Batch,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Signatures {
    pub(crate) op: String,
    /// True: by the provider. False: by OpenSSL's own code.
    pub(crate) provided: bool,
    /// The file that names the stored key. `None`: the provider imports the sample's key.
    pub(crate) pem: Option<String>,
    /// Jobs in flight; 1: without asynchronous jobs.
    pub(crate) jobs: u32,
    /// Start by the machine's clock, ns.
    pub(crate) start: u64,
    /// Duration, ns.
    pub(crate) ns: u64,
}

pub(crate) type Answer = Result<Measured, String>;
