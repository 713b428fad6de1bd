//! The command `sidecore`.

mod args;
mod baseline;
mod bench;
mod ffi;
mod machine;
mod progress;
mod report;
mod serve;
mod set;
mod top;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;

/// How often the live view looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Usage or environment: see the README for all exit codes.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let result: Result<(), String> = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Top(args) => top::run(&args.counters_path(), args.once, INTERVAL).map_err(|error| error.to_string()),
        Command::Bench(args) => bench::run(&args).map_err(|error| error.to_string()),
        Command::BenchClient => bench::client::run().map_err(|error| error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("sidecore: {message}");
            ExitCode::from(USAGE)
        }
    }
}
