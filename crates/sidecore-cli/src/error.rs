//! Errors of the command. Each message is one line with a remedy.

mod keys;
mod launch;

pub(crate) use keys::{IdError, KeyFileError, KeysError, RenewError, TrialError, called};
pub(crate) use launch::LaunchError;

use sidecore::client::{self, ConnectError};
use sidecore::service::StartError;
use sidecore_terminal::error::{Failure, TerminalError};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Any error of a library.
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
    Keys(#[from] KeysError),
    #[error(transparent)]
    Renew(#[from] RenewError),
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    System(#[from] io::Error),
    /// The library refuses a configuration, a setting, a counter file or a key.
    #[error(transparent)]
    Library(Cause),
    #[error("{}: {source}", path.display())]
    Counters { path: PathBuf, source: Cause },
    #[error("{}: no heartbeat", .0.display())]
    NoHeartbeat(PathBuf),
    #[error("the service ended: these are its last numbers")]
    Ended,
    #[error("what was set is in force, but this could not be said: {0}")]
    Unprinted(#[source] Box<CliError>),
    #[error("no setting {key:?} is in force: `sidecore get` alone prints all{}", where_else(key))]
    NoSetting { key: String },
    #[error("{key}: {} is a directory: name a file", path.display())]
    Directory { key: &'static str, path: PathBuf },
    #[error("--passphrase-file with a section [sockets]: the service of sockets has no keys, leave it out")]
    NoPassphrase,
    #[error("LISTEN_FDS and LISTEN_PID: {0}: a service manager sets them, and nobody else should")]
    HeldSockets(#[source] io::Error),
    #[error("the log: {0}")]
    Log(#[source] Cause),
    #[error("{address}: {source}; name another address and port of this machine with --listen")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Manual { path: PathBuf, source: io::Error },
    #[error("{} wrote no pages: {status}", program.display())]
    OtherManuals { program: PathBuf, status: ExitStatus },
}

impl CliError {
    /// For an error of the library in words or as a type.
    pub(crate) fn library(error: impl Into<Cause>) -> Self {
        Self::Library(error.into())
    }

    pub(crate) fn log(error: impl Into<Cause>) -> Self {
        Self::Log(error.into())
    }
}

impl Failure for CliError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Launch(error) => error.exit_code(),
            Self::Terminal(error) => error.exit_code(),
            _ => 2,
        }
    }
}

fn where_else(key: &str) -> &'static str {
    if key.starts_with("device") { ", and devices where the service's counters are beside its socket" } else { "" }
}
