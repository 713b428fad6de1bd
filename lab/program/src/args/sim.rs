//! Arguments of `sidecore sim`.

use super::number::{above_0, factor, percent};
use clap::{ArgGroup, Args, Subcommand};
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
    /// An earlier option, refused with the name of the command in its place
    #[arg(long, hide = true)]
    pub(crate) parameters: bool,
    /// Move each parameter by a tenth; show which of them matter, and with --compare which the table determines
    #[arg(long)]
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
        /// Times of each pool's quickest device from half of a run on, as a multiple; what follows is judged
        #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
        slow: f64,
        #[command(flatten)]
        output: Output,
    },
    /// An earlier command, refused with the name of the test in its place
    #[command(hide = true, disable_help_flag = true)]
    Waiting(Removed),
    /// An earlier command, refused with the name of the plan in its place
    #[command(hide = true, disable_help_flag = true)]
    Gather(Removed),
    /// An earlier command, refused with the name of the test in its place
    #[command(hide = true, disable_help_flag = true)]
    Faults(Removed),
    /// Go through a recorded run of the service again, and compare each decision; with --devices, --like, --depth or
    /// --balance its requests come once more, to other devices
    Replay(Replay),
    /// Find the cheapest hardware and policies that keep a time within a bound at a load
    Choose(Choose),
    /// List the parameters of a plan or a system with value, unit, origin and meaning, and run nothing
    Explain(Explain),
    /// Write a plan of your own hardware; asks at a terminal for what is not given
    New(New),
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
#[command(group = ArgGroup::new("most").required(true).args(["p99", "bound"]))]
pub(crate) struct Choose {
    /// The plan; its [choose] section names the choices, and its variants are tried too
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// The load, in the unit of the parameter that the plan names: in most plans requests a second
    #[arg(long, value_name = "RATE", value_parser = above_0)]
    pub(crate) load: f64,
    /// The bound on the 99th percentile of a request's time, us
    #[arg(long, value_name = "US", value_parser = above_0)]
    pub(crate) p99: Option<f64>,
    /// The bound on the metric that the plan names, in its unit
    #[arg(long, value_name = "VALUE", value_parser = above_0)]
    pub(crate) bound: Option<f64>,
    /// Most seconds to run; the answer names the combinations that were not tried
    #[arg(long, value_name = "S", default_value_t = SECONDS, value_parser = above_0)]
    pub(crate) seconds: f64,
    /// Price of one unit of a parameter or metric, as in card.count=300; replaces the plan's; may be repeated
    #[arg(long, value_name = "NAME=PRICE")]
    pub(crate) cost: Vec<String>,
    /// Allowed values of a parameter, separated by commas outside of brackets, as in card.count=1,2,4; or a range, as in card.count=0..64 or
    /// 0..64..8; in addition to the plan's; may be repeated
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

/// Default of the longest run of `choose`, s.
const SECONDS: f64 = 60.0;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A plan, or a system: pool, queue, machine, ocf, zvm, pair, farm
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Only this parameter, part or metric
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Set a parameter, as in threads=4
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// The plan to write; a file that exists is not changed
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// The operation, e.g. rsa-2048
    #[arg(long, value_name = "NAME")]
    pub(crate) op: Option<String>,
    /// Its time on a core, us
    #[arg(long, value_name = "US", value_parser = above_0)]
    pub(crate) us: Option<f64>,
    /// Number of cores that do it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(crate) cores: Option<u32>,
    #[arg(
        long,
        value_name = "NAME=VALUE,…",
        help = "A card, as in engines=8,ring=64,latency_us=60,rate_per_s=100000; or none"
    )]
    pub(crate) card: Option<String>,
    #[arg(
        long,
        value_name = "NAME=VALUE,…",
        help = "A device that works in batches, as in batch_max=4096,launch_us=2000,linger_us=500,us=2.5; or none"
    )]
    pub(crate) batch: Option<String>,
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
    /// Write the found values as a parameter file; a plan includes it after its other files. Plans with values of their
    /// own under one name have a file each, FILE-PLAN.toml
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) write: Option<PathBuf>,
    /// Number of starts: the plans' values, and others near them by the seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) starts: u32,
    /// Also fit without each table and without each column, and show the errors of what was left out
    #[arg(long)]
    pub(crate) leave_out: bool,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Runs of each case, with a seed each
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) seeds: u32,
    #[command(flatten)]
    pub(crate) output: Output,
}
