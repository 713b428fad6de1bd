//! The farm: assigns events for programs to nodes on other machines by credit, on NATS. Users start it as `sidecore
//! farm`.
//!
//! |Module|For|
//! |---|---|
//! |`dispatch`|the dispatcher: `queue`, `commits` (each result once), `lead` (one is active), `known` (after reconnects)|
//! |`node`, `work`|a node and its `link`; execution of an event by program, pipe or sleep|
//! |`feed`, `progress`, `results`, `outcome`, `cancel`, `dead`, `streams`|into the queue and out of it, one result or none, dead letters; the streams|
//! |`connect`|connections of the farm's roles to NATS|
//! |`large`|events and results that are larger than a message|
//! |`ids`, `quiet`|ids of events; log lines without repetition|
//! |`error`|the error of all commands|
//! |`sys`|system calls|
//! |`status_watch`, `top`, `export`, `measures`|state of a dispatcher for users and Prometheus|
//! |`args`, `others`|the command line; words that other programs answer|

// The macros panic if a write fails. `output` reports the error instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod cancel;
mod connect;
mod dead;
mod dispatch;
mod error;
mod export;
mod feed;
mod ids;
mod large;
mod measures;
mod node;
mod others;
mod outcome;
mod progress;
mod quiet;
mod removal;
mod results;
mod status_watch;
mod streams;
mod sys;
mod top;
mod work;

pub use sys::alone;
pub use work::sleep::sleep;

use crate::error::FarmError;
use args::{Cli, Command};
use clap::CommandFactory;
use sidecore_assign::{self as assign, status, wire};
use sidecore_terminal::arguments;
use std::process::ExitCode;

const EXAMPLES: [(&str, &str); 10] = [
    ("sidecore farm dispatch", "Assigns events. A second one stands by."),
    ("sidecore farm work --jobs 8 -- gzip -c", "A node: your program for each event."),
    ("sidecore farm feed --lines", "Each line of standard input is an event."),
    ("sidecore farm feed --dir images --kind image --name camera", "Each file is an event."),
    ("sidecore farm progress camera --wait 1h", "Waits until all that the feeder camera has fed is done."),
    ("sidecore farm results --to out --follow", "A file for each result, and further ones as they come."),
    ("sidecore farm dead --again", "Dead letters are fed once more, under their ids."),
    ("sidecore farm cancel camera-17", "This event is not done if it still waits."),
    ("sidecore farm status --json", "One object; exit code 1 without a dispatcher."),
    ("sidecore farm export --listen 127.0.0.1:9788", "Metrics at /metrics for Prometheus."),
];

/// The program `sidecore-farm`: runs the command of this process's arguments. Returns its exit code.
pub fn main() -> ExitCode {
    // Without the other program there are no completions for its arguments.
    if let Some(other) = arguments::asked_about(2).and_then(|word| others::program_of(word.to_str()?)) {
        drop(others::complete_as(other));
    }
    arguments::run(typed, |cli: Cli| run(cli.command), others::usage)
}

fn typed() -> clap::Command {
    clap::Command::new(arguments::NAME).subcommand(Cli::command().name("farm"))
}

fn run(command: Command) -> Result<u8, FarmError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(FarmError::system("cannot start"))?;
    let code = runtime.block_on(async {
        match command {
            Command::Feed(args) => feed::run(args).await,
            Command::Dispatch(args) => dispatch::run(&args).await,
            Command::Work(args) => work::run(args).await,
            Command::Results(args) => results::run(args).await,
            Command::Result(args) => outcome::run(args).await,
            Command::Dead(args) => dead::run(args).await,
            Command::Progress(args) => progress::run(args).await,
            Command::Cancel(args) => cancel::run(args).await,
            Command::Prune(args) => removal::prune(args).await,
            Command::Delete(args) => removal::delete(args).await,
            Command::Status(args) => top::status(&args).await,
            Command::Top(args) => top::top(args).await,
            Command::Export(args) => export::run(&args).await,
            Command::Try(_) | Command::Bench(_) => Err(FarmError::output(others::go_on_as(others::LABORATORY))),
            Command::Gateway(_) | Command::KeyServer(_) => Err(FarmError::output(others::go_on_as(others::REMOTE))),
            Command::Manuals(args) => {
                let all = arguments::shown(Cli::command().display_name("sidecore-farm"));
                arguments::write_pages([&all], &EXAMPLES, &args.directory).map_err(FarmError::output)?;
                Ok(0)
            }
        }
    });
    // A thread that reads standard input may wait forever.
    runtime.shutdown_background();
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_lines_that_the_program_takes() {
        for (line, _) in EXAMPLES {
            assert!(typed().try_get_matches_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
