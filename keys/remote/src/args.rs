//! The command line.

use clap::{Args, Parser, Subcommand};
use sidecore_core::policy::balance::Balance;
use sidecore_nats::{Farm, InvalidName, name};
use sidecore_terminal::arguments::Manuals;
use std::path::PathBuf;

/// Lets services use keys that are on other machines.
#[derive(Debug, Parser)]
// Users type `sidecore`: help and mistakes show that name.
#[command(version, arg_required_else_help = true, name = "sidecore", bin_name = "sidecore")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Connect a remote device of the service on this machine with key servers on others
    Gateway(Gateway),
    /// Let gateways on other machines use keys of the service on this machine
    KeyServer(KeyServer),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
}

#[derive(Debug, Args)]
pub(crate) struct Gateway {
    // The service's configuration names the device's farm.
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// The remote device of the service's configuration
    #[arg(long, value_name = "NAME")]
    pub(crate) device: String,
    /// The service's socket
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore_ipc::environment::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
    /// This gateway's name in NATS's subjects; default: the machine's name
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Choice of the key server: tokens, eft, priced, sed or round-robin
    #[arg(long, value_name = "RULE", default_value = "tokens", value_parser = Balance::parse)]
    pub(crate) balance: Balance,
    /// A key server that is silent for this number of milliseconds, and for four round trips to it (500 ms at most), is lost
    #[arg(long, value_name = "MS", default_value_t = 40, value_parser = clap::value_parser!(u64).range(20..=60_000))]
    pub(crate) silence: u64,
}

#[derive(Debug, Args)]
pub(crate) struct KeyServer {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// The socket of the service that holds the keys
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore_ipc::environment::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
    /// This key server's name in NATS's subjects; default: the machine's name
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Offer these keys only; needed where this user may use keys but not list them. `GATEWAY:KEY` is for that gateway alone,
    /// and others do not learn of it
    #[arg(long, value_name = "KEY", num_args = 1.., value_parser = permit)]
    pub(crate) allow: Vec<Permit>,
    /// Requests at a time; default: twice the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) jobs: Option<u16>,
}

/// A key, and the gateway that may use it; `None`: each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    pub(crate) gateway: Option<String>,
    pub(crate) key: String,
}

fn permit(text: &str) -> Result<Permit, InvalidName> {
    let (gateway, key) = text.split_once(':').map_or((None, text), |(gateway, key)| (Some(gateway), key));
    Ok(Permit { gateway: gateway.map(name).transpose()?, key: key.to_owned() })
}
