//! The command `sidecore`.

// The macros panic where nothing can be written: `output` says so instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod baseline;
mod bench;
mod check;
mod export;
mod ffi;
mod keys;
mod launch;
mod machine;
mod output;
mod progress;
mod report;
mod serve;
mod set;
mod sim;
mod top;
mod users;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;

/// How often the live view looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Exit codes beside 0: the answer is no, and usage or environment. See the README.
const NO: u8 = 1;
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let done = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        // Help, version, or what is wrong with the arguments.
        Err(usage) => output::print_usage(&usage).map(|()| if usage.use_stderr() { USAGE } else { 0 }),
    };
    ExitCode::from(done.unwrap_or_else(|message| {
        output::tell(message);
        USAGE
    }))
}

/// The exit code.
fn run(command: Command) -> Result<u8, String> {
    let done: Result<(), String> = match command {
        Command::Serve(args) => serve::run(&args),
        Command::Keys(args) => keys::run(args),
        Command::Set(args) => set::run(&args),
        Command::Top(args) => top::run(&args.counters.path(), args.once, INTERVAL),
        Command::Export(args) => export::run(&args),
        Command::Bench(args) => bench::run(&args).map_err(|error| error.to_string()),
        Command::Sim(args) => return sim::run(&args).map(answer),
        Command::Check(args) => return check::run(&args).map(answer),
        Command::Run(args) => return launch::run(&args),
        Command::BenchClient => bench::client::run().map_err(|error| error.to_string()),
    };
    done.map(|()| 0)
}

/// The exit code of an answer.
fn answer(yes: bool) -> u8 {
    if yes { 0 } else { NO }
}
