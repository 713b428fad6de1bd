//! The command `sidecore`.
//!
//! |Module|For|
//! |---|---|
//! |`args`, `manuals`|the command line; its manual and completions|
//! |`serve`, `log`, `users`|runs the service; its log; names of users and groups|
//! |`keys`|stored keys: import, generate, list, test, back up|
//! |`set`, `get`, `reload`|settings of a running service|
//! |`top`, `export`, `sockets`|live view; metrics for Prometheus; paths of sockets|
//! |`error`|errors and exit codes|
//! |`check`|missing properties of this machine, and errors of a configuration|
//! |`launch`|`sidecore run`: a command with the provider or the sockets' library|

// The macros panic if a write fails. `output` reports the error instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod check;
mod error;
mod export;
mod get;
mod keys;
mod launch;
mod log;
mod manuals;
mod reload;
mod serve;
mod set;
mod sockets;
mod top;
mod users;

use args::{Cli, Command};
use clap::CommandFactory;
use error::CliError;
use sidecore_terminal::error::{REFUSED, TerminalError};
use sidecore_terminal::{arguments, output, programs};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Directories of the laboratory, the farm and the agent: cargo builds all programs into one, `packaging/install` uses the other.
const BESIDE: [&str; 2] = [".", "../lib/sidecore"];
const INTERVAL: Duration = Duration::from_secs(1);

const OF_LABORATORY: [&str; 4] = ["try", "bench", "sim", "net"];
const OF_FARM: [&str; 1] = ["farm"];
const OF_AGENT: [&str; 1] = ["agent"];

fn main() -> ExitCode {
    match manuals::asked_about() {
        // Without the program there are no completions for its arguments.
        Some(command) if OF_LABORATORY.iter().any(|own| command == *own) => drop(laboratory()),
        Some(command) if OF_AGENT.iter().any(|own| command == *own) => drop(agent()),
        Some(command) if OF_FARM.iter().any(|own| command == *own) => drop(go_on_as_farm(std::env::args_os().skip(1))),
        _ => {}
    }
    arguments::run(Cli::command, |cli: Cli| run(cli.command), usage)
}

/// Prints usage, or starts the program that has the help for this command. Returns the exit code.
fn usage(usage: &clap::Error) -> Result<u8, TerminalError> {
    if is_help_for(&OF_LABORATORY) {
        return Err(laboratory());
    }
    if is_help_for(&OF_FARM) {
        return Err(farm());
    }
    if is_help_for(&OF_AGENT) {
        return Err(agent());
    }
    output::print_usage(usage)
}

fn run(command: Command) -> Result<u8, CliError> {
    match command {
        Command::Serve(args) => serve::run(&args)?,
        Command::Keys(args) => return keys::run(args).map(answer),
        Command::Sockets(args) => sockets::run(&args)?,
        Command::Set(args) => set::run(&args)?,
        Command::Get(args) => get::run(&args)?,
        Command::Reload(args) => reload::run(&args)?,
        Command::Top(args) => top::run(&args, INTERVAL)?,
        Command::Export(args) => export::run(&args)?,
        Command::Check(args) => return check::run(&args).map(answer),
        Command::Run(args) => return launch::run(&args),
        Command::Try(_) | Command::Bench(_) | Command::Sim(_) | Command::Net(_) => return Err(laboratory().into()),
        Command::Farm(_) => return Err(farm().into()),
        Command::Agent(_) => return Err(agent().into()),
        Command::Manuals(args) => manuals::write(&args.directory)?,
    }
    Ok(0)
}

fn answer(yes: bool) -> u8 {
    if yes { 0 } else { REFUSED }
}

/// Replaces this process by the laboratory, a separate program so that root does not run it. Returns only on failure.
fn laboratory() -> TerminalError {
    programs::go_on_as("sidecore-lab", &BESIDE, std::env::args_os().skip(1))
}

fn agent() -> TerminalError {
    programs::go_on_as("sidecore-agent", &BESIDE, std::env::args_os().skip(1))
}

fn farm() -> TerminalError {
    let typed = || std::env::args_os().skip(1);
    let help = typed().next().filter(|first| first == "help");
    go_on_as_farm(help.into_iter().chain(typed().skip_while(|word| word != "farm").skip(1)))
}

fn go_on_as_farm(arguments: impl IntoIterator<Item = OsString>) -> TerminalError {
    programs::go_on_as("sidecore-farm", &BESIDE, arguments)
}

fn is_help_for(commands: &[&str]) -> bool {
    let mut typed = std::env::args_os().skip(1);
    typed.next().is_some_and(|first| first == "help")
        && typed.next().is_some_and(|of| commands.iter().any(|name| of == *name))
}
