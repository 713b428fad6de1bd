//! The agent: keys of the sidecore service for OpenSSH, git and other clients of ssh-agent's protocol. Users start
//! it as `sidecore agent`.
//!
//! |Module|For|
//! |---|---|
//! |`args`, `error`|the command line; errors that end the program|
//! |`socket`, `sys`|the socket: made here, or by a service manager|
//! |`serve`, `connections`|one thread for each connection; who may connect, and how many|
//! |`frame`, `wire`|messages on a connection, with limits on size and time; SSH's types|
//! |`answer`|a request and its reply, including the extensions|
//! |`binding`|the SSH sessions of a connection: whether its requests come from another machine|
//! |`services`|the keys, as the services list them|
//! |`public`, `certificates`, `sign`|public keys, certificates and signatures in SSH's form|
//! |`log`|lines on standard error, at a limited rate|

// The macros panic if a write fails. `output` reports the error instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod answer;
mod args;
mod binding;
mod certificates;
mod connections;
mod error;
mod frame;
mod log;
mod public;
mod serve;
mod services;
mod sign;
mod socket;
mod sys;
mod wire;

use args::{Agent, Cli, Command};
use certificates::Certificates;
use clap::CommandFactory;
use connections::Connections;
use error::AgentError;
use log::Log;
use sd_notify::NotifyState;
use serve::Server;
use services::Services;
use sidecore_terminal::{arguments, output};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use socket::Listening;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Requests that have begun at the end of the agent are answered within this time.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

const EXAMPLES: [(&str, &str); 2] = [
    ("sidecore agent --socket /run/user/1000/agent.sock", "For SSH_AUTH_SOCK=/run/user/1000/agent.sock."),
    (
        "sidecore agent --socket /run/hostkeys/agent.sock --keys host-ed25519",
        "One key, as sshd uses it with HostKeyAgent.",
    ),
];

fn main() -> ExitCode {
    arguments::run(Cli::command, |cli: Cli| run(cli.command), output::print_usage)
}

fn run(command: Command) -> Result<u8, AgentError> {
    match command {
        Command::Agent(args) => agent(&args)?,
        Command::Manuals(args) => {
            let all = arguments::shown(Cli::command());
            arguments::write_pages(arguments::visible(&all), &EXAMPLES, &args.directory)?;
        }
    }
    Ok(0)
}

fn agent(args: &Agent) -> Result<(), AgentError> {
    // Before threads start, so that none of them takes the signal.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let services = Services::new(args.options(), args.names()?, Certificates::read(&args.certificate)?);
    let allowed = args.allowed()?;
    let listening = Listening::open(args.socket.as_deref())?;
    let server = Server::start(
        listening.socket()?,
        Server { services, allowed, log: Log::default(), connections: Arc::new(Connections::default()) },
    )?;
    // The manager may be gone, or be none.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    signals.forever().next();
    server.connections.finish(LAST_ANSWERS);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_lines_that_the_program_takes() {
        for (line, _) in EXAMPLES {
            assert!(Cli::command().try_get_matches_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
