//! Errors of the command. Each message is one line with a remedy.

use sidecore::client::{self, ConnectError};
use sidecore::service::StartError;
use sidecore_terminal::error::{Failure, TerminalError, USAGE};
use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitStatus;

/// The service that runs is of a version that gives its place to no other: it must be stopped first.
const OLDER_SERVICE: u8 = 3;
/// Exit codes of a shell for a missing command, and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

pub(crate) type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Service(#[from] client::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Library(Cause),
    #[error("{0}")]
    Usage(String),
    #[error("{what}: {source}; {note}")]
    Unusable { what: String, source: Cause, note: &'static str },
    #[error("{what}: {source}")]
    Failed { what: String, source: Cause },
    #[error("{}: {source}", program.display())]
    Command { program: PathBuf, source: io::Error },
    #[error("LISTEN_FDS and LISTEN_PID: {0}: a service manager sets them, and nobody else should")]
    HeldSockets(#[source] io::Error),
    #[error("the service did not start: its log says why")]
    NotStarted(u8),
    #[error("the next service ended with this one's place, and the keys are not as they were: start the service again")]
    Orphaned,
    #[error("the service does not say what it stored: use one version of both")]
    NothingStored,
    #[error("the service's counters cannot be read")]
    NoCounters,
    #[error("it is of another key: give the server the certificate that was issued for this one")]
    OtherKey,
    #[error("{0}")]
    Trial(String),
    #[error("{0}")]
    OpenSsl(String),
    #[error(
        "{why}; {key}. A server that runs goes on with its former key; where its certificate's file is the new one already, run \
         this again before the server starts anew"
    )]
    NotRenewed { why: Cause, key: String },
    #[error("{0}")]
    NotSent(String),
    #[error("{refused} of {of} sealed keys were refused; the others are stored")]
    NotReceived { refused: usize, of: usize },
    #[error("{0}")]
    NoSuchUsers(String),
    #[error("the service has the new key no more")]
    KeyGone,
    #[error("{} wrote no pages: {status}", program.display())]
    OtherManuals { program: PathBuf, status: ExitStatus },
}

impl CliError {
    pub(crate) fn library(error: impl Into<Cause>) -> Self {
        Self::Library(error.into())
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }
}

pub(crate) fn failed<E: Into<Cause>>(what: impl Display) -> impl FnOnce(E) -> CliError {
    move |error| CliError::Failed { what: what.to_string(), source: error.into() }
}

pub(crate) fn unusable<E: Into<Cause>>(what: impl Display, note: &'static str) -> impl FnOnce(E) -> CliError {
    move |error| CliError::Unusable { what: what.to_string(), source: error.into(), note }
}

impl Failure for CliError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Command { source, .. } if source.kind() == ErrorKind::NotFound => NOT_FOUND,
            Self::Command { .. } => NOT_EXECUTABLE,
            Self::Start(StartError::OlderService(_)) => OLDER_SERVICE,
            Self::NotStarted(code) => *code,
            _ => USAGE,
        }
    }
}
