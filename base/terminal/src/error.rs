//! Errors of the parts that the programs share, and the exit code of any error.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Exit code of usage or environment; see docs/errors.md.
pub const USAGE: u8 = 2;
/// Exit code of a refusal or a negative answer.
pub const REFUSED: u8 = 1;

/// An error that ends a program.
pub trait Failure: Display {
    /// 2 for wrong usage or environment, 1 for a refusal.
    fn exit_code(&self) -> u8 {
        USAGE
    }
}

/// A failed output, view, server or start of another program.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// Standard output takes no more text.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    /// This terminal cannot show a view.
    #[error("the terminal cannot show the live view: {0}; use --once")]
    View(#[source] io::Error),
    /// Pages of the manual cannot be written to that directory.
    #[error("cannot write pages to {directory}: {1}", directory = .0.display())]
    Pages(PathBuf, #[source] io::Error),
    /// No socket listens at that address.
    #[error("{0}: {1}; name another address and port of this machine with --listen")]
    Listen(SocketAddr, #[source] io::Error),
    /// A listening socket takes no connections any more.
    #[error("cannot take connections any more: {0}")]
    Accept(#[source] io::Error),
    /// Another program of the command is not where it is looked for.
    #[error(
        "{words} is not installed here: apt-get install {package}, or where cargo built this program, `cargo build --release` builds both"
    )]
    NotInstalled {
        /// What a user types for it, as `sidecore farm`.
        words: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// That program cannot be started.
    #[error("cannot run {program}: {1}", program = .0.display())]
    Run(PathBuf, #[source] io::Error),
}

impl Failure for TerminalError {}
