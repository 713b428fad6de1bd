//! The command line.

use clap::{Args, Parser, Subcommand};
use sidecore_counters::counters_beside;
use sidecore_ipc::environment::DEFAULT_SOCKET;
use sidecore_sockets::protocol;
use sidecore_terminal::arguments::Manuals;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Shows what services do.
#[derive(Debug, Parser)]
// Users type `sidecore`: help and mistakes show that name.
#[command(version, arg_required_else_help = true, name = "sidecore", bin_name = "sidecore")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the sockets of programs that `run --sockets` started: the path of each, and the reason
    Sockets(Sockets),
    /// Watch a running service
    Top(Top),
    /// Give the counters to Prometheus, over HTTP
    Export(Export),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
}

#[derive(Debug, Args)]
pub(crate) struct Sockets {
    /// Print JSON, one object a line for each socket
    #[arg(long)]
    pub(crate) json: bool,
    /// Print a row for each socket, not for the busiest alone
    #[arg(long)]
    pub(crate) all: bool,
    /// The socket of the service of sockets
    #[arg(long, value_name = "PATH", env = protocol::SOCKET_VARIABLE, default_value = protocol::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print once and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) counters: CounterFile,
    #[command(flatten)]
    pub(crate) sockets: SocketsService,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Address and port to answer at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9787")]
    pub(crate) listen: SocketAddr,
    /// Most clients, and names of programs with sockets, that have metrics of their own; the rest is summed up
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) clients: u32,
    /// Most keys that have metrics of their own; the rest is summed up
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) keys: u32,
    #[command(flatten)]
    pub(crate) counters: CounterFile,
    #[command(flatten)]
    pub(crate) sockets: SocketsService,
}

#[derive(Debug, Args)]
pub(crate) struct SocketsService {
    /// The service of sockets: at this socket, else where `SIDECORE_SOCKETS` says or at its usual place
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    sockets: Option<Vec<PathBuf>>,
}

impl SocketsService {
    #[cfg(test)]
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self { sockets: Some(vec![socket]) }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.sockets.is_some()
    }

    /// The last socket on the command line, else that of the environment, else the default.
    pub(crate) fn path(&self) -> PathBuf {
        let of_environment = || std::env::var_os(protocol::SOCKET_VARIABLE).filter(|path| !path.is_empty());
        let named = self.sockets.iter().flatten().next_back().cloned().or_else(|| of_environment().map(PathBuf::from));
        named.unwrap_or_else(|| protocol::DEFAULT_SOCKET.into())
    }
}

#[derive(Debug, Args)]
pub(crate) struct CounterFile {
    /// The service's socket; its counter file is in the same directory
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
    /// The counter file, where the configuration names another
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
}

impl CounterFile {
    pub(crate) fn path(&self) -> PathBuf {
        self.counters.clone().unwrap_or_else(|| counters_beside(&self.socket))
    }
}
