//! `sidecore farm dispatch`.

use super::{Durability, Farm};
use crate::measures;
use clap::{Args, ValueEnum};
use sidecore_core::policy::balance::Balance;
use sidecore_nodes::DEATHS;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Dispatch {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Which node gets the next event: tokens (a node with credit left), eft, priced, sed or round-robin
    #[arg(long, value_name = "POLICY", default_value = "tokens", value_parser = Balance::parse)]
    pub(crate) balance: Balance,
    /// Whether results are kept in the farm's result stream, or events only acknowledged
    #[arg(long, value_name = "WHERE", default_value = "stream")]
    pub(crate) results: Keep,
    /// How often an event may fail until it becomes a dead letter
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) tries: u8,
    /// How many nodes may die while they have an event until it becomes a dead letter; the last three of them have no other event meanwhile
    #[arg(long, value_name = "N", default_value_t = DEATHS, value_parser = clap::value_parser!(u8).range(4..=100))]
    pub(crate) deaths: u8,
    /// How long an event waits after its first failure, twice as long after each further one, up to 128 times; then it is behind all that wait
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = measures::age)]
    pub(crate) backoff: Duration,
    /// How long an event may take at a node
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = measures::age)]
    pub(crate) time_limit: Duration,
    /// A node that is silent for this time, and for four of its beats of 10 ms, is lost, and its events go to others; 40ms suits processes with cores of their own
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = measures::age)]
    pub(crate) silence: Duration,
    /// Most events held here and at nodes; all others wait in the work queue
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) hold: u32,
    /// Most octets of events and results held here
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = measures::size)]
    pub(crate) hold_bytes: u64,
    #[command(flatten)]
    pub(crate) durability: Durability,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keep {
    /// Committed to the result stream, once for each event
    Stream,
    /// They are not stored
    None,
}
