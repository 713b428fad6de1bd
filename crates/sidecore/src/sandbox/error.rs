//! Why a process cannot shut itself in.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a process cannot shut itself in.
#[derive(Debug)]
pub enum SandboxError {
    /// It has so many threads already.
    Threads(usize),
    /// There is no such user.
    NoSuchUser(String),
    /// Only root can become that user.
    NotRoot(String),
    /// A path cannot be used.
    Path(PathBuf, io::Error),
    /// A directory that the service works in is not there and cannot be made.
    Directory(PathBuf, io::Error),
    /// This machine cannot: what, and what to do.
    Unavailable(String),
    /// A system call failed: what it was for.
    System(&'static str, io::Error),
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(threads) => {
                write!(f, "the sandbox is for a process of one thread, this one has {threads}: enter it first")
            }
            Self::NoSuchUser(name) => {
                write!(f, "there is no user {name:?} (sandbox.user): make it, e.g. useradd --system {name}")
            }
            Self::NotRoot(name) => write!(
                f,
                "only root can become {name:?} (sandbox.user): start the service as root or as {name}, or leave it out"
            ),
            Self::Path(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Directory(path, error) => write!(
                f,
                "{}: {error}; start the service as root, or name directories that this user may write, in the configuration; \
                 SIDECORE_SOCKET names a socket where the configuration does not",
                path.display()
            ),
            Self::Unavailable(what) => f.write_str(what),
            Self::System(purpose, error) => write!(f, "cannot {purpose}: {error}"),
        }
    }
}

impl std::error::Error for SandboxError {}
