//! `sidecore sockets`: the service of sockets, and programs whose small messages go through it. A program of its own, so
//! that neither root nor whoever has keys runs it.
//!
//! |Module|For|
//! |---|---|
//! |`args`, `error`|the command line; errors and exit codes|
//! |`serve`|runs the service|
//! |`run`, `program`|starts a program with the library that sends through rings; what keeps a program from loading it|

// The macros panic if a write fails. `output` reports the error instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod error;
mod program;
mod run;
mod serve;

use args::{Cli, Command};
use clap::CommandFactory;
use error::CommandError;
use sidecore_terminal::{arguments, output};
use std::process::ExitCode;

const EXAMPLES: [(&str, &str); 2] = [
    ("sidecore sockets serve --config /etc/sidecore/sockets.toml", "The service, until a signal."),
    ("sidecore sockets run -- mosquitto -v", "A program whose small messages go through it."),
];

fn main() -> ExitCode {
    arguments::run(Cli::command, |cli: Cli| run(cli.command), output::print_usage)
}

fn run(command: Command) -> Result<u8, CommandError> {
    match command {
        Command::Sockets(args) => match args.command {
            args::Sockets::Serve(args) => serve::run(&args)?,
            args::Sockets::Run(args) => return Err(run::run(&args)),
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
}
