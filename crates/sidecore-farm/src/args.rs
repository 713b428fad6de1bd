//! The command line of `sidecore-farm`.

pub(crate) mod bench;
mod dead;
mod dispatch;
mod durability;
pub(crate) mod error;
mod feed;
mod keys;
mod prune;
mod results;
pub(crate) mod watch;
pub(crate) mod work;

pub(crate) use dead::Dead;
pub(crate) use dispatch::{Dispatch, Keep};
pub(crate) use durability::{Durability, Storage};
pub(crate) use feed::{Feed, OverflowPolicy};
pub(crate) use keys::{Gateway, KeyServer, Permit};
pub(crate) use prune::{Delete, Prune};
pub(crate) use results::{Cancel, Outcome, Progress, Results};

use clap::{Args, Parser, Subcommand};
use error::ArgumentError;
use sidecore_terminal::arguments::Manuals;
use std::path::PathBuf;

/// Hands out events and requests by credit, on NATS.
#[derive(Debug, Parser)]
// The user types `sidecore farm`: help and error messages show that name.
#[command(version, arg_required_else_help = true, name = "sidecore farm", bin_name = "sidecore farm")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Hand the farm's events to its nodes; a second one stands by until the first is gone
    Dispatch(Dispatch),
    /// Read events and have them stored in the farm
    Feed(Feed),
    /// Be a node: do events by a program
    Work(work::Work),
    /// Take results out of the farm
    Results(Results),
    /// Print the result of one event, or why there is none
    Result(Outcome),
    /// Say how much of what a feeder has fed is done
    Progress(Progress),
    /// Cancel events that wait: they become dead letters
    Cancel(Cancel),
    /// List dead events, or feed them once more
    Dead(Dead),
    /// Remove results that every taker has, and say who has not taken the others
    Prune(Prune),
    /// Remove a farm with all that waits in it
    Delete(Delete),
    /// Say how the farm is
    Status(watch::Status),
    /// Watch the farm
    Top(watch::Top),
    /// Give how the farm is to Prometheus, over HTTP
    Export(watch::Export),
    /// Show the farm's main job in half a minute: a server, a feeder and 16 unequal nodes; some nodes are killed
    Try(bench::Try),
    /// Measure the farm, and NATS alone
    Bench(bench::Bench),
    /// A node of the bench's baseline
    #[command(hide = true)]
    Pull(bench::Pull),
    /// Connect a remote device of the service on this machine with key servers on others
    Gateway(Gateway),
    /// Let gateways on other machines use keys of the service on this machine
    KeyServer(KeyServer),
    /// Write the pages of the manual
    #[command(hide = true)]
    Manuals(Manuals),
}

/// Which farm, and how its NATS servers are reached.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_field_names, reason = "fields are called as their options")]
pub(crate) struct Farm {
    /// The farm's name: letters, digits, - and _
    #[arg(long, value_name = "NAME", default_value = "farm", value_parser = name)]
    pub(crate) farm: String,
    /// NATS servers, e.g. `nats://one:4222` or `tls://two:4222`
    #[arg(long, value_name = "URL", env = "NATS_URL", value_delimiter = ',', default_value = "nats://127.0.0.1:4222")]
    pub(crate) server: Vec<String>,
    /// Credentials of a NATS account, as nsc writes them
    #[arg(long, value_name = "FILE", env = "NATS_CREDS")]
    pub(crate) creds: Option<PathBuf>,
    /// Certificate of the servers' authority, if the system does not know it
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// A certificate of one's own for the servers
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// Longest name of a farm, bytes.
pub(crate) const MAX_NAME_BYTES: usize = 32;

/// A name that can be part of a subject and of a stream's name.
pub(crate) fn name(text: &str) -> Result<String, ArgumentError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if text.is_empty() || text.len() > MAX_NAME_BYTES || !text.bytes().all(plain) {
        return Err(ArgumentError::Name(MAX_NAME_BYTES));
    }
    Ok(text.to_owned())
}
