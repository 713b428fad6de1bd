//! What can go wrong for a client, each with what to do.

use crate::control::Reply;
use sidecore_core::session::Refusal;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why there is no lane.
#[derive(Debug)]
pub enum ConnectError {
    /// Nobody answers at the socket.
    NoService(PathBuf, io::Error),
    /// Somebody listens at the socket whose service is not trusted. Nothing was said to it.
    ForeignService {
        /// The socket.
        socket: PathBuf,
        /// Whose it is.
        user: u32,
    },
    /// The service is there and says nothing for so long.
    NoAnswer(PathBuf, Duration),
    /// The service gives no lane, for this reason.
    Refused(String),
    /// The service will never give a lane of this shape: it is beyond the limit that the reason names.
    TooLarge(String),
    /// What the service answered cannot be used.
    Protocol(String),
    /// A system call failed.
    System(io::Error),
}

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// As many requests are in flight as the lane has slots.
    Full,
    /// `wait` with nothing in flight.
    NothingInFlight,
    /// `call` with requests in flight.
    Busy,
    /// The arena has no room for the buffer.
    ArenaFull,
    /// An access beyond the buffer's end.
    OutOfBounds,
    /// A buffer of another lane, e.g. of before a fork.
    ForeignBuffer,
    /// More extents than a request holds.
    TooManyExtents,
    /// Nothing came in the given time.
    TimedOut,
    /// The service is gone or ended the lane. Connect again.
    Gone(String),
    /// The service said nothing for so long. Connect again.
    NoAnswer(Duration),
    /// The service refused what was asked over the socket.
    Service(String),
    /// A request was refused.
    Refused(Refusal),
    /// The device of this number died under the request and no other took it over.
    DeviceFailed(u8),
    /// A forked child got no lane of its own.
    Connect(ConnectError),
    /// A system call failed.
    System(io::Error),
}

impl ConnectError {
    pub(super) fn from_io(socket: &Path, patience: Duration, error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound | Kind::ConnectionRefused | Kind::PermissionDenied => {
                Self::NoService(socket.to_owned(), error)
            }
            Kind::TimedOut => Self::NoAnswer(socket.to_owned(), patience),
            _ => Self::System(error),
        }
    }
}

impl Error {
    /// The lane is of no use any more.
    pub(super) fn closed() -> Self {
        Self::Gone("the service did not answer in time, or the program closed the lane's descriptors".to_owned())
    }

    pub(super) fn unexpected(reply: Reply) -> Self {
        match reply {
            Reply::Refused(reason) | Reply::TooLarge(reason) => Self::Service(reason),
            Reply::Ended(fault) => Self::Gone(format!("the service ended the lane: {fault}")),
            other => Self::Gone(format!("unexpected answer {other:?}: client and service differ in version")),
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoService(socket, error) => write!(
                f,
                "no service at {}: {error}; start one with `sidecore serve`, or name its socket in SIDECORE_SOCKET",
                socket.display()
            ),
            Self::ForeignService { socket, user } => write!(
                f,
                "the service at {} is that of user {user}, who is neither root, nor this program's user, nor named as the \
                 service's: if it is the right one, name this user in SIDECORE_SERVICE_USER, or as service_user in the \
                 provider's section of openssl.cnf",
                socket.display()
            ),
            Self::NoAnswer(socket, patience) => write!(f, "the service at {} {}", socket.display(), silent(*patience)),
            Self::Refused(reason) | Self::TooLarge(reason) => write!(f, "the service gives no lane: {reason}"),
            Self::Protocol(what) => write!(f, "{what}: client and service must be of one version"),
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the lane is full: take completions before submitting more"),
            Self::NothingInFlight => f.write_str("nothing is in flight: submit before waiting"),
            Self::Busy => f.write_str("requests are in flight: take their completions before a single call"),
            Self::ArenaFull => f.write_str("no room in the arena: free buffers or ask for more arena bytes"),
            Self::OutOfBounds => f.write_str("beyond the end of the buffer"),
            Self::ForeignBuffer => f.write_str("the buffer is of another lane: allocate one after a fork"),
            Self::TooManyExtents => f.write_str("more than 4 extents: copy the pieces together"),
            Self::TimedOut => f.write_str("nothing came in the given time"),
            Self::Gone(why) => write!(f, "{why}; connect again"),
            Self::NoAnswer(patience) => write!(f, "the service {}", silent(*patience)),
            Self::Service(reason) => f.write_str(reason),
            Self::Refused(refusal) => f.write_str(refusal.message()),
            Self::DeviceFailed(device) => write!(f, "device {device} died and no other could take the request over"),
            Self::Connect(error) => write!(f, "{error}"),
            Self::System(error) => write!(f, "{error}"),
        }
    }
}

fn silent(patience: Duration) -> String {
    format!("does not answer within {} ms: see whether it was stopped, or has too much to do", patience.as_millis())
}

impl std::error::Error for ConnectError {}
impl std::error::Error for Error {}
