//! Errors of `sidecore try`.

use sidecore::client::{ConnectError, Error};
use sidecore::keys::{KeyFileError, NameError};
use sidecore::service::StartError;
use sidecore_counters::SnapshotError;
use sidecore_measure::export::ExportError;
use sidecore_measure::programs::ProgramError;
use sidecore_report::paths::PathError;
use sidecore_terminal::error::{Failure, TerminalError};
use std::io;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TryError {
    #[error("this is {0:?}: install OpenSSL 3 or later, e.g. apt-get install openssl")]
    OldOpenSsl(String),
    #[error("{0}")]
    State(&'static str),
    #[error("{path}: {error}: the server's memory cannot be searched here")]
    Memory { path: String, error: io::Error },
    #[error("process {pid} has more than {bytes} bytes of memory")]
    TooLarge { pid: u32, bytes: u64 },
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Counters(#[from] SnapshotError),
    #[error(transparent)]
    Key(#[from] KeyFileError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Request(#[from] Error),
    #[error(transparent)]
    Started(#[from] StartError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    #[error(transparent)]
    File(#[from] PathError),
}

impl Failure for TryError {}
