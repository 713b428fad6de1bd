//! Why a counter file could not be read, and what to do.

use crate::counters::layout::VERSION;
use std::fmt;
use std::path::PathBuf;

/// One line: which file, what is wrong, what to do.
#[derive(Debug)]
pub struct ReadError {
    pub(super) path: PathBuf,
    pub(super) reason: ReadReason,
}

/// What is wrong with a counter file.
#[derive(Debug)]
pub enum ReadReason {
    /// There is none: no service ran, or it uses another socket.
    Missing,
    /// The operating system refuses to read it.
    Unreadable(std::io::Error),
    /// Something else, not written by this program.
    Foreign,
    /// Written by a version with this number of layout.
    Version(u64),
    /// Shorter than it says, or it says what cannot be.
    Damaged,
}

impl ReadError {
    /// What is wrong.
    pub fn reason(&self) -> &ReadReason {
        &self.reason
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.reason {
            ReadReason::Missing => {
                f.write_str("no such counter file; start `sidecore serve`, or name the socket or configuration it uses")
            }
            ReadReason::Unreadable(error) => write!(f, "{error}; name a counter file that this user may read"),
            ReadReason::Foreign => f.write_str("no counter file of sidecore; name the one beside the service's socket"),
            ReadReason::Version(found) => {
                write!(f, "counter layout {found}, this program reads {VERSION}; use the service's own version of it")
            }
            ReadReason::Damaged => {
                f.write_str("the counter file is damaged; restart the service, which makes a new one")
            }
        }
    }
}

impl std::error::Error for ReadError {}
