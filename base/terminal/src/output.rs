//! Standard output, standard error and exit codes.
//!
//! Both outputs may be a pipe without a reader, or a file on a full disk. Neither ends the program halfway: a failure
//! of standard output is an error, one of standard error is ignored.

use crate::error::{Failure, TerminalError, USAGE};
use clap::builder::Resettable;
use clap::error::ErrorKind;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints text. A closed pipe is no failure: its reader has seen enough.
///
/// # Errors
/// The text could not be written.
pub fn print(text: &str) -> Result<(), TerminalError> {
    unless_closed(written(text))
}

/// Prints text. Here a closed pipe is a failure.
///
/// # Errors
/// The text could not be written.
pub fn written(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Parses the arguments. A negative number is a value, so that the option's own limits refuse it. An empty variable of
/// the environment counts as unset.
///
/// # Errors
/// The arguments are wrong, or ask for help or version.
pub fn parsed<C: clap::Parser>() -> Result<C, clap::Error> {
    let mut command = prepared(C::command());
    let typed = command.try_get_matches_from_mut(std::env::args_os())?;
    C::from_arg_matches(&typed).map_err(|error| error.format(&mut command))
}

fn prepared(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    let unless_empty = |arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg };
    command.allow_negative_numbers(true).mut_args(unless_empty).mut_subcommands(prepared)
}

/// Messages of the language's own parsers, and their replacements.
const WRITE: [(&str, &str); 6] = [
    ("invalid digit found in string", "write a whole number from 0 on"),
    ("cannot parse integer from empty string", "write a whole number from 0 on"),
    ("number too large to fit in target type", "write a smaller whole number"),
    ("number too small to fit in target type", "write a larger whole number"),
    ("invalid float literal", "write a number"),
    ("invalid socket address syntax", "write address and port, e.g. 127.0.0.1:9787"),
];

/// A plainer message for wrong arguments. `None`: clap's own will do.
fn in_words(usage: &clap::Error) -> Option<String> {
    let said = usage.render().to_string();
    if let Some((theirs, ours)) = WRITE.into_iter().find(|(theirs, _)| said.contains(theirs)) {
        return Some(said.replace(theirs, ours));
    }
    let (before, range) = said.split_once(" is not in ").filter(|_| usage.kind() == ErrorKind::ValueValidation)?;
    let (range, after) = range.split_once('\n')?;
    let (first, last) = range.split_once("..=").or_else(|| range.split_once(".."))?;
    let (said, _) = before.rsplit_once(": ")?;
    // A limit of 32 bits or more is none in practice.
    let to = if last.len() < 10 { format!("to {last}") } else { "on".to_owned() };
    Some(format!("{said}: write a whole number from {first} {to}\n{after}"))
}

/// Prints help or version, or the mistake on standard error. Returns the exit code.
///
/// # Errors
/// As for [`print`].
pub fn print_usage(usage: &clap::Error) -> Result<u8, TerminalError> {
    let code = if usage.use_stderr() { USAGE } else { 0 };
    let printed = match in_words(usage) {
        Some(text) => io::stderr().write_all(text.as_bytes()),
        None => usage.print().and_then(|()| io::stdout().flush()),
    };
    unless_closed(printed).map(|()| code)
}

/// The exit code of a run. An error is printed first.
pub fn exit_code(done: Result<u8, impl Failure>) -> ExitCode {
    ExitCode::from(done.unwrap_or_else(|error| {
        tell(&error);
        error.exit_code()
    }))
}

/// Prints a line on standard error.
pub fn tell(message: impl Display) {
    // There is no further way to report a failure.
    let _ = writeln!(io::stderr().lock(), "sidecore: {message}");
}

/// No failure if `written` failed at a closed pipe.
///
/// # Errors
/// Any other failure.
pub fn unless_closed(written: io::Result<()>) -> Result<(), TerminalError> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(TerminalError::Output),
    }
}
