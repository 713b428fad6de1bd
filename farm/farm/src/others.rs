//! Words of `sidecore farm` that other programs answer: what measures is in the laboratory, and `sidecore gateway` and
//! `sidecore key-server` were words of the farm.

use sidecore_terminal::error::TerminalError;
use sidecore_terminal::output;
use sidecore_terminal::programs::{self, Other, Row};
use std::env;
use std::ffi::OsString;

/// All programs but `sidecore` itself are in one directory.
const BESIDE: [&str; 1] = ["."];

pub(crate) const REMOTE: &str = "sidecore-remote";
pub(crate) const LABORATORY: &str = "sidecore-lab";

const PROGRAMS: [Row; 2] =
    [(REMOTE, &["gateway", "key-server"], "sidecore"), (LABORATORY, &["try", "bench"], "sidecore-lab")];

/// The program that has this word, if this program has it not.
pub(crate) fn program_of(word: &str) -> Option<&'static str> {
    PROGRAMS.into_iter().find(|(_, words, _)| words.contains(&word)).map(|(program, ..)| program)
}

/// Replaces this process by that program, with the same arguments. Returns only on failure.
pub(crate) fn go_on_as(program: &str) -> TerminalError {
    // The laboratory's own `try` and `bench` are not the farm's.
    let farm = (program == LABORATORY).then(|| OsString::from("farm"));
    replaced_by(program, farm.into_iter().chain(env::args_os().skip(1)))
}

/// The same for the completion of a command line, which has the whole line behind `--`.
pub(crate) fn complete_as(program: &str) -> TerminalError {
    replaced_by(program, env::args_os().skip(1))
}

fn replaced_by(program: &str, arguments: impl IntoIterator<Item = OsString>) -> TerminalError {
    programs::go_on_as(Other::of(program, &PROGRAMS, "sidecore farm"), &BESIDE, arguments)
}

/// Prints usage, or starts the program that has the help for this word. Returns the exit code.
pub(crate) fn usage(usage: &clap::Error) -> Result<u8, TerminalError> {
    let mut typed = env::args_os().skip(1);
    let asks = typed.next().is_some_and(|first| first == "help");
    match typed.next().filter(|_| asks).and_then(|word| program_of(word.to_str()?)) {
        Some(program) => Err(go_on_as(program)),
        None => output::print_usage(usage),
    }
}
