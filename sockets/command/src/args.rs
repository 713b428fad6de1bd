//! The command line.

use clap::{Args, Parser, Subcommand};
use sidecore_sockets::protocol;
use sidecore_terminal::arguments::{LogArguments, Manuals};
use std::ffi::OsString;
use std::net::SocketAddr;
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
    /// List the sockets of programs that `run` started: the path of each, and the reason; serve, run, top, export
    Sockets(SocketsArguments),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SocketsArguments {
    #[command(subcommand)]
    pub(crate) command: Option<Sockets>,
    #[command(flatten)]
    pub(crate) list: List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sockets {
    /// Run the service of sockets
    Serve(Serve),
    /// Run a program whose small messages go through the service
    Run(Run),
    /// Watch the programs: their messages, and the CPU time that rings save
    Top(Top),
    /// Give the counts of programs to Prometheus, over HTTP
    Export(Export),
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
    #[command(flatten)]
    pub(crate) service: Service,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print JSON, one object a line for each socket
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a row for each socket, not for the busiest alone
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) service: Service,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print once and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) service: Service,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Address and port to answer at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9789")]
    pub(crate) listen: SocketAddr,
    /// Most names of programs that have metrics of their own; the rest is summed up
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) clients: u32,
    #[command(flatten)]
    pub(crate) service: Service,
}

#[derive(Debug, Args)]
pub(crate) struct Service {
    /// The socket of the service of sockets
    #[arg(long, value_name = "PATH", env = protocol::SOCKET_VARIABLE, default_value = protocol::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
}
