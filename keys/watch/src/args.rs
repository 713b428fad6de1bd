//! The command line.

use crate::error::WatchError;
use clap::{Args, Parser, Subcommand};
use sidecore_counters::counters_beside;
use sidecore_ipc::environment::DEFAULT_SOCKET;
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
    /// Watch a running service
    Top(Top),
    /// Give the counters to Prometheus, over HTTP
    Export(Export),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print once and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) counters: CounterFile,
    #[command(flatten)]
    pub(crate) sockets: NamedSockets,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Address and port to answer at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9787")]
    pub(crate) listen: SocketAddr,
    /// Most clients that have metrics of their own; the rest is summed up
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) clients: u32,
    /// Most keys that have metrics of their own; the rest is summed up
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) keys: u32,
    #[command(flatten)]
    pub(crate) counters: CounterFile,
    #[command(flatten)]
    pub(crate) sockets: NamedSockets,
}

/// An option of earlier versions, for a service of sockets.
#[derive(Debug, Args)]
pub(crate) struct NamedSockets {
    #[arg(long, value_name = "PATH", num_args = 0..=1, hide = true)]
    sockets: Option<Vec<PathBuf>>,
}

impl NamedSockets {
    /// Refuses the option, and names the command that has taken its place.
    pub(crate) fn refuse(&self, successor: &'static str) -> Result<(), WatchError> {
        if self.sockets.is_some() { Err(WatchError::OfSockets(successor)) } else { Ok(()) }
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
