//! Errors of paths, tools and settings.

use std::error::Error as Cause;
use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub(crate) enum LoadError {
    #[error("messages have 1 to {most} bytes, not {size}")]
    Size { most: usize, size: usize },
    #[error("there are 1 to {most} connections, not {connections}")]
    Connections { most: usize, connections: usize },
    #[error("a read takes 1 to {most} bytes, not {read}")]
    Read { most: usize, read: usize },
    #[error("only streams that go one way, as fast as they can, are polled")]
    Polled,
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
pub(crate) enum ToolError {
    #[error("cannot start {tool} by setpriv (package util-linux): {source}")]
    Start { tool: &'static str, source: io::Error },
    #[error("{tool}: {source}")]
    Client { tool: &'static str, source: ClientError },
    #[error("{tool}: {text}")]
    Reported { tool: &'static str, text: String },
    #[error("{0} ended before its time")]
    Early(&'static str),
    #[error("the server of {0} ended at once")]
    ServerEnded(&'static str),
    #[error("no server of {tool} came to {at}")]
    NoServer { tool: &'static str, at: SocketAddrV4 },
    #[error("iperf3 said what is no report: {0}")]
    NoReport(#[source] serde_json::Error),
    #[error("iperf3 moved nothing")]
    Nothing,
    #[error("sockperf did not say {0}")]
    NoFigure(&'static str),
}

#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("signal {0} ended it")]
    Killed(i32),
    #[error("it did not end in {0:?}")]
    TimedOut(Duration),
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
