//! `sidecore top`: what the service does, who asks for it and where the time goes.
//!
//! It only reads the counter file, so it disturbs nobody, and it also shows the last numbers of a service that ended.

use sidecore::counters::ReadError;
use std::fmt;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

mod live;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod units;

/// Why there is nothing to see. One line, with what to do.
#[derive(Debug)]
pub(crate) enum TopError {
    /// The counter file cannot be read.
    Read(ReadError),
    /// The terminal cannot be used for the live view.
    Terminal(io::Error),
    /// The text cannot be written.
    Output(io::Error),
}

/// Shows the counters of this file until the user quits, with rates over each `interval`. With `once`, and where
/// standard output is no terminal, prints them once as text, with rates over one interval; none: since the start.
///
/// # Errors
/// The file cannot be read, or the terminal or standard output not be used.
pub(crate) fn run(counters: &Path, once: bool, interval: Duration) -> Result<(), TopError> {
    if once || !io::stdout().is_terminal() {
        text::run(counters, interval, &mut io::stdout().lock())
    } else {
        live::run(counters, interval)
    }
}

impl fmt::Display for TopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::Terminal(error) => write!(f, "the terminal cannot show the live view: {error}; use --once"),
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

impl std::error::Error for TopError {}

impl From<ReadError> for TopError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}
