//! Reasons why a service of keys does not start.

use crate::config::ConfigError;
use crate::keys::StoreError;
use sidecore_daemon::start;
use sidecore_daemon::tenants::SubordinatesError;
use std::io;
use std::path::PathBuf;

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A reason that any service may have: its cores, its place, the system.
    #[error(transparent)]
    Daemon(#[from] start::StartError),
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
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Daemon(error.into())
    }
}
