//! `sidecore farm feed`.

use super::{Durability, Farm, name};
use crate::measures;
use clap::{ArgGroup, Args, ValueEnum};
use sidecore_nodes::pending::Priority;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").args(["from", "dir", "listen"]))]
pub(crate) struct Feed {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Read this file instead of standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Each file in this directory and those in it is an event, in the order of their names
    #[arg(long, value_name = "DIR", conflicts_with = "lines")]
    pub(crate) dir: Option<PathBuf>,
    /// Take events over TCP at this address, until it is stopped
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Each line is an event; without it, each has its length before it, four bytes, the largest first
    #[arg(long)]
    pub(crate) lines: bool,
    /// Kind of these events: what work is learnt by, and what nodes offer
    #[arg(long, value_name = "KIND", default_value = "event", value_parser = name)]
    pub(crate) kind: String,
    /// From this time after an event was fed its result is worth nothing: what is not done by then is a dead letter. Needs
    /// clocks that agree
    #[arg(long, value_name = "TIME", value_parser = measures::age)]
    pub(crate) deadline: Option<Duration>,
    /// Have events done this time after they were fed, at the earliest. Needs clocks that agree
    #[arg(long, value_name = "TIME", value_parser = measures::age)]
    pub(crate) delay: Option<Duration>,
    /// These events go before all others that wait; of eight that nodes get, one is another. What a node has, it does first
    #[arg(long)]
    pub(crate) urgent: bool,
    /// This feeder's name: with it, one that was stopped goes on where it was when the same source is given again
    #[arg(long, value_name = "FEEDER", value_parser = name)]
    pub(crate) name: Option<String>,
    /// While the farm is full: wait, or drop and count events
    #[arg(long, value_name = "HOW", default_value = "hold")]
    pub(crate) when_full: OverflowPolicy,
    /// Most events that are read and not yet stored
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pub(crate) in_flight: u16,
    /// Most bytes that are read and not yet stored
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = measures::size)]
    pub(crate) in_flight_bytes: u64,
    /// Most TCP connections at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub(crate) connections: u16,
    /// Longest time from an event's first byte over TCP to its last
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = measures::age)]
    pub(crate) event_time: Duration,
    #[command(flatten)]
    pub(crate) durability: Durability,
}

impl Feed {
    pub(crate) fn priority(&self) -> Priority {
        if self.urgent { Priority::Urgent } else { Priority::Normal }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverflowPolicy {
    Hold,
    Shed,
}
