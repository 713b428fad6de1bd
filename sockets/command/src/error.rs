//! Errors of the command. Each message is one line with a remedy.

use sidecore_daemon::config::ConfigError;
use sidecore_daemon::sandbox::SandboxError;
use sidecore_daemon::start;
use sidecore_daemon::tenants::SubordinatesError;
use sidecore_sockets::ask::ListError;
use sidecore_sockets_service::StartError;
use sidecore_terminal::error::{Failure, TerminalError, USAGE};
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Exit codes of a shell for a missing command, and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    List(#[from] ListError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{}: {why}", file.display())]
    WouldNotStart { file: PathBuf, why: start::StartError },
    #[error("{}: there is no user {user:?} (sandbox.user): make it, e.g. useradd --system {user}", file.display())]
    NoUser { file: PathBuf, user: String },
    #[error(transparent)]
    Subordinates(#[from] SubordinatesError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the log: {0}")]
    Log(#[source] io::Error),
    #[error("the service: {0}")]
    Service(#[source] io::Error),
    #[error("the service did not start: its log says why")]
    NotStarted(u8),
    #[error(
        "no library for sockets beside this program or in ../lib/sidecore: apt-get install sidecore-sockets, build it with \
         `cargo build --release -p sidecore-preload`, or name it with --preload"
    )]
    NoLibrary,
    #[error("{}: {source}; name libsidecore_preload.so", path.display())]
    Library { path: PathBuf, source: io::Error },
    #[error("{}: LD_PRELOAD holds no path with a colon or a space; move it, and name it with --preload", .0.display())]
    Unlistable(PathBuf),
    #[error("{}: {source}", program.display())]
    Command { program: PathBuf, source: io::Error },
}

impl Failure for CommandError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Command { source, .. } if source.kind() == ErrorKind::NotFound => NOT_FOUND,
            Self::Command { .. } => NOT_EXECUTABLE,
            Self::NotStarted(code) => *code,
            _ => USAGE,
        }
    }
}
