//! Errors of the parts that the programs share, and the exit code of any error.

use crate::output::USAGE;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;

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
    #[error("cannot write pages to {}: {source}", directory.display())]
    Pages {
        /// Directory of the pages.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A listening socket takes no connections any more.
    #[error("cannot take connections any more: {0}")]
    Accept(#[source] io::Error),
    /// Another program of the command is not installed.
    #[error("no {name} in {places}, seen from this program: `cargo build --release` builds both")]
    NoProgram {
        /// Its file name.
        name: String,
        /// Directories relative to this program's, in words.
        places: String,
    },
    /// A program cannot be started.
    #[error("cannot run {}: {source}", program.display())]
    Run {
        /// Path of the program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Failure for TerminalError {}

impl Failure for String {}

impl From<TerminalError> for String {
    fn from(error: TerminalError) -> Self {
        error.to_string()
    }
}
