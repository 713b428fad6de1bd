//! The laboratory: all measuring and drawing, separate from the service that may run as root. Users start it as
//! `sidecore bench` and `sidecore sim`.
//!
//! |Module|For|
//! |---|---|
//! |`bench`|scenarios; `experiment` alternates variants; `testbed` is a service with clients; `trial` is `sidecore try`|
//! |`net`|a network path: `measure`, `link`, `breakdown`, `tune`, `papers`, `tools`|
//! |`sim`|front of the simulator|
//! |`report`|rows and their exporters: text, Markdown, JSON, HTML, plots; `column` describes each figure|
//! |`baseline`, `ffi`|OpenSSL in the calling process; PKCS#11 modules|
//! |`args`, `interrupt`, `progress`|the command line, the stop of a run, its progress|
//! |`outcome`, `error`|rows and notes of a run with their output; errors|

// The macros panic if writing fails: `output` reports the error.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod baseline;
mod bench;
mod error;
mod ffi;
mod interrupt;
mod net;
mod outcome;
mod progress;
mod report;
mod sim;

use args::{Cli, Command};
use clap::CommandFactory;
use sidecore_report::paths;
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::{arguments, output, programs};
use std::process::ExitCode;

/// Folders of `sidecore`: cargo builds both into one directory; `packaging/install` puts this program in
/// `lib/sidecore`.
const COMMAND: [&str; 2] = [".", "../../bin"];

fn main() -> ExitCode {
    arguments::run(Cli::command, |cli: Cli| run(cli.command), output::print_usage)
}

/// Returns the exit code.
fn run(command: Command) -> Result<u8, String> {
    paths::check(command.files()).map_err(|error| error.to_string())?;
    match command {
        Command::Try(args) => bench::trial::run(&args).map(|()| 0).map_err(|error| error.to_string()),
        Command::Bench(args) => bench::run(&args).map_err(|error| error.to_string()),
        Command::Sim(args) => {
            sim::run(&args).map(|yes| if yes { 0 } else { REFUSED }).map_err(|error| error.to_string())
        }
        Command::Net(args) => net::run(&args).map_err(|error| error.to_string()),
        Command::NetEnd => net::run_end().map(|()| 0).map_err(|error| error.to_string()),
        Command::BenchClient => bench::client::run().map(|()| 0).map_err(|error| error.to_string()),
        Command::Manuals(args) => {
            let all = arguments::shown(Cli::command());
            arguments::write_pages(arguments::visible(&all), &args.directory)?;
            Ok(0)
        }
        Command::Other(arguments) => Err(programs::go_on_as("sidecore", &COMMAND, arguments).to_string()),
    }
}
