//! Commands that are other programs: root need not run them, and this program has less behind it.

use sidecore_terminal::error::TerminalError;
use sidecore_terminal::{output, programs};
use std::env;
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

/// Programs with their commands.
pub(crate) const PROGRAMS: [(&str, &[&str]); 7] = [
    (TRY, &["try"]),
    (LABORATORY, &["bench", "sim", "net"]),
    (WATCH, &["top", "export"]),
    (SOCKETS, &["sockets"]),
    (FARM, &["farm"]),
    (REMOTE, &["gateway", "key-server"]),
    (AGENT, &["agent"]),
];

/// The program that has this command, if this program has it not.
pub(crate) fn program_of(command: &str) -> Option<&'static str> {
    PROGRAMS.into_iter().find(|(_, commands)| commands.contains(&command)).map(|(program, _)| program)
}

/// Path of that program.
pub(crate) fn find(program: &str) -> Result<PathBuf, TerminalError> {
    programs::find(&[program], &BESIDE).ok_or_else(|| TerminalError::NoProgram(program.to_owned(), BESIDE.join(" or ")))
}

/// Replaces this process by that program, with the same arguments. Returns only on failure.
pub(crate) fn go_on_as(program: &str) -> TerminalError {
    let mut typed: Vec<_> = env::args_os().skip(1).collect();
    // All commands of the farm's program are of the farm, so it is not asked for the word.
    if let Some(word) = typed.iter().position(|word| program == FARM && word == "farm") {
        let help = typed[0] == "help";
        typed.drain(usize::from(help)..=word);
    }
    programs::go_on_as(program, &BESIDE, typed)
}

/// The same for the completion of a command line, which has the whole line behind `--`.
pub(crate) fn complete_as(program: &str) -> TerminalError {
    programs::go_on_as(program, &BESIDE, env::args_os().skip(1))
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
