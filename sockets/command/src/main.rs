//! `sidecore sockets`: the service of sockets, and programs whose small messages go through it. A program of its own, so
//! that neither root nor whoever has keys runs it.
//!
//! |Module|For|
//! |---|---|
//! |`args`, `error`|the command line; errors and exit codes|
//! |`serve`|runs the service|
//! |`run`, `program`|starts a program with the library that sends through rings; what keeps a program from loading it|
//! |`list`, `top`, `export`|paths of programs' sockets; live view of programs; metrics for Prometheus|
//! |`programs`|sums over sockets, for views and metrics|

// The macros panic if a write fails. `output` reports the error instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod error;
mod export;
mod list;
mod program;
mod programs;
mod run;
mod serve;
mod top;

use args::{Cli, Command, Sockets};
use clap::CommandFactory;
use error::CommandError;
use sidecore_terminal::{arguments, output};
use std::process::ExitCode;

const EXAMPLES: [(&str, &str); 5] = [
    ("sidecore sockets serve --config /etc/sidecore/sockets.toml", "The service, until a signal."),
    ("sidecore sockets run -- mosquitto -v", "A program whose small messages go through it."),
    ("sidecore sockets", "The path of each socket, and the reason."),
    ("sidecore sockets top", "Each program, live, until q."),
    ("sidecore sockets export --listen 127.0.0.1:9789", "Metrics at /metrics for Prometheus."),
];

fn main() -> ExitCode {
    arguments::run(Cli::command, |cli: Cli| run(cli.command), output::print_usage)
}

fn run(command: Command) -> Result<u8, CommandError> {
    match command {
        Command::Sockets(args) => match args.command {
            None => list::run(&args.list)?,
            Some(Sockets::Serve(args)) => serve::run(&args)?,
            Some(Sockets::Run(args)) => return Err(run::run(&args)),
            Some(Sockets::Top(args)) => top::run(&args)?,
            Some(Sockets::Export(args)) => export::run(&args)?,
        },
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

    #[test]
    fn options_of_the_list_are_none_of_the_views() {
        for line in ["sidecore sockets --all top", "sidecore sockets --socket here top", "sidecore sockets top --json"]
        {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
