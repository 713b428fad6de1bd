//! What a program and the service of sockets say to each other: one packet each, `postcard` inside.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Most bytes of a program's name that are kept.
pub const MAX_NAME: usize = 31;
/// Most rows of one answer to [`Ask::List`].
pub const MAX_ROWS: usize = 64;
/// Most sockets of one [`Report`].
pub const MAX_REPORTED: usize = 256;
/// Descriptors of a [`Report`] are below.
pub const NUMBERS: u32 = 1 << 20;
/// [`Row::place`] of a socket without a place: this plus its descriptor.
pub const REPORTED: u32 = 1 << 20;

/// Where the service of sockets listens unless told otherwise: not where keys are served, for it may replace what lies beside
/// its socket.
pub const DEFAULT_SOCKET: &str = "/run/sidecore-sockets/sockets.sock";
/// The user that the package makes for it, trusted where no other is named. It is another than that of the service of keys,
/// whose user may use every key.
pub const DEFAULT_SERVICE_USER: &str = "sidecore-sockets";
/// The environment variable that names another socket for it.
pub const SOCKET_VARIABLE: &str = "SIDECORE_SOCKETS";
/// The environment variable in which `sidecore run` gives the users whose service is trusted, by number.
pub const USERS_VARIABLE: &str = "SIDECORE_SOCKETS_USERS";

/// What a program asks.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// The first message of a program that has connections. Answered by [`Reply::Welcome`].
    Hello {
        /// Number of its layout, see [`sidecore_core::streams::layout::ABI`].
        abi: u32,
        /// Name for people; cut at [`MAX_NAME`] bytes.
        name: String,
    },
    /// 64 places more. Answered by [`Reply::Bank`].
    Bank,
    /// A stream begins at this place; its socket comes with the packet. Not answered: the word of the place's state says what
    /// became of it, and meanwhile the program may write.
    Promote {
        /// Number of the place among all of the program's banks.
        place: u32,
        /// Number of the stream, another than that of the one before at this place.
        stream: u32,
    },
    /// The sockets of this user's programs, of all users for root; a part of them. Only as the first message of a connection.
    List {
        /// Where to go on, as the answer before said; 0: at the beginning.
        from: u64,
    },
    /// As [`Ask::Promote`], on a UDP socket that is connected to nobody: all of the stream's datagrams go to that address.
    PromoteTo {
        /// Number of the place among all of the program's banks.
        place: u32,
        /// Number of the stream, another than that of the one before at this place.
        stream: u32,
        /// Without a flow and a scope.
        to: SocketAddr,
    },
    /// How many programs of this user, of all users for root, still owe a report. Answered by [`Reply::Reports`].
    Reports {
        /// First the service asks all of them for a new one.
        fresh: bool,
    },
    /// The answer to [`Reply::Describe`].
    Report(Report),
}

/// What the service answers.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// With the packet come the memory of the first bank, and both ends of the pipe by which the service is rung: first the
    /// one to write.
    Welcome {
        /// Bytes of each ring.
        ring_bytes: u32,
    },
    /// With the packet comes the memory of the next bank.
    Bank,
    /// Some sockets, perhaps none.
    Sockets {
        /// At most [`MAX_ROWS`].
        rows: Vec<Row>,
        /// Where the next answer goes on, which is further than this one began; `None`: there are no more.
        next: Option<u64>,
    },
    /// Not done: what is wrong and what to do.
    Refused(String),
    /// The program owes a [`Report`]. Not sent again before that has come.
    Describe,
    /// The answer to [`Ask::Reports`].
    Reports {
        /// Programs that have not answered yet.
        pending: u32,
        /// Sockets beyond [`MAX_REPORTED`] of a program.
        others: u64,
    },
}

/// Sockets of a program that are in no ring, as its library sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// At most [`MAX_REPORTED`].
    pub sockets: Vec<Reported>,
    /// Count of the sockets beyond.
    pub others: u32,
}

/// One socket of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// Number of the descriptor.
    pub descriptor: u32,
    /// Number of [`sidecore_core::streams::rule::Why`].
    pub why: u8,
    /// Address of the peer.
    pub peer: Option<SocketAddr>,
    /// Bytes that the kernel has accepted.
    pub bytes: Option<u64>,
    /// The place of its last ring, if that still has its counts.
    pub seat: Option<Seated>,
}

/// A stream's place.
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
    /// As [`Seated::to_word`] made it. `None`: 0.
    pub fn from_word(word: u64) -> Option<Self> {
        let (attachment, place) = ((word >> 48) as u16, (word >> 32) as u16);
        (attachment != 0).then_some(Self { attachment, place, stream: word as u32 })
    }

    /// In one word, which is not 0.
    pub fn to_word(self) -> u64 {
        u64::from(self.attachment) << 48 | u64::from(self.place) << 32 | u64::from(self.stream)
    }
}

/// One socket, for people. What the program says of it is what it likes to say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Number of the program's connection, which no other had since the service began.
    pub serial: u32,
    /// Number of the process.
    pub pid: u32,
    /// User of the process.
    pub uid: u32,
    /// Its name as it gave it.
    pub program: String,
    /// Number of its place among those of the program's connection to the service. From [`REPORTED`] on: the socket has none, and
    /// all that is known of it the program says.
    pub place: u32,
    /// Number of the stream there: another than that of the one before, whose counts ended with it.
    pub stream: u32,
    /// Number of the descriptor there.
    pub descriptor: u32,
    /// The service has the socket: it is in a ring.
    pub open: bool,
    /// Address of the peer, or of the last one.
    pub peer: Option<String>,
    /// Number of [`sidecore_core::streams::rule::Why`].
    pub why: u8,
    /// Messages through the ring.
    pub messages: u64,
    /// Messages that the program gave to the kernel.
    pub kernel_messages: u64,
    /// Bytes of the socket that the kernel accepted, by any path. `None`: not known.
    pub kernel_bytes: Option<u64>,
    /// Bytes through the ring.
    pub bytes: u64,
    /// System calls in which the service moved something.
    pub transfers: u64,
    /// System calls in which the program itself moved something.
    pub drains: u64,
    /// Bytes that wait in the ring.
    pub waiting: u64,
    /// CPU time that fewer system calls have saved so far (ns), see [`sidecore_core::streams::saving`]; below 0: it was moved
    /// to the service at a price. `None`: not known.
    pub saved_ns: Option<i64>,
    /// Time since the program's connection to the service ended, ns. `None`: it has one.
    pub gone_ns: Option<u64>,
}
