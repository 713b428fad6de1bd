//! `sidecore farm results`, `sidecore farm result`, `sidecore farm progress` and `sidecore farm cancel`.

use super::error::ArgumentError;
use super::{Farm, name};
use crate::{ids, measures, wire};
use clap::{ArgGroup, Args};
use sidecore_nats::InvalidName;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("where").args(["to", "stdout"]).required(true))]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that is given or not")]
pub(crate) struct Results {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Write each result into this directory, as a file that is called as its event's id
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Write results to standard output, each with its length before it, four bytes, the largest first
    #[arg(long)]
    pub(crate) stdout: bool,
    /// Write each result as a line
    #[arg(long, requires = "stdout")]
    pub(crate) lines: bool,
    /// Write the event's id and a tab before each line
    #[arg(long, requires = "lines")]
    pub(crate) ids: bool,
    /// Wait for further results; without it, end after the stored results
    #[arg(long)]
    pub(crate) follow: bool,
    /// Wait for this number of results, then end
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Leave results in the farm; without it, those that every taker has are removed
    #[arg(long)]
    pub(crate) keep: bool,
    /// Name of the taker: each name gets every result once, and goes on where it was
    #[arg(long, value_name = "TAKER", default_value = "results", value_parser = name)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Outcome {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// The event's id, as `results --ids` and `dead` show it
    #[arg(value_name = "ID", value_parser = id)]
    pub(crate) id: String,
    /// Wait so long for its result, as 60s; without it, not at all
    #[arg(long, value_name = "TIME", value_parser = measures::age)]
    pub(crate) wait: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Progress {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// The name that its feeder was given with --name
    #[arg(value_name = "FEEDER", value_parser = name)]
    pub(crate) batch: String,
    /// The namespace of a feeder with an account of its own
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) namespace: Option<String>,
    /// Wait so long, as 10min, until nothing of it is left; without it, look for a second
    #[arg(long, value_name = "TIME", value_parser = measures::age)]
    pub(crate) wait: Option<Duration>,
    /// As one object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Ids of events, or beginnings of ids with a * behind them
    #[arg(value_name = "ID", value_parser = pattern, required = true)]
    pub(crate) patterns: Vec<String>,
}

/// An id, or the beginning of ids, which may be empty, and a `*`.
fn pattern(text: &str) -> Result<String, ArgumentError> {
    match text.strip_suffix('*') {
        Some("") => Ok(text.to_owned()),
        Some(prefix) => id(prefix).map(|_| text.to_owned()),
        None => id(text),
    }
}

fn id(text: &str) -> Result<String, ArgumentError> {
    ids::is_one(text).then(|| text.to_owned()).ok_or(ArgumentError::Name(InvalidName(wire::ID)))
}
