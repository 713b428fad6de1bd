//! What was typed.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Measures this machine and predicts others.
#[derive(Debug, Parser)]
// People type `sidecore`: that is what help and mistakes show.
#[command(version, arg_required_else_help = true, name = "sidecore", bin_name = "sidecore")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure here; starts a service for itself
    Bench(Bench),
    /// Predict hardware that is not here, on the same policy code
    Sim(Sim),
    /// One client process of a measurement
    #[command(hide = true)]
    BenchClient,
    /// What `sidecore` itself does
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// What to measure; all if none is named
    #[arg(value_enum)]
    pub(crate) scenarios: Vec<Scenario>,
    /// Fewer cases and shorter runs: under 30 seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write rows as JSON, one object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write one self-contained page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only these operations in the scenarios crypto, keys and nginx, e.g. aes-256-gcm or rsa-2048-sign; only this traffic in
    /// sockets, e.g. fan-out; a name that no chosen scenario has is refused with the list of those that they have
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) op: Vec<String>,
    /// In the scenario sockets, compare each byte that arrives, in all measurements
    #[arg(long)]
    pub(crate) check: bool,
    /// Where calibrate writes its plan
    #[arg(long, value_name = "FILE", default_value = "machine.toml")]
    pub(crate) plan: PathBuf,
}

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
    /// Title of the Markdown page
    #[arg(long, value_name = "TEXT", default_value = "sidecore sim")]
    pub(crate) title: String,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Write rows as JSON, one object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write tables as Markdown, with plots as SVG files beside it
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Balance policies on random pools of devices, against the best of them
    Bakeoff {
        /// How many random pools
        #[arg(long, value_name = "N", default_value_t = 60)]
        seeds: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Notify policies on gaps of every kind, against the best that was possible
    Waiting {
        /// Seed of everything random
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Random schedules with faults; invariants are checked after each event
    Faults(Faults),
    /// Go through a recorded run of the service again, and compare each decision
    Replay {
        /// What a service with `record = "FILE"` wrote
        file: PathBuf,
    },
    /// How fast the simulator is here: events a second
    Speed,
}

#[derive(Debug, Args)]
pub(crate) struct Faults {
    /// How many runs
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) seeds: u64,
    /// Seed of the first run
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) first: u64,
    /// Put a defect in, to see that it is found
    #[arg(long, value_name = "NAME")]
    pub(crate) sabotage: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// The lane against a bare ping-pong and a bare echo
    Lane,
    /// Operations and sizes against the same library inline and OpenSSL inline
    Crypto,
    /// The table of the OpenBSD Cryptographic Framework's paper on this machine
    Ocf,
    /// Notify policies under load: latency, CPU, stages
    Notify,
    /// Balance policies on devices of unequal speed
    Balance,
    /// More clients and more sidecores
    Scaling,
    /// Private keys through the OpenSSL provider; not among all
    Keys,
    /// TLS handshakes of nginx with its key in a file and in the service; not among all
    Nginx,
    /// Small messages over TCP and UDP, by an unmodified program; not among all
    Sockets,
    /// This machine as a plan for `sidecore sim`; not among all
    Calibrate,
}

impl Scenario {
    /// What runs where none is named.
    pub(crate) const ALL: [Self; 6] = [Self::Lane, Self::Crypto, Self::Ocf, Self::Notify, Self::Balance, Self::Scaling];
}
