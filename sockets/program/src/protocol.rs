//! Messages between a program and the service of sockets: one packet each, encoded with `postcard`.

mod refusal;

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

pub use refusal::{RefusalCode, Refused};

/// Bytes of a program's name that are kept.
pub const MAX_NAME: usize = 31;
/// Limit of rows in one answer to [`Ask::List`].
pub const MAX_ROWS: usize = 64;
/// Limit of sockets in one [`Report`].
pub const MAX_REPORTED: usize = 256;
/// Descriptors in a [`Report`] are below this.
pub const NUMBERS: u32 = 1 << 20;
/// [`Row::place`] of a socket without a place: this plus its descriptor.
pub const REPORTED: u32 = 1 << 20;

/// Default path of the service's socket. Its directory is not that of the key service, because this service may
/// replace other files in it.
pub const DEFAULT_SOCKET: &str = "/run/sidecore-sockets/sockets.sock";
/// The service's user in the package; trusted if no other user is named. It differs from the user of the key service,
/// who may use every key.
pub const DEFAULT_SERVICE_USER: &str = "sidecore-sockets";
/// The environment variable that names another socket for it.
pub const SOCKET_VARIABLE: &str = "SIDECORE_SOCKETS";
/// The environment variable with the users whose service is trusted, by number; `sidecore run` sets it.
pub const USERS_VARIABLE: &str = "SIDECORE_SOCKETS_USERS";

/// Messages from program to service.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// First message of a program with connections. Answered by [`Reply::Welcome`].
    Hello {
        /// Version of its layout, see [`sidecore_streams::layout::ABI`].
        abi: u32,
        /// Name shown to operators; cut at [`MAX_NAME`] bytes.
        name: String,
    },
    /// Requests 64 more places. Answered by [`Reply::Bank`].
    Bank,
    /// A stream begins at this place; the packet carries its socket. There is no answer: the place's state word has
    /// the result, and the program may write before that.
    Promote {
        /// Number of the place among all of the program's banks.
        place: u32,
        /// Number of the stream; differs from that of the previous stream at this place.
        stream: u32,
    },
    /// Lists sockets of this user's programs, of all users for root, page by page. Only as the first message of a
    /// connection.
    List {
        /// Start of the page, from the previous answer; 0: the beginning.
        from: u64,
    },
    /// As [`Ask::Promote`], for an unconnected UDP socket: all of the stream's datagrams go to this address.
    PromoteTo {
        /// Number of the place among all of the program's banks.
        place: u32,
        /// Number of the stream; differs from that of the previous stream at this place.
        stream: u32,
        /// Receiver, without flow and scope.
        to: SocketAddr,
    },
    /// Asks for the number of programs of this user, of all users for root, that still owe a report. Answered by
    /// [`Reply::Reports`].
    Reports {
        /// Request new reports from all of them first.
        fresh: bool,
    },
    /// The answer to [`Reply::Describe`].
    Report(Report),
}

/// Messages from service to program.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The packet carries the memory of the first bank, and both ends of the service's doorbell pipe: first the
    /// writing end.
    Welcome {
        /// Size of each ring, bytes.
        ring_bytes: u32,
    },
    /// The packet carries the memory of the next bank.
    Bank,
    /// A page of sockets, possibly empty.
    Sockets {
        /// At most [`MAX_ROWS`].
        rows: Vec<Row>,
        /// Start of the next page, beyond the start of this one; `None`: there are no more.
        next: Option<u64>,
    },
    /// There is no further bank: error and remedy. The connection goes on. Services built before the codes of version 0.1.0
    /// say it of all that they refuse.
    NoBank(String),
    /// Requests a [`Report`]. Not repeated before that has arrived.
    Describe,
    /// The answer to [`Ask::Reports`].
    Reports {
        /// Programs that have not answered yet.
        pending: u32,
        /// Sockets above [`MAX_REPORTED`] per program.
        others: u64,
    },
    /// The request was refused, and the connection ends.
    Refused(Refused),
}

/// Sockets of a program that are in no ring, as its library sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// At most [`MAX_REPORTED`].
    pub sockets: Vec<Reported>,
    /// Number of sockets above this limit.
    pub others: u32,
}

/// One socket of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// Number of the descriptor.
    pub descriptor: u32,
    /// Number of [`sidecore_streams::rule::PathReason`].
    pub why: u8,
    /// Address of the peer.
    pub peer: Option<SocketAddr>,
    /// Bytes that the kernel has accepted.
    pub bytes: Option<u64>,
    /// The place of its last ring, if it still has the counts.
    pub seat: Option<Seated>,
}

/// The place of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seated {
    /// Number of the attachment among those of the process, from 1 on.
    pub attachment: u16,
    /// Number of the place among all of the program's banks.
    pub place: u16,
    /// Number of the stream.
    pub stream: u32,
}

impl Seated {
    /// Inverse of [`Seated::to_word`]. `None`: 0.
    pub fn from_word(word: u64) -> Option<Self> {
        let (attachment, place) = ((word >> 48) as u16, (word >> 32) as u16);
        (attachment != 0).then_some(Self { attachment, place, stream: word as u32 })
    }

    /// Encodes it in one word, which is not 0.
    pub fn to_word(self) -> u64 {
        u64::from(self.attachment) << 48 | u64::from(self.place) << 32 | u64::from(self.stream)
    }
}

/// One socket in a list for operators. The program's own entries are not verified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Number of the program's connection, unique since the service began.
    pub serial: u32,
    /// Number of the process.
    pub pid: u32,
    /// User of the process.
    pub uid: u32,
    /// Its name, as the program states it.
    pub program: String,
    /// Number of its place among those of the program's connection to the service. From [`REPORTED`] on: the socket
    /// has none, and the program states all that is known of it.
    pub place: u32,
    /// Number of the stream at this place; the previous stream's counts ended with it.
    pub stream: u32,
    /// Number of the descriptor in the program.
    pub descriptor: u32,
    /// True if the service has the socket: it is in a ring.
    pub open: bool,
    /// Address of the peer, or of the last one.
    pub peer: Option<String>,
    /// Number of [`sidecore_streams::rule::PathReason`].
    pub why: u8,
    /// Messages through the ring.
    pub messages: u64,
    /// Messages that the program gave to the kernel.
    pub kernel_messages: u64,
    /// Bytes of the socket that the kernel accepted, by any path. `None`: unknown.
    pub kernel_bytes: Option<u64>,
    /// Bytes through the ring.
    pub bytes: u64,
    /// The service's system calls that moved bytes.
    pub transfers: u64,
    /// The program's own system calls that moved bytes.
    pub drains: u64,
    /// Bytes waiting in the ring.
    pub waiting: u64,
    /// CPU time saved by fewer system calls so far, ns, see [`sidecore_streams::saving`]; below 0: the ring
    /// costs more. `None`: unknown.
    pub saved_ns: Option<i64>,
    /// Time since the program's connection to the service ended, ns. `None`: it is connected.
    pub gone_ns: Option<u64>,
}
