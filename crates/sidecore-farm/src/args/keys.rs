//! The command line of gateways and key servers.

use super::error::ArgumentError;
use super::{Farm, name};
use clap::Args;
use sidecore_core::policy::balance::Balance;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Gateway {
    // The service's configuration names the device's farm.
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// The remote device of the service's configuration
    #[arg(long, value_name = "NAME")]
    pub(crate) device: String,
    /// The service's socket
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore_client::environment::DEFAULT_SOCKET)]
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
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore_client::environment::DEFAULT_SOCKET)]
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

fn permit(text: &str) -> Result<Permit, ArgumentError> {
    let (gateway, key) = text.split_once(':').map_or((None, text), |(gateway, key)| (Some(gateway), key));
    Ok(Permit { gateway: gateway.map(name).transpose()?, key: key.to_owned() })
}
