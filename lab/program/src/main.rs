//! The laboratory: all measuring and drawing, separate from the service that may run as root. Users start it as
//! `sidecore bench` and `sidecore sim`, and the farm's part as `sidecore farm bench`.
//!
//! |Module|For|
//! |---|---|
//! |`bench`|scenarios; `testbed` is a service with clients|
//! |`farm`|the farm and NATS alone; the farm's main job while processes are killed|
//! |`net`|a network path: `measure`, `link`, `breakdown`, `tune`, `papers`, `why`|
//! |`sim`|front of the simulator|
//! |`report`|tests of all rows and pages|
//! |`baseline`, `ffi`|OpenSSL in the calling process; PKCS#11 modules|
//! |`args`|the command line|
//! |`error`|errors of `net`, `sim` and the arguments|

// The macros panic if writing fails: `output` reports the error.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod baseline;
mod bench;
mod error;
mod farm;
mod ffi;
mod net;
mod report;
mod sim;

use args::{Cli, Command};
use bench::error::BenchError;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use error::LabError;
use farm::error::FarmError;
use sidecore_report::paths::{self, PathError};
use sidecore_terminal::error::{Failure, REFUSED, TerminalError};
use sidecore_terminal::{arguments, output, programs};
use std::process::ExitCode;

/// Folders of `sidecore`: cargo builds both into one directory; `packaging/install` puts this program in
/// `lib/sidecore`.
const COMMAND: [&str; 2] = [".", "../../bin"];

const EXAMPLES: [(&str, &str); 10] = [
    ("sidecore farm try", "All parts on this machine; some are killed, and nothing is lost."),
    ("sidecore bench lane crypto", "Two scenarios, with their baselines in the same run."),
    ("sidecore bench keys --quick --json keys.json", "Keys through OpenSSL; rows for other programs."),
    ("sidecore sim plans/zvm.toml --set threads=4", "A published system, varied."),
    ("sidecore net peer", "The other end of a path, for measure, tune and why."),
    ("sidecore net measure --pair --quick", "A path inside this machine."),
    ("sidecore net why 192.0.2.7", "What limits the path to a peer, and what helps."),
    ("sidecore net tune --interface eth0 --peer 192.0.2.7", "Settings that would be tried; nothing is changed."),
    (
        "sidecore net tune --interface eth0 --peer 192.0.2.7 --apply",
        "Finds settings that help, and asks before they stay.",
    ),
    (
        "sidecore net link --delay-us 1000 -- ping -c 3 198.18.0.2",
        "A command at the near end of a link with that delay.",
    ),
];

fn main() -> ExitCode {
    arguments::run(Line::command, |line: Line| run(line.0.command), output::print_usage)
}

struct Line(Cli);

impl CommandFactory for Line {
    fn command() -> clap::Command {
        let words = |scenarios: clap::Arg| scenarios.value_parser(bench::words());
        Cli::command().mut_subcommand("bench", |bench| bench.mut_arg("scenarios", words))
    }

    fn command_for_update() -> clap::Command {
        Self::command()
    }
}

impl FromArgMatches for Line {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Cli::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Parser for Line {}

#[derive(Debug, thiserror::Error)]
enum ProgramError {
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Farm(#[from] FarmError),
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    #[error(transparent)]
    File(#[from] PathError),
}

impl Failure for ProgramError {}

/// Returns the exit code.
fn run(command: Command) -> Result<u8, ProgramError> {
    paths::check(command.files())?;
    let code = match command {
        Command::Bench(args) => bench::run(&args)?,
        Command::Sim(args) => sim::run(&args).map(|yes| if yes { 0 } else { REFUSED })?,
        Command::Net(args) => net::run(&args)?,
        Command::Farm(args) => farm::run(&args.command)?,
        Command::NetEnd => net::run_end().map(|()| 0)?,
        Command::BenchClient => bench::client::run().map(|()| 0).map_err(BenchError::from)?,
        Command::Manuals(args) => {
            let all = arguments::shown(Line::command());
            // The farm's program writes the page of `sidecore farm`.
            let (farm, own): (Vec<_>, Vec<_>) =
                arguments::visible(&all).partition(|command| command.get_name() == "farm");
            let pages = own.into_iter().chain(farm.into_iter().flat_map(arguments::visible));
            arguments::write_pages(pages, &EXAMPLES, &args.directory).map(|()| 0)?
        }
        Command::Other(arguments) => return Err(programs::go_on_as("sidecore", &COMMAND, arguments).into()),
    };
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_lines_that_the_program_takes() {
        for (line, _) in EXAMPLES {
            assert!(Line::command().try_get_matches_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
