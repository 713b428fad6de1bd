//! The command `sidecore`.
//!
//! |Module|For|
//! |---|---|
//! |`args`, `manuals`|the command line; its manual and completions|
//! |`serve`|runs the service|
//! |`keys`|stored keys: import, generate, list, test, back up|
//! |`set`, `get`, `reload`|settings of a running service|
//! |`others`|commands of the other programs, which root need not run|
//! |`error`|errors and exit codes|
//! |`check`|missing properties of this machine, and errors of a configuration|
//! |`launch`|`sidecore run`: a command with the provider|

// The macros panic if a write fails. `output` reports the error instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod check;
mod error;
mod get;
mod keys;
mod launch;
mod manuals;
mod others;
mod reload;
mod scratch;
mod serve;
mod set;

use args::{Cli, Command};
use clap::CommandFactory;
use error::CliError;
use sidecore_terminal::arguments;
use sidecore_terminal::error::REFUSED;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Without the other program there are no completions for its arguments.
    if let Some(program) = arguments::asked_about(1).and_then(|command| others::program_of(command.to_str()?)) {
        drop(others::complete_as(program));
    }
    arguments::run(Cli::command, |cli: Cli| run(cli.command), others::usage)
}

fn run(command: Command) -> Result<u8, CliError> {
    match command {
        Command::Serve(args) => serve::run(&args)?,
        Command::Keys(args) => return keys::run(args).map(answer),
        Command::Set(args) => set::run(&args)?,
        Command::Get(args) => get::run(&args)?,
        Command::Reload(args) => reload::run(&args)?,
        Command::Check(args) => return check::run(&args).map(answer),
        Command::Run(args) => return launch::run(&args),
        Command::Try(_) => return Err(others::go_on_as(others::TRY).into()),
        Command::Bench(_) | Command::Sim(_) | Command::Net(_) => {
            return Err(others::go_on_as(others::LABORATORY).into());
        }
        Command::Top(_) | Command::Export(_) => return Err(others::go_on_as(others::WATCH).into()),
        Command::Sockets(_) => return Err(others::go_on_as(others::SOCKETS).into()),
        Command::Farm(_) => return Err(others::go_on_as(others::FARM).into()),
        Command::Gateway(_) | Command::KeyServer(_) => return Err(others::go_on_as(others::REMOTE).into()),
        Command::Agent(_) => return Err(others::go_on_as(others::AGENT).into()),
        Command::Manuals(args) => manuals::write(&args.to.directory, args.package.as_deref())?,
    }
    Ok(0)
}

fn answer(yes: bool) -> u8 {
    if yes { 0 } else { REFUSED }
}
