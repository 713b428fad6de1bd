//! Why a measurement has no result.

use std::error::Error;
use std::path::PathBuf;
use tokio::sync::AcquireError;

type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
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
