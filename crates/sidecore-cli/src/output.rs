//! What the command prints, and what it says on standard error.
//!
//! Standard output may be a pipe whose reader is gone or a file on a full disk, and so may standard error. Neither ends
//! the program in the middle of something: the first is told, the second is nobody's to hear.

use clap::builder::Resettable;
use clap::error::ErrorKind;
use std::fmt::Display;
use std::io::{self, Write};
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

/// What was typed. A number below zero is a value, also where none can be: the option's own limits say so then. A variable of the
/// environment that is empty is as one that is not set.
///
/// # Errors
/// Help or version was asked for, or what was typed is wrong.
pub(crate) fn parsed<C: clap::Parser>() -> Result<C, clap::Error> {
    let mut command = prepared(C::command());
    let typed = command.try_get_matches_from_mut(std::env::args_os())?;
    C::from_arg_matches(&typed).map_err(|error| error.format(&mut command))
}

fn prepared(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
    let unless_empty = |arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg };
    command.allow_negative_numbers(true).mut_args(unless_empty).mut_subcommands(prepared)
}

/// What the language's own parsers say of a text, and what to write instead.
const WRITE: [(&str, &str); 6] = [
    ("invalid digit found in string", "write a whole number from 0 on"),
    ("cannot parse integer from empty string", "write a whole number from 0 on"),
    ("number too large to fit in target type", "write a smaller whole number"),
    ("number too small to fit in target type", "write a larger whole number"),
    ("invalid float literal", "write a number"),
    ("invalid socket address syntax", "write address and port, e.g. 127.0.0.1:9787"),
];

/// What is wrong with the arguments, in words for people. `None`: it is said so already.
fn in_words(usage: &clap::Error) -> Option<String> {
    let said = usage.render().to_string();
    if let Some((theirs, ours)) = WRITE.into_iter().find(|(theirs, _)| said.contains(theirs)) {
        return Some(said.replace(theirs, ours));
    }
    let (before, range) = said.split_once(" is not in ").filter(|_| usage.kind() == ErrorKind::ValueValidation)?;
    let (range, after) = range.split_once('\n')?;
    let (first, last) = range.split_once("..=").or_else(|| range.split_once(".."))?;
    let (said, _) = before.rsplit_once(": ")?;
    // Numbers of 32 bits and more have no limit that anybody reaches.
    let to = if last.len() < 10 { format!("to {last}") } else { "on".to_owned() };
    Some(format!("{said}: write a whole number from {first} {to}\n{after}"))
}

/// Prints help, version, or on standard error what is wrong with the arguments. The exit code.
///
/// # Errors
/// As for [`print`].
pub(crate) fn print_usage(usage: &clap::Error) -> Result<u8, String> {
    let code = if usage.use_stderr() { USAGE } else { 0 };
    let printed = match in_words(usage) {
        Some(text) => io::stderr().write_all(text.as_bytes()),
        None => usage.print().and_then(|()| io::stdout().flush()),
    };
    unless_closed(printed).map(|()| code)
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
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| format!("cannot write to standard output: {error}")),
    }
}
