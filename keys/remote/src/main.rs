//! Remote keys: a service's requests for keys that services on other machines hold. Users start it as `sidecore gateway`
//! beside the service that needs the keys, and as `sidecore key-server` beside one that has them.
//!
//! |Module|For|
//! |---|---|
//! |`gateway`|the process of the service that needs keys|
//! |`router`|its decisions: the choice of a machine, and the requests of a lost one|
//! |`server`|the process of a service that holds keys|
//! |`subjects`, `wire`|subjects and messages between the two over NATS|
//! |`notes`|lines of the log, at a bounded rate|
//! |`sys`|waiting for the service|
//! |`args`, `error`|the command line; errors|

// The macros panic if a write fails. `output` reports the error instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod error;
mod gateway;
mod notes;
mod router;
mod server;
mod subjects;
mod sys;
mod wire;

use args::{Cli, Command};
use clap::CommandFactory;
use error::RemoteError;
use notes::{Notes, Reason};
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use sidecore_terminal::output::tell;
use sidecore_terminal::{arguments, output};
use std::process::ExitCode;

const BEAT: Nanos = 10_000_000;
const DEPTH: u32 = 1024;
/// Bytes of a NATS message that are reserved for fields around its requests or answers.
const HEADROOM: usize = 1024;

const EXAMPLES: [(&str, &str); 2] = [
    ("sidecore gateway --device far", "For the device of that name in the configuration of the service here."),
    (
        "sidecore key-server --farm keys",
        "For gateways of the farm keys; the far service says which of its keys they get.",
    ),
];

fn main() -> ExitCode {
    arguments::run(typed, |cli: Cli| run(cli.command), output::print_usage)
}

/// The line that a shell asks to complete. Both words follow `farm`, too.
fn typed() -> clap::Command {
    if arguments::asked_about(1).is_some_and(|word| word == "farm") {
        return clap::Command::new(arguments::NAME).subcommand(Cli::command().name("farm"));
    }
    Cli::command()
}

fn run(command: Command) -> Result<u8, RemoteError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(RemoteError::system("cannot start"))?;
    let code = runtime.block_on(async {
        match command {
            Command::Gateway(args) => gateway::run(&args).await,
            Command::KeyServer(args) => server::run(&args).await,
            Command::Manuals(args) => {
                let all = arguments::shown(Cli::command());
                arguments::write_pages(arguments::visible(&all), &EXAMPLES, &args.directory)?;
                Ok(0)
            }
        }
    });
    // A thread that waits for a service may wait for long.
    runtime.shutdown_background();
    code
}

async fn tell_what_is_denied() {
    let mut notes = Notes::new();
    loop {
        let said = sidecore_nats::denied().await;
        let now = clock::now();
        notes.note(now, "", Reason::Denied, denial(&said));
        notes.take(now).into_iter().for_each(tell);
    }
}

fn denial(said: &str) -> String {
    format!("NATS says: {said}; see the permissions in docs/remote-keys.md")
}

fn another_version(who: &str, version: u8) -> String {
    let own = wire::VERSION;
    format!(
        "the {who} speaks version {version} of the protocol, this program {own}: install the same version of sidecore on both machines"
    )
}

/// Name of this process in the farm: the given one, or the machine's name with each letter that subjects forbid
/// replaced.
fn own_name(given: Option<&str>) -> String {
    let host = rustix::system::uname();
    let name = given.map_or_else(|| host.nodename().to_string_lossy(), Into::into);
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    let name: String = name.chars().map(plain).take(sidecore_nats::MAX_NAME_BYTES).collect();
    if name.is_empty() { "nameless".to_owned() } else { name }
}

/// A number that is unique among processes and over time.
fn fresh() -> Result<u64, RemoteError> {
    let mut bytes = [0; 8];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match got {
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        _ => Err(RemoteError::NoRandom),
    }
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
