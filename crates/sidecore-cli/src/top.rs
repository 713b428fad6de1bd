//! `sidecore top`: what the service does, who asks for it and where the time goes.
//!
//! It only reads the counter file, so it disturbs nobody, and it also shows the last numbers of a service that ended.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

mod live;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod units;

/// Shows the counters of this file until the user quits, with rates over each `interval`. With `once`, and where
/// standard output is no terminal, prints them once as text, with rates over one interval; none: since the start.
///
/// # Errors
/// One line with what to do: the file cannot be read, or the terminal or standard output not be used.
pub(crate) fn run(counters: &Path, once: bool, interval: Duration) -> Result<(), String> {
    if once || !io::stdout().is_terminal() {
        text::run(counters, interval, &mut io::stdout().lock())
    } else {
        live::run(counters, interval)
    }
}
