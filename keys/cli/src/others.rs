//! Commands that are other programs: root need not run them, and this program has less behind it.

use sidecore_terminal::error::TerminalError;
use sidecore_terminal::output;
use sidecore_terminal::programs::{self, Other, Row};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// Directories of the other programs: cargo builds all into one, `packaging/install` uses the other.
pub(crate) const BESIDE: [&str; 2] = [".", "../lib/sidecore"];

pub(crate) const TRY: &str = "sidecore-try";
pub(crate) const LABORATORY: &str = "sidecore-lab";
pub(crate) const WATCH: &str = "sidecore-watch";
pub(crate) const SOCKETS: &str = "sidecore-sockets";
pub(crate) const FARM: &str = "sidecore-farm";
pub(crate) const REMOTE: &str = "sidecore-remote";
pub(crate) const AGENT: &str = "sidecore-agent";

/// The Debian package of this program.
pub(crate) const PACKAGE: &str = "sidecore";

/// Programs with their commands, and the Debian package that has the program.
pub(crate) const PROGRAMS: [Row; 7] = [
    (TRY, &["try"], PACKAGE),
    (LABORATORY, &["bench", "sim", "net"], "sidecore-lab"),
    (WATCH, &["top", "export"], PACKAGE),
    (SOCKETS, &["sockets"], "sidecore-sockets"),
    (FARM, &["farm"], "sidecore-farm"),
    (REMOTE, &["gateway", "key-server"], PACKAGE),
    (AGENT, &["agent"], PACKAGE),
];

/// The program that has this command, if this program has it not.
pub(crate) fn program_of(command: &str) -> Option<&'static str> {
    PROGRAMS.into_iter().find(|(_, commands, _)| commands.contains(&command)).map(|(program, ..)| program)
}

/// Path of the program of sockets, for a command that it starts.
pub(crate) fn sockets() -> Result<PathBuf, TerminalError> {
    let words = || "sidecore run --sockets".to_owned();
    programs::find(&[SOCKETS], &BESIDE)
        .ok_or_else(|| TerminalError::NotInstalled { words: words(), package: "sidecore-sockets" })
}

/// Replaces this process by that program, with the same arguments. Returns only on failure.
pub(crate) fn go_on_as(program: &str) -> TerminalError {
    let mut typed: Vec<_> = env::args_os().skip(1).collect();
    // All commands of the farm's program are of the farm, so it is not asked for the word.
    if let Some(word) = typed.iter().position(|word| program == FARM && word == "farm") {
        let help = typed[0] == "help";
        typed.drain(usize::from(help)..=word);
    }
    replaced_by(program, typed)
}

/// The same for the completion of a command line, which has the whole line behind `--`.
pub(crate) fn complete_as(program: &str) -> TerminalError {
    replaced_by(program, env::args_os().skip(1))
}

fn replaced_by(program: &str, arguments: impl IntoIterator<Item = OsString>) -> TerminalError {
    programs::go_on_as(Other::of(program, &PROGRAMS, "sidecore"), &BESIDE, arguments)
}

/// Prints usage, or starts the program that has the help for this command. Returns the exit code.
pub(crate) fn usage(usage: &clap::Error) -> Result<u8, TerminalError> {
    let mut typed = env::args_os().skip(1);
    let asks = typed.next().is_some_and(|first| first == "help");
    match typed.next().filter(|_| asks).and_then(|command| program_of(command.to_str()?)) {
        Some(program) => Err(go_on_as(program)),
        None => output::print_usage(usage),
    }
}
