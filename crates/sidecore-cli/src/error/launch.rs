//! Errors of `sidecore run`.

use sidecore_terminal::error::Failure;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Exit codes of a shell for a missing command, and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("no command: write `sidecore run -- COMMAND`")]
    NoCommand,
    #[error("{}: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error(
        "no provider beside this program or in ../lib/sidecore: build it with `cargo build --release -p sidecore-openssl`, or name it \
         with --module"
    )]
    NoProvider,
    #[error("{}: {source}; name the provider, libsidecore_openssl.so or sidecore.so", path.display())]
    Provider { path: PathBuf, source: io::Error },
    #[error(
        "no library for sockets beside this program or in ../lib/sidecore: build it with `cargo build --release -p sidecore-preload`, \
         or name it with --preload"
    )]
    NoPreload,
    #[error("{}: {source}; name libsidecore_preload.so", path.display())]
    Preload { path: PathBuf, source: io::Error },
    #[error("{}: LD_PRELOAD holds no path with a colon or a space; move it, and name it with --preload", .0.display())]
    PreloadPath(PathBuf),
    #[error("no directory for a configuration: {0}")]
    NoScratch(#[source] io::Error),
    #[error("{}: {source}", path.display())]
    Configuration { path: PathBuf, source: io::Error },
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Failure for LaunchError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Start { source, .. } if source.kind() == ErrorKind::NotFound => NOT_FOUND,
            Self::Start { .. } => NOT_EXECUTABLE,
            _ => 2,
        }
    }
}
