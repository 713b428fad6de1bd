//! Failures of measurements.

use crate::baseline::NoKey;
use crate::ffi::TokenError;
use sidecore::client::{ConnectError, Error};
use sidecore::engine::crypto::SessionError;
use sidecore::keys::{KeyFileError, NameError};
use sidecore::service::StartError;
use sidecore_counters::SnapshotError;
use sidecore_libcrypto::Failure;
use sidecore_measure::export::ExportError;
use sidecore_measure::interrupt::SignalError;
use sidecore_measure::programs::ProgramError;
use sidecore_sim::plan::PlanError;
use sidecore_sockets::ask::ListError;
use std::io;
use std::num::{ParseIntError, TryFromIntError};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("{0}")]
    Usage(String),
    /// This machine lacks something that cannot be installed.
    #[error("{0}")]
    Machine(&'static str),
    #[error("no operation {0:?}")]
    NoOperation(String),
    #[error("no signing operation {0:?}")]
    NoSigning(String),
    #[error("{0} is not stored")]
    NotStored(String),
    #[error("cannot use the service at {}: {why}", .socket.display())]
    Service { socket: PathBuf, why: Box<BenchError> },
    #[error("the counters of {} are not this bench's", .0.display())]
    ForeignCounters(PathBuf),
    #[error("{} is not this bench's to change", .0.display())]
    ForeignSetting(PathBuf),
    #[error("{0}")]
    Client(String),
    #[error("a client process ended early: {0}")]
    EndedEarly(String),
    #[error("the program: {program}; its peer: {peer}")]
    Both { program: Box<BenchError>, peer: io::Error },
    #[error("{0}")]
    State(&'static str),
    #[error("the provider {found:?} would sign, not {wanted:?}")]
    Provider { found: Option<String>, wanted: &'static str },
    #[error("no signature came back within {seconds} s")]
    NoSignature { seconds: i32 },
    #[error("{sent} bytes were sent, and {came} came")]
    Bytes { sent: u64, came: u64 },
    #[error("{0} requests were refused or failed")]
    Refused(u64),
    #[error(
        "{} is not written, for `sidecore sim` would refuse this calibration: {refused}. What to do: end other programs, \
         and calibrate again",
        .path.display()
    )]
    Plan { path: PathBuf, refused: PlanError },
    #[error(transparent)]
    Signals(#[from] SignalError),
    #[error(transparent)]
    Counters(#[from] SnapshotError),
    #[error(transparent)]
    Sockets(#[from] ListError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Key(#[from] KeyFileError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Number(#[from] TryFromIntError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(transparent)]
    OpenSsl(#[from] Failure),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Request(#[from] Error),
    #[error(transparent)]
    Started(#[from] StartError),
    #[error(transparent)]
    StartedSockets(#[from] sidecore_sockets_service::StartError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    NoKey(#[from] NoKey),
    #[error(transparent)]
    Digits(#[from] ParseIntError),
}

impl BenchError {
    pub(super) fn on(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| ProgramError::on(what)(error).into()
    }
}
