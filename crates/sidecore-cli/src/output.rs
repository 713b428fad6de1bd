//! What the command prints, and what it says on standard error.
//!
//! Standard output may be a pipe whose reader is gone or a file on a full disk, and so may standard error. Neither ends
//! the program in the middle of something: the first is told, the second is nobody's to hear.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Exit code of usage or environment; see the README.
const USAGE: u8 = 2;

/// Prints text. A reader that has closed the pipe has seen enough: that is no failure.
///
/// # Errors
/// It could not be written: says why.
pub(crate) fn print(text: &str) -> Result<(), String> {
    unless_closed(written(text))
}

/// Prints text, also for those who must know that nobody took it.
///
/// # Errors
/// It could not be written, be it that the reader has closed the pipe.
pub(crate) fn written(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints help, version, or on standard error what is wrong with the arguments. The exit code.
///
/// # Errors
/// As for [`print`].
pub(crate) fn print_usage(usage: &clap::Error) -> Result<u8, String> {
    let code = if usage.use_stderr() { USAGE } else { 0 };
    unless_closed(usage.print().and_then(|()| io::stdout().flush())).map(|()| code)
}

/// How a program ends that has come to this; what went wrong is said.
pub(crate) fn exit_code(done: Result<u8, String>) -> ExitCode {
    ExitCode::from(done.unwrap_or_else(|message| {
        tell(message);
        USAGE
    }))
}

/// Says something on standard error, where somebody listens.
pub(crate) fn tell(message: impl Display) {
    // There is no third place to say that this failed.
    let _ = writeln!(io::stderr().lock(), "sidecore: {message}");
}

fn unless_closed(written: io::Result<()>) -> Result<(), String> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| format!("cannot write to standard output: {error}")),
    }
}
