//! What was typed.

pub(crate) mod keys;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Moves crypto work off an application's cores.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the service
    Serve(Serve),
    /// The keys that stay in a running service
    Keys(keys::Keys),
    /// Change a running service: notify=POLICY, notify.HOP=POLICY, balance=POLICY, order=fifo|shortest, device={…}, device.NAME=drain|remove|kill
    Set(Set),
    /// Run a program with the OpenSSL provider: keys as `sidecore:NAME` and from the files of `sidecore keys pem`
    Run(Run),
    /// Watch a running service
    Top(Top),
    /// Give the counters to Prometheus, over HTTP
    Export(Export),
    /// Say what this machine lacks for the promises; changes nothing
    Check(Check),
    /// Measure here; starts a service for itself
    Bench(Bench),
    /// Predict hardware that is not here, on the same policy code
    Sim(Sim),
    /// One client process of a measurement
    #[command(hide = true)]
    BenchClient,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration; without one, defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The passphrase of the stored keys, whatever the configuration says
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The provider; without it, the one beside this program or in ../lib/sidecore
    #[arg(long, value_name = "FILE")]
    pub(crate) module: Option<PathBuf>,
    /// The service's socket
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore::config::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Look at the directories of this configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The service's socket, where no configuration names it
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore::config::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// What to change, e.g. notify=park or balance=eft
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The service's socket
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore::config::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print once and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) counters: CounterFile,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Address and port to answer at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9787")]
    pub(crate) listen: SocketAddr,
    /// Most clients that have metrics of their own; the rest is summed up
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) clients: u32,
    /// Most keys that have metrics of their own; the rest is summed up
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(..=1024))]
    pub(crate) keys: u32,
    #[command(flatten)]
    pub(crate) counters: CounterFile,
}

#[derive(Debug, Args)]
pub(crate) struct CounterFile {
    /// The service's socket; its counter file lies beside it
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore::config::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
    /// The counter file, where the configuration names another
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
}

impl CounterFile {
    /// The counter file: the named one, or that of the socket.
    pub(crate) fn path(&self) -> PathBuf {
        self.counters.clone().unwrap_or_else(|| sidecore::config::counters_beside(&self.socket))
    }
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
    /// Only these operations in the scenarios crypto, keys and nginx, e.g. aes-256-gcm or rsa-2048-sign
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) op: Vec<String>,
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
    Bakeoff(Bakeoff),
    /// Notify policies on gaps of every kind, against the best that was possible
    Waiting(Waiting),
    /// Random schedules with faults; invariants are checked after each event
    Faults(Faults),
    /// Go through a recorded run of the service again, and compare each decision
    Replay(Replay),
    /// How fast the simulator is here: events a second
    Speed,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// What a service with `record = "FILE"` wrote
    #[arg(value_name = "FILE")]
    pub(crate) record: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Bakeoff {
    /// How many random pools
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) seeds: u64,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Waiting {
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: Output,
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
    /// This machine as a plan for `sidecore sim`; not among all
    Calibrate,
}

impl Scenario {
    pub(crate) const ALL: [Self; 6] = [Self::Lane, Self::Crypto, Self::Ocf, Self::Notify, Self::Balance, Self::Scaling];
    /// What runs only by its name.
    pub(crate) const BY_NAME: [Self; 2] = [Self::Keys, Self::Nginx];
}
