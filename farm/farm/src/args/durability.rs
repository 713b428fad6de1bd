//! Options for the durability of a farm's streams.

use super::error::ArgumentError;
use crate::measures;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// Settings of the farm's streams. Without them an existing farm is used as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Durability (set by the first command of a farm; without these it is used as it is)")]
pub(crate) struct Durability {
    /// Where servers keep events: `file` survives a server's end, `memory` does not. When a server syncs its files to the disk is its own setting, `sync_interval`: two minutes by default [default: file]
    #[arg(long, value_name = "WHERE")]
    pub(crate) storage: Option<Storage>,
    /// On how many servers each event is kept; 3 survive the loss of one [default: 1]
    #[arg(long, value_name = "N", value_parser = replicas)]
    pub(crate) replicas: Option<usize>,
    /// Limit of waiting events, and limit of stored results; servers reserve both [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = measures::size)]
    pub(crate) max_bytes: Option<u64>,
    /// Room for events that are larger than a message of the servers, and as much for such results; without it they are
    /// refused. Objects of events are kept for 7 days [default: none]
    #[arg(long, value_name = "SIZE", value_parser = measures::size)]
    pub(crate) large_bytes: Option<u64>,
    /// How long results are kept, and so how long a second result of one event is recognised [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = measures::age)]
    pub(crate) results_age: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Storage {
    File,
    Memory,
}

/// An odd number: a majority of them must be alive.
fn replicas(text: &str) -> Result<usize, ArgumentError> {
    text.parse().ok().filter(|number| [1, 3, 5].contains(number)).ok_or(ArgumentError::Replicas)
}
