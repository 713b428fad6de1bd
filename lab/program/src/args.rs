//! Command-line arguments of the laboratory.

pub(crate) mod farm;
mod goal;
mod net;
mod number;
mod sim;
mod written;

pub(crate) use goal::{Goal, What};
pub(crate) use net::{
    LinkProperties, Net, NetCommand, NetJoint, NetLink, NetMeasure, NetPapers, NetPeer, NetTraffic, NetTune, NetWhere,
    NetWhy, PORT, Paper,
};
pub(crate) use sim::{Choose, Explain, Fit, New, Output, Plans, Replay, Sim, SimCommand};

use clap::{Args, Parser, Subcommand};
use sidecore_measure::files::Files;
use sidecore_terminal::arguments::Manuals;
use std::ffi::OsString;
use std::path::PathBuf;

/// Measures this machine and predicts others.
#[derive(Debug, Parser)]
// People type `sidecore`: that is what help and mistakes show.
#[command(version, arg_required_else_help = true, name = "sidecore", bin_name = "sidecore")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure here; starts a service for itself
    Bench(Bench),
    /// Predict hardware that is not here, on the same policy code
    Sim(Sim),
    /// Take a network path apart; makes its own where none is named
    Net(Net),
    /// Show and measure the farm
    Farm(farm::Farm),
    /// The other end of a network path on this machine
    #[command(hide = true)]
    NetEnd,
    /// One client process of a measurement
    #[command(hide = true)]
    BenchClient,
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
    /// The command of `sidecore` itself
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Scenarios to run; all by default
    // `main` gives it the words.
    pub(crate) scenarios: Vec<String>,
    /// Fewer cases and shorter runs: under 30 seconds
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only these operations in the scenarios crypto, keys, nginx, haproxy, batch and pool, e.g. aes-256-gcm or rsa-2048-sign; only this traffic in
    /// sockets, e.g. fan-out; a name unknown to all chosen scenarios is refused with a list of the known ones
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) op: Vec<String>,
    /// In the scenario sockets, compare each received byte, in all measurements
    #[arg(long)]
    pub(crate) check: bool,
    /// In the scenario balance, requests of several sizes at random times on devices that fill, with a burst
    #[arg(long)]
    pub(crate) mix: bool,
    /// Measure with the running service at this socket, as an ordinary client: lane, crypto and keys
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// File for the plan that calibrate writes
    #[arg(long, value_name = "FILE", default_value = "machine.toml")]
    pub(crate) plan: PathBuf,
}
