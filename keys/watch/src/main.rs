//! Views of the service: `sidecore top` and `sidecore export`. A program of its own, so that the program that has keys
//! draws nothing and speaks no HTTP.
//!
//! |Module|For|
//! |---|---|
//! |`args`, `error`|the command line; errors and exit codes|
//! |`top`|live view of a service|
//! |`export`|metrics for Prometheus|

// The macros panic if a write fails. `output` reports the error instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod error;
mod export;
mod top;

use args::{Cli, Command};
use clap::CommandFactory;
use error::WatchError;
use sidecore_terminal::{arguments, output};
use std::process::ExitCode;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);

const EXAMPLES: [(&str, &str); 3] = [
    ("sidecore top", "Live, until q."),
    ("sidecore top --once", "All tables as text, with the rates of one second."),
    ("sidecore export --listen 127.0.0.1:9787", "Metrics at /metrics for Prometheus."),
];

fn main() -> ExitCode {
    arguments::run(Cli::command, |cli: Cli| run(cli.command), output::print_usage)
}

fn run(command: Command) -> Result<u8, WatchError> {
    match command {
        Command::Top(args) => top::run(&args, INTERVAL)?,
        Command::Export(args) => export::run(&args)?,
        Command::Manuals(args) => {
            let all = arguments::shown(Cli::command());
            arguments::write_pages(arguments::visible(&all), &EXAMPLES, &args.directory)?;
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn examples_are_lines_that_the_program_takes() {
        for (line, _) in EXAMPLES {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
