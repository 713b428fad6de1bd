//! Errors of these commands. Each message is one line.

use sidecore_terminal::error::{Failure, TerminalError};
use std::error::Error;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Library(Box<dyn Error + Send + Sync>),
    #[error("{}: no heartbeat", .0.display())]
    NoHeartbeat(PathBuf),
    #[error("a service of sockets has a command of its own: `{0}`")]
    OfSockets(&'static str),
    #[error(
        "{counters}: no such counter file, though {socket} is a socket: start `sidecore serve`, or name the file by --counters; \
         for a service of sockets run `sidecore sockets top --socket {socket}`",
        counters = .counters.display(),
        socket = .socket.display()
    )]
    NoCounters { counters: PathBuf, socket: PathBuf },
    #[error("the service ended: these are its last numbers")]
    Ended,
}

impl WatchError {
    pub(crate) fn library(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Library(error.into())
    }
}

impl Failure for WatchError {}
