//! Reasons why a service does not start.

use crate::config::{ConfigError, SubordinatesError};
use crate::keys::StoreError;
use std::io;
use std::path::PathBuf;

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// This process may not use a core of the configuration.
    #[error("core {cpu} is not here: name one of those that this process may use, {}", listed(allowed))]
    NoSuchCpu {
        /// The core in the configuration.
        cpu: usize,
        /// The cores that the process may use.
        allowed: Vec<usize>,
    },
    /// Another service answers at this socket, or is about to.
    #[error(
        "a service answers at {0} already, or is about to (it has {0}.lock): stop it, or name another socket in the \
         configuration"
    )]
    AlreadyRunning(PathBuf),
    /// The service at this socket is of a version that gives its place to no other.
    #[error("the service at {0} is of an older version and cannot hand over: stop it, then start this one")]
    OlderService(PathBuf),
    /// The service at this socket does not give its place to this one.
    #[error("the service at {socket} goes on and does not hand over: {why}")]
    NotHandedOver {
        /// Its socket.
        socket: PathBuf,
        /// The reason, with its remedy where it has one.
        why: String,
    },
    /// The stored keys cannot be opened.
    #[error(transparent)]
    Keys(#[from] StoreError),
    /// The subordinate users are not known.
    #[error(transparent)]
    Subordinates(#[from] SubordinatesError),
    /// A path cannot be used.
    #[error(
        "{0}: {1}; name a socket in a directory that this user may write, in the configuration or in SIDECORE_SOCKET"
    )]
    Path(PathBuf, io::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

fn listed(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}
