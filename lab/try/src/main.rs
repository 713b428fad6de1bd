//! `sidecore try`: the main use of sidecore. A program of its own, which is built in little time: it is the first one
//! that a newcomer runs.

// The macros panic if writing fails: `output` reports the error.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod error;
mod trial;

use clap::{CommandFactory, Parser, Subcommand};
use error::TryError;
use sidecore_measure::files::Files;
use sidecore_report::paths;
use sidecore_terminal::arguments::{self, Manuals};
use sidecore_terminal::{output, programs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Directories of `sidecore`: cargo builds both into one; `packaging/install` puts this program in `lib/sidecore`.
const COMMAND: [&str; 2] = [".", "../../bin"];

const EXAMPLES: [(&str, &str); 1] =
    [("sidecore try --html page.html", "The main job in half a minute, with a page of its figures.")];

/// Shows what sidecore does.
#[derive(Debug, Parser)]
// Users type `sidecore`: that is what help and mistakes show.
#[command(version, arg_required_else_help = true, name = "sidecore", bin_name = "sidecore")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The main job in half a minute: a key moves out of a TLS server into a service; needs no root and no set-up
    Try(Files),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
    /// The command of `sidecore` itself
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

fn main() -> ExitCode {
    arguments::run(Cli::command, |cli: Cli| run(cli.command), output::print_usage)
}

fn run(command: Command) -> Result<u8, TryError> {
    match command {
        Command::Try(files) => {
            paths::check(files.named())?;
            trial::run(&files)?;
        }
        Command::Manuals(args) => {
            let all = arguments::shown(Cli::command());
            arguments::write_pages(arguments::visible(&all), &EXAMPLES, &args.directory)?;
        }
        Command::Other(arguments) => return Err(programs::go_on_as("sidecore", &COMMAND, arguments).into()),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_lines_that_the_program_takes() {
        for (line, _) in EXAMPLES {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
