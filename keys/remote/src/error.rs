//! The errors of gateways and key servers. Each message has the reason and, where there is one, the remedy.

use sidecore_nats::{ConnectError, InvalidName, SignalError};
use sidecore_terminal::error::{Failure, TerminalError};
use std::error::Error;
use std::io;
use tokio::task::JoinError;

pub(crate) type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Signals(#[from] SignalError),
    #[error(transparent)]
    Task(#[from] JoinError),
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("cannot start {slots} threads: {source}; give a smaller --jobs")]
    TooManyJobs { slots: u16, source: io::Error },
    #[error("{what}: {source}")]
    Nats { what: &'static str, source: Cause },
    #[error("the connection to NATS {0}")]
    Closed(&'static str),
    #[error("the NATS server's max_payload is {0} bytes: set it to 1MB")]
    SmallMessages(usize),
    #[error("the device's farm {name:?}: {source}")]
    DeviceFarm { name: String, source: InvalidName },
    #[error("the kernel gives no random bytes")]
    NoRandom,
    #[error("the thread that watches the keys ended")]
    KeysUnwatched,
}

impl Failure for RemoteError {}

impl RemoteError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    pub(crate) fn nats<E: Into<Cause>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Nats { what, source: source.into() }
    }
}
