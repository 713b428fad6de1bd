//! The command line of `sidecore`.

pub(crate) mod keys;

use clap::{Args, Parser, Subcommand};
use sidecore_terminal::arguments::{HandedOn, LogArguments, Manuals};
use std::ffi::OsString;
use std::path::PathBuf;

/// Moves crypto work off an application's cores.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, name = "sidecore")]
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
    /// Change a running service: notify=POLICY, notify.HOP=POLICY, balance=POLICY, limits.KEY=NUMBER, device={…},
    /// device.NAME=drain|active|remove|kill, record=off
    Set(Set),
    /// Print the settings of a running service, in the notation of `set` and of the configuration
    Get(Get),
    /// Apply a configuration file to a running service, as far as `set` can
    Reload(Reload),
    /// Run a program with the OpenSSL provider: keys as `sidecore:NAME` and from the files of `sidecore keys pem`; with
    /// --sockets its small messages go through the service of sockets
    Run(Run),
    /// Small messages of programs: list their sockets; serve, run, top, export
    #[command(disable_help_flag = true)]
    Sockets(HandedOn),
    /// Watch a running service
    #[command(disable_help_flag = true)]
    Top(HandedOn),
    /// Give the counters to Prometheus, over HTTP
    #[command(disable_help_flag = true)]
    Export(HandedOn),
    /// Report properties that the promises need and this machine lacks; changes nothing
    Check(Check),
    /// The main job in half a minute: a key moves out of a TLS server into a service; needs no root and no set-up
    #[command(disable_help_flag = true)]
    Try(HandedOn),
    /// Measure here; starts a service for itself
    #[command(disable_help_flag = true)]
    Bench(HandedOn),
    /// Predict hardware that is not here, on the same policy code
    #[command(disable_help_flag = true)]
    Sim(HandedOn),
    /// Take a network path apart: goodput, CPU time, packets, latency
    #[command(disable_help_flag = true)]
    Net(HandedOn),
    /// Assign events to nodes on other machines by credit, on NATS
    #[command(disable_help_flag = true)]
    Farm(HandedOn),
    /// Connect a remote device of the service on this machine with key servers on others
    #[command(disable_help_flag = true)]
    Gateway(HandedOn),
    /// Let gateways on other machines use keys of the service on this machine
    #[command(disable_help_flag = true)]
    KeyServer(HandedOn),
    /// Let OpenSSH, git and others sign with keys of the service, by ssh-agent's protocol
    #[command(disable_help_flag = true)]
    Agent(HandedOn),
    /// Write the pages of the manual, and completions for bash, zsh and fish
    #[command(hide = true)]
    Manuals(AllManuals),
}

#[derive(Debug, Args)]
pub(crate) struct AllManuals {
    #[command(flatten)]
    pub(crate) to: Manuals,
    /// Only what this Debian package has; all that is here by default
    #[arg(long, value_name = "NAME")]
    pub(crate) package: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Configuration; without one, defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The socket; overrides the configuration and `SIDECORE_SOCKET`
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The passphrase of the stored keys; overrides the configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Take the place of the service at this socket, which serves until this one has read the keys and answers
    #[arg(long)]
    pub(crate) take_over: bool,
    /// Serve in a process of its own, and return once it serves, with its process id on standard output
    #[arg(long)]
    pub(crate) detach: bool,
    /// Standard input is the other end of a process that detached this one
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    #[command(flatten)]
    pub(crate) log: LogArguments,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The provider; default: next to this program or in ../lib/sidecore
    #[arg(long, value_name = "FILE")]
    pub(crate) module: Option<PathBuf>,
    /// The service's socket
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore::config::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
    /// Small messages on TCP connections and UDP sockets go through the service of sockets
    #[arg(long)]
    pub(crate) sockets: bool,
    /// The library that sends them there; default: next to this program or in ../lib/sidecore
    #[arg(long, value_name = "FILE", requires = "sockets")]
    pub(crate) preload: Option<PathBuf>,
    /// The socket of the service of sockets, else that of `SIDECORE_SOCKETS`, else its usual place
    #[arg(long, value_name = "PATH", requires = "sockets")]
    pub(crate) socket_of_sockets: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Print JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Whether a service would start with this configuration, and what its directories are like; without it and without a socket,
    /// /etc/sidecore/sidecore.toml where that is installed
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The service's socket, where no configuration names it
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Settings to change, e.g. notify=park or balance=eft
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// The service's socket
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore::config::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Settings to print, e.g. balance, limits or device.w0; default: all
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// The service's socket
    #[arg(long, value_name = "PATH", env = "SIDECORE_SOCKET", default_value = sidecore::config::DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Reload {
    /// The configuration that the service was started with, as it is now
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The service's socket; overrides the configuration and `SIDECORE_SOCKET`
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}
