//! `sidecore farm try` and `sidecore farm bench`: the farm's main job in one command, and measurements against NATS alone.

use clap::{Args, Subcommand, ValueEnum};
use sidecore::core::time::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

/// Longest run, seconds: a day.
const MAX_RUN_SECONDS: u64 = 86_400;

#[derive(Debug, Args)]
pub(crate) struct Farm {
    #[command(subcommand)]
    pub(crate) command: FarmCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FarmCommand {
    /// Show the farm's main job in half a minute: a server, a feeder and 16 unequal nodes; some nodes are killed
    Try(Try),
    /// Measure the farm, and NATS alone
    Bench(Bench),
    /// A node of the bench's baseline
    #[command(hide = true)]
    Pull(Pull),
}

#[derive(Debug, Args)]
pub(crate) struct Try {
    /// A few seconds instead of half a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// How long events come while processes are killed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RUN_SECONDS))]
    pub(crate) seconds: Option<u64>,
    /// Processes to kill with kill -9, again and again; several, with commas between
    #[arg(long, value_name = "WHOM", value_delimiter = ',', default_value = "node")]
    pub(crate) kill: Vec<Victim>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// Scenarios to measure; default: all
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<Scenario>,
    /// Short runs, each once
    #[arg(long)]
    pub(crate) quick: bool,
    /// Seconds that `kills` runs; default: 600, or 10 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RUN_SECONDS))]
    pub(crate) seconds: Option<u64>,
    #[command(flatten)]
    pub(crate) also: Also,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Processes that `kills` kills in addition to nodes.
#[derive(Debug, Args)]
pub(crate) struct Also {
    /// Let `kills` kill the feeder as well, each minute
    #[arg(long)]
    pub(crate) feeder: bool,
    /// The active dispatcher as well, each minute
    #[arg(long)]
    pub(crate) dispatcher: bool,
    /// The server as well, each minute
    #[arg(long)]
    pub(crate) server: bool,
}

/// Options of both commands.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Write rows to a file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The nats-server to start; without it the one on the path or in go/bin
    #[arg(long, value_name = "FILE")]
    pub(crate) nats_server: Option<PathBuf>,
    /// Of sizes, times and kills
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// A process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Victim {
    Node,
    Feeder,
    Dispatcher,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// 16 unequal nodes with enough to do: share of the sum of their rates, by policy and by pull consumers
    Share,
    /// The same nodes at 0.8 of their capacity: time of an event
    Tail,
    /// 1 KiB events without work through one node, compared with bare JetStream
    Rate,
    /// A node killed each second
    Kills,
}

/// A node of the baseline, which `bench` starts.
#[derive(Debug, Args)]
pub(crate) struct Pull {
    #[arg(long)]
    pub(crate) server: String,
    /// How many messages it may have at a time
    #[arg(long)]
    pub(crate) in_flight: usize,
    /// Time of a unit of work
    #[arg(long, value_parser = duration)]
    pub(crate) sleep: Duration,
    /// After this number of messages, print the times of the first and the last, and end
    #[arg(long)]
    pub(crate) count: Option<u64>,
    /// Acknowledge without storing a result
    #[arg(long)]
    pub(crate) no_results: bool,
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text).map(Duration::from_nanos).ok_or("a time is e.g. 200us or 1ms")
}
