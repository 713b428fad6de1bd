//! Errors of a client; each message names a remedy.

use crate::control::{Refused, Reply};
use rustix::io::Errno;
use sidecore_core::session::Refusal;
use sidecore_ipc::trust::refused;
use sidecore_ipc::versions::{SIDECORE, unreadable};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reason for having no lane.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No process listens at the socket.
    #[error(
        "no service at {socket}: {1}; start one with `systemctl start sidecore` where it is installed, or `sidecore serve`, or name \
         its socket in SIDECORE_SOCKET",
        socket = .0.display()
    )]
    NoService(PathBuf, io::Error),
    /// This user may not connect to the socket, or may not see where it is.
    #[error(
        "no permission for the service's socket {}: become a member of the group that has it (in a unit: SupplementaryGroups=, with DynamicUser= as \
         well), or see socket_mode in the service's configuration",
        .0.display()
    )]
    NoPermission(PathBuf),
    /// The path to the socket leaves this program's root directory, as in a chroot: a directory on it is missing here.
    #[error(
        "{socket} is not in this program's sight: its root directory has no {missing}, as in a chroot, a container or a unit with a \
         root of its own; show it the socket's directory there (`mount --bind`, a volume, BindPaths= in the unit), or name the \
         right socket",
        socket = .0.display(), missing = .1.display()
    )]
    OutOfSight(PathBuf, PathBuf),
    /// This program may not create or connect Unix sockets.
    #[error(
        "this program may not open the service's socket {socket}: {1}; add AF_UNIX to RestrictAddressFamilies= in its unit, or allow \
         socket and connect in its filter of system calls or its security module",
        socket = .0.display()
    )]
    NoSockets(PathBuf, io::Error),
    /// The service at the socket belongs to a user who is not trusted. It received no message.
    #[error(
        "the service at {} is that of user {user}, who is neither root, nor this program's user, nor named as the service's: if \
         it is the right one, name this user in SIDECORE_SERVICE_USER, or as service_user in the provider's section of \
         openssl.cnf",
        socket.display()
    )]
    ForeignService {
        /// The socket.
        socket: PathBuf,
        /// The user of its service.
        user: u32,
    },
    /// The service runs, but did not answer within this time.
    #[error("the service at {} {}", .0.display(), silent(*.1))]
    NoAnswer(PathBuf, Duration),
    /// The service has ended. A service manager holds its socket, and the next service did not answer within this
    /// time.
    #[error(
        "the service has ended, and the next one has not started within {} ms: see `systemctl status sidecore`",
        .0.as_millis()
    )]
    Starting(Duration),
    /// The service refused a lane, with this reason.
    #[error("the service gives no lane: {0}")]
    Refused(Refused),
    /// The service never gives a lane of this shape: it exceeds the limit in the reason.
    #[error("the service gives no lane: {0}")]
    TooLarge(Refused),
    /// The service's answer cannot be used.
    #[error("{0}: {remedy}", remedy = unreadable())]
    Protocol(String),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Reason for a failed call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Every slot of the lane is in use by a request in flight.
    #[error("the lane is full: take completions before submitting more")]
    Full,
    /// `wait` with nothing in flight.
    #[error("nothing is in flight: submit before waiting")]
    NothingInFlight,
    /// `call` with requests in flight.
    #[error("requests are in flight: take their completions before a single call")]
    Busy,
    /// The arena has no room for the buffer.
    #[error("no room in the arena: free buffers or ask for more arena bytes")]
    ArenaFull,
    /// An access past the end of the buffer.
    #[error("beyond the end of the buffer")]
    OutOfBounds,
    /// A buffer of another lane, e.g. one made before a fork.
    #[error("the buffer is of another lane: allocate one after a fork")]
    ForeignBuffer,
    /// More extents than a request holds.
    #[error("more than 4 extents: copy the pieces together")]
    TooManyExtents,
    /// No completion within the given time.
    #[error("nothing came in the given time")]
    TimedOut,
    /// The service is gone or ended the lane. Connect again.
    #[error("{0}; connect again")]
    Gone(String),
    /// The service did not answer within this time. Connect again.
    #[error("the service {}", silent(*.0))]
    NoAnswer(Duration),
    /// The service refused a message over the socket.
    #[error("{0}")]
    Service(Refused),
    /// A request was refused.
    #[error("{}", .0.message())]
    Refused(Refusal),
    /// The device with this number died during the request, and no other device took it over.
    #[error("device {0} died and no other could take the request over")]
    DeviceFailed(u8),
    /// A forked child could not attach a lane of its own, or the service is of another version.
    #[error(transparent)]
    Connect(ConnectError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl ConnectError {
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self, Self::Starting(_))
    }

    pub(super) fn from_io(socket: &Path, timeout: Duration, error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::Unsupported => Self::NoSockets(socket.to_owned(), error),
            Kind::PermissionDenied if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                Self::NoSockets(socket.to_owned(), error)
            }
            Kind::ConnectionRefused => Self::NoService(socket.to_owned(), refused(socket, error)),
            Kind::NotFound | Kind::NotADirectory | Kind::InvalidFilename => match hidden(socket) {
                Some(missing) => Self::OutOfSight(socket.to_owned(), missing),
                None => Self::NoService(socket.to_owned(), error),
            },
            Kind::PermissionDenied => Self::NoPermission(socket.to_owned()),
            Kind::TimedOut => Self::NoAnswer(socket.to_owned(), timeout),
            Kind::InvalidData => {
                Self::Protocol(format!("no answer of this library's protocol from {}", socket.display()))
            }
            _ => Self::System(error),
        }
    }
}

impl Error {
    pub(super) fn closed() -> Self {
        Self::Gone("the service did not answer in time, or the program closed the lane's descriptors".to_owned())
    }

    pub(crate) fn unexpected(reply: Reply) -> Self {
        match reply {
            Reply::Refused(reason) if reason.is_of_older_version() => {
                Self::Service(Refused::new(reason.code, format!("{reason}; this program has sidecore {SIDECORE}")))
            }
            Reply::Refused(reason) | Reply::TooLarge(reason) => Self::Service(reason),
            Reply::Ended(fault) => Self::Gone(format!("the service ended the lane: {fault}")),
            other => Self::Connect(ConnectError::Protocol(format!("unexpected answer {other:?}"))),
        }
    }
}

/// The missing part of the path, if this program has another root directory than the service. Then not even the top
/// directory exists here, or the kernel's own file systems.
fn hidden(socket: &Path) -> Option<PathBuf> {
    let missing =
        socket.parent()?.ancestors().filter(|part| !part.exists()).last().filter(|part| part.is_absolute())?;
    let elsewhere = missing.parent() == Some(Path::new("/")) || !Path::new("/proc/self").exists();
    elsewhere.then(|| missing.to_owned())
}

fn silent(timeout: Duration) -> String {
    format!("does not answer within {} ms: see whether it was stopped, or has too much to do", timeout.as_millis())
}
