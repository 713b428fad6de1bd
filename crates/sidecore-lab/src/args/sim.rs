//! Arguments of `sidecore sim`.

use super::number::{above_0, percent};
use clap::{Args, Subcommand};
use sidecore_sim::estimate::{Effort, MAX_RUNS};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Sim {
    #[command(subcommand)]
    pub(crate) command: Option<SimCommand>,
    #[command(flatten)]
    pub(crate) plans: Plans,
}

#[derive(Debug, Args)]
pub(crate) struct Plans {
    /// Plans to run, e.g. plans/zvm.toml
    #[arg(value_name = "PLAN")]
    pub(crate) files: Vec<PathBuf>,
    /// Set a parameter, as in threads=4
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Run the plan at the cells of a published table (.csv) or at the rows of a bench (.json), and show both
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,
    /// List the parameters with value, unit, origin and meaning, and run nothing
    #[arg(long)]
    pub(crate) parameters: bool,
    /// Move each parameter by a tenth; show which of them matter, and with --compare which the table determines
    #[arg(long, conflicts_with = "parameters")]
    pub(crate) sensitivity: bool,
    /// Title of the Markdown page
    #[arg(long, value_name = "TEXT", default_value = "sidecore sim")]
    pub(crate) title: String,
    #[command(flatten)]
    pub(crate) effort: Sureness,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Defaults: most runs of a case, and the wanted precision, percent.
const RUNS: u32 = 12;
const PERCENT: f64 = 1.0;

/// The wanted precision of simulated figures.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Sureness {
    /// Seed of everything random; further runs of a case have the seeds behind it
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Most runs of each case, with a seed each; with one, figures have no interval
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RUNS)))]
    seeds: u32,
    /// Wanted precision, in percent: half of a figure's 95 % interval, after which its case is not run again
    #[arg(long, value_name = "PERCENT", default_value_t = PERCENT, value_parser = percent)]
    precision: f64,
}

impl Sureness {
    pub(crate) fn effort(&self) -> Effort {
        Effort { seed: self.seed, runs: self.seeds, precision: self.precision / 100.0 }
    }

    /// The arguments in words; defaults are omitted.
    pub(crate) fn arguments(&self) -> String {
        let Self { seed, seeds, precision } = self;
        let runs = if *seeds == RUNS { String::new() } else { format!(" --seeds {seeds}") };
        let usual = precision.total_cmp(&PERCENT).is_eq();
        let precision = if usual { String::new() } else { format!(" --precision {precision}") };
        format!("--seed {seed}{runs}{precision}")
    }
}

#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Write rows as JSON, one object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write tables as Markdown, with plots as SVG files in the same folder
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Balance policies on random pools of devices, against the best of them
    Bakeoff {
        /// Number of random pools
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
        seeds: u64,
        /// Most requests that a device holds at a time; several, with commas between; without it any number
        #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
        depth: Vec<u32>,
        /// Number of simultaneous additional requests after a fifth of each run
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=5000))]
        burst: u32,
        #[command(flatten)]
        output: Output,
    },
    /// An earlier command, refused with the name of the test in its place
    #[command(hide = true, disable_help_flag = true)]
    Waiting(Removed),
    /// Fill of batches and times of requests in them, on known devices or on a device with these times
    Gather(Gathering),
    /// An earlier command, refused with the name of the test in its place
    #[command(hide = true, disable_help_flag = true)]
    Faults(Removed),
    /// Go through a recorded run of the service again, and compare each decision; with --devices, --like, --depth or
    /// --balance its requests come once more, to other devices
    Replay(Replay),
    /// Find the cheapest hardware and policies that keep the 99th percentile under a bound at a load
    Choose(Choose),
    /// Find parameters that bring plans close to published tables, and how well the tables determine them
    Fit(Fit),
    /// Speed of the simulator on this machine: events a second
    Speed,
}

#[derive(Debug, Args)]
pub(crate) struct Removed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// A record that a service with `record = "FILE"` wrote
    pub(crate) file: PathBuf,
    /// Number of devices instead of the recorded ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) devices: Option<u32>,
    /// All devices like the recorded device of this number; by default like the busiest one
    #[arg(long, value_name = "NUMBER")]
    pub(crate) like: Option<usize>,
    /// Most requests that a device holds at a time; without it as recorded
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: Option<u32>,
    /// Balance policy, e.g. priced; as recorded by default
    #[arg(long, value_name = "POLICY")]
    pub(crate) balance: Option<String>,
    /// Write the figures as JSON, one object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Choose {
    /// The plan; its [choose] section names the choices, and its variants are tried too
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Requests a second
    #[arg(long, value_name = "RATE", value_parser = above_0)]
    pub(crate) load: f64,
    /// The bound on the 99th percentile of a request's time, us
    #[arg(long, value_name = "US", value_parser = above_0)]
    pub(crate) p99: f64,
    /// Price of one unit of a parameter or metric, as in card.count=300; replaces the plan's; may be repeated
    #[arg(long, value_name = "NAME=PRICE")]
    pub(crate) cost: Vec<String>,
    /// Allowed values of a parameter, separated by commas outside of brackets, as in card.count=1,2,4; in addition to the plan's; may be repeated
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub(crate) over: Vec<String>,
    /// Set a parameter, as in threads=4
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) effort: Sureness,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Fit {
    /// Plans; parameters that several of them take from one file are one
    #[arg(value_name = "PLAN", required = true)]
    pub(crate) plans: Vec<PathBuf>,
    /// Published tables: all of the one plan, or one for each plan in their order
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) to: Vec<PathBuf>,
    /// The parameters to find, separated by commas; by default all of origin "fitted"
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) vary: Vec<String>,
    /// Set a parameter, as in threads=4
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Write the found values as a parameter file; a plan includes it after its other files
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) write: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Runs of each case, with a seed each
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seeds: u32,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Gathering {
    /// One request by itself, us
    #[arg(long, value_name = "US", value_parser = above_0, requires = "batch_us")]
    pub(crate) single_us: Option<f64>,
    /// 1 to 8 requests side by side, us each, with commas between; or one time for all of them
    #[arg(long, value_name = "US", value_parser = above_0, value_delimiter = ',', requires = "single_us")]
    pub(crate) batch_us: Vec<f64>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}
