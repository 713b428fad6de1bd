//! Errors of measuring the farm, and why a measurement has no result.

use super::crew::ProcessError;
use super::server::ServerError;
use sidecore_nats::SignalError;
use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::AcquireError;
use tokio::task::JoinError;

pub(crate) type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FarmError {
    #[error(transparent)]
    Unmeasured(#[from] Unmeasured),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Signals(#[from] SignalError),
    #[error(transparent)]
    Task(#[from] JoinError),
    #[error(transparent)]
    Output(Cause),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("{what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{what}: {source}")]
    Nats { what: Cow<'static, str>, source: Cause },
}

impl FarmError {
    pub(crate) fn output(source: impl Into<Cause>) -> Self {
        Self::Output(source.into())
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what, path: path.to_owned(), source }
    }

    pub(crate) fn nats<E: Into<Cause>>(what: impl Into<Cow<'static, str>>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Nats { what, source: source.into() }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Unmeasured {
    #[error("stopped before its end: all that was started has ended")]
    Stopped,
    #[error("{source}; what all processes said is in {}", logs.display())]
    Failed { source: Cause, logs: PathBuf },
    #[error("waited {seconds} s for {what}{}", source.as_ref().map_or_else(String::new, |why| format!(": {why}")))]
    Late { what: String, seconds: u64, source: Option<Cause> },
    #[error("{came} of {count} events came through the farm in {seconds} s")]
    Few { came: usize, count: usize, seconds: u64 },
    #[error("{id} is not stored: {source}")]
    NotStored { id: String, source: Cause },
    #[error("the messages ended")]
    MessagesEnded,
    #[error("the feeder has no input")]
    NoInput,
    #[error(transparent)]
    Semaphore(#[from] AcquireError),
}
