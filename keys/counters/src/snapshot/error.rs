//! Counter files that cannot be read.

use crate::layout::VERSION;
use sidecore_ipc::versions::SIDECORE;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// A counter file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct SnapshotError {
    /// The file.
    pub path: PathBuf,
    /// The reason and the remedy.
    pub why: SnapshotErrorKind,
}

/// Reason why a counter file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotErrorKind {
    /// There is no such file.
    #[error("no such counter file; start `sidecore serve`, or name the socket or configuration it uses")]
    Missing,
    /// Another kind of file.
    #[error("no counter file of sidecore; name the one beside the service's socket")]
    Foreign,
    /// Its parts do not fit each other.
    #[error("the counter file is damaged; restart the service, which makes a new one")]
    Damaged,
    /// Of another version.
    #[error("{}", other_version(*.0))]
    Version(u64),
    /// The system's error.
    #[error("{0}; name a counter file that this user may read")]
    System(io::Error),
}

impl From<io::Error> for SnapshotErrorKind {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            ErrorKind::UnexpectedEof => Self::Damaged,
            _ => Self::System(error),
        }
    }
}

fn other_version(layout: u64) -> String {
    let remedy = if layout < VERSION {
        "the service is older: restart it after an upgrade, this program after a rollback"
    } else {
        "the service is newer: restart this program, or use the service's own version of it"
    };
    format!("counter layout {layout}, this program (sidecore {SIDECORE}) reads {VERSION}; {remedy}")
}
