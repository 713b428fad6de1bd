//! Errors of paths and settings.

use std::error::Error as Cause;
use std::io;
use std::time::Duration;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(crate) enum LoadError {
    #[error("messages have 1 to {most} bytes, not {size}")]
    Size { most: usize, size: usize },
    #[error("there are 1 to {most} connections, not {connections}")]
    Connections { most: usize, connections: usize },
    #[error("1 to 10 million messages a second, not {0}")]
    Rate(f64),
    #[error("a load warms up and is counted for {most_s} s at most each")]
    Window { most_s: u64 },
    #[error("the {side} end has 1 to {most} CPUs, not {count}")]
    Cpus { side: &'static str, most: usize, count: usize },
}

#[derive(Debug, Error)]
pub(crate) enum PeerError {
    #[error("the peer is lost: no answer for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the peer is lost: {0}")]
    Lost(#[source] io::Error),
    #[error("the peer is lost: it hung up")]
    HungUp,
    /// Without control characters, and limited in length.
    #[error("the peer refused: {0}")]
    Refused(String),
    #[error("the peer answered what was not asked")]
    Unexpected,
}

#[derive(Debug, Error)]
pub(crate) enum SettingError {
    #[error("no setting is called {name}; there are {known}")]
    Unknown { name: String, known: String },
    #[error("the driver has none")]
    DriverHasNone,
    #[error("the driver does not let one change it")]
    Fixed,
    #[error("the kernel does not say")]
    Silent,
    #[error("there is no queue")]
    NoQueue,
    #[error("the interface has no interrupts of its own")]
    NoInterrupts,
    #[error("it stays at {0}")]
    Stays(String),
    /// It would change more than the setting.
    #[error("{0}")]
    NotTried(String),
    #[error("{0} is no number")]
    NoNumber(String),
    #[error("{0} is not of two numbers")]
    NoPair(String),
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("{0}")]
    Driver(#[source] Box<dyn Cause + Send + Sync>),
}
