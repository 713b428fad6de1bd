//! The command line.

use clap::{Args, Parser, Subcommand};
use sidecore_sockets::protocol;
use sidecore_terminal::arguments::{LogArguments, Manuals};
use std::ffi::OsString;
use std::path::PathBuf;

/// Sends programs' small messages many at a time.
#[derive(Debug, Parser)]
// Users type `sidecore`: help and mistakes show that name.
#[command(version, arg_required_else_help = true, name = "sidecore", bin_name = "sidecore")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Small messages of programs
    Sockets(SocketsArguments),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
}

#[derive(Debug, Args)]
pub(crate) struct SocketsArguments {
    #[command(subcommand)]
    pub(crate) command: Sockets,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sockets {
    /// Run the service of sockets
    Serve(Serve),
    /// Run a program whose small messages go through the service
    Run(Run),
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration; without one, defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The socket; overrides the configuration and `SIDECORE_SOCKETS`
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Read the configuration, say whether a service would start with it, and end
    #[arg(long, conflicts_with = "detach")]
    pub(crate) check: bool,
    /// Serve in a process of its own, and return once it serves, with its process id on standard output
    #[arg(long)]
    pub(crate) detach: bool,
    /// Standard input is the other end of a process that detached this one
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The library that sends through rings; default: next to this program or in ../lib/sidecore
    #[arg(long, value_name = "FILE")]
    pub(crate) preload: Option<PathBuf>,
    /// The socket of the service
    #[arg(long, value_name = "PATH", env = protocol::SOCKET_VARIABLE, default_value = protocol::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
