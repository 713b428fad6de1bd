//! Arguments of `sidecore net`.

use super::goal::Goal;
use super::number::{BadArgument, above_0};
use clap::{Args, Subcommand, ValueEnum};
use sidecore_measure::files::Files;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The peer's port for control connections.
pub(crate) const PORT: u16 = 5217;

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Net {
    #[command(subcommand)]
    pub(crate) command: NetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NetCommand {
    /// Measure the path to a peer, or a path made on this machine
    Measure(NetMeasure),
    /// Make two network namespaces on this machine, joined by a link with the given properties
    Link(NetLink),
    /// Be the far end of a path: obey `net measure` on another machine
    Peer(NetPeer),
    /// CPU time by component, while a command runs or on the whole machine
    Where(Box<NetWhere>),
    /// What limits a path to a peer, or a connection that exists
    Why(NetWhy),
    /// Find the settings that make a path good
    Tune(NetTune),
    /// Make the tables of two papers about interfaces again, on links of this machine
    Papers(NetPapers),
}

#[derive(Debug, Args)]
pub(crate) struct NetWhere {
    /// Longest sampling, in seconds; without a command 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: Option<u64>,
    /// Only these CPUs, as in 0,2-3
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<Cpus>,
    /// Keep CPUs from idling: in a virtual machine an idle one may miss its timer, and with it samples
    #[arg(long)]
    pub(crate) awake: bool,
    /// Count only packets of interfaces of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Write stacks as tools for flame graphs read them
    #[arg(long, value_name = "FILE")]
    pub(crate) folded: Option<PathBuf>,
    /// Your own table of functions and their components
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
    /// Command to run; only its work and that of its descendants counts
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A list of CPUs, e.g. `0,2-3`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cpus(pub(crate) Vec<usize>);

impl FromStr for Cpus {
    type Err = BadArgument;

    fn from_str(text: &str) -> Result<Self, BadArgument> {
        /// No machine has more.
        const MAX_CPUS: usize = 8192;
        let wrong = || BadArgument::Cpus(text.to_owned());
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<usize>().ok().filter(|cpu| *cpu < MAX_CPUS).ok_or_else(wrong);
            cpus.extend(number(first)?..=number(last)?);
        }
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() { Err(wrong()) } else { Ok(Self(cpus)) }
    }
}

#[derive(Debug, Args)]
pub(crate) struct NetPeer {
    /// Address for connections of near ends
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::from(([0; 16], PORT)))]
    pub(crate) listen: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetJoint {
    /// A pair of virtual interfaces of the kernel
    Veth,
    /// A link with the properties below, as `sidecore net link` makes it
    Link,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetTraffic {
    /// TCP streams, each way
    Tcp,
    /// Datagrams, each way
    Udp,
    /// Questions and answers, one after the other
    RoundTrip,
    /// The same at a fixed rate
    Paced,
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct NetMeasure {
    /// Make two network namespaces on this machine, with a link between them, and measure that
    #[arg(long, required_unless_present = "peer", conflicts_with = "peer")]
    pub(crate) pair: bool,
    /// Connection between the two ends of a pair
    #[arg(long, value_enum, default_value = "veth", conflicts_with = "peer")]
    pub(crate) by: NetJoint,
    /// Address of `sidecore net peer`
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) peer: Option<String>,
    /// Fewer cases and shorter runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these kinds of traffic
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) traffic: Vec<NetTraffic>,
    /// Only messages of this size, in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = bytes)]
    pub(crate) size: Vec<usize>,
    /// Only with this number of connections
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = some)]
    pub(crate) connections: Vec<usize>,
    /// Numbers of CPUs for the programs of each end, one measurement for each; all CPUs by default
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = some)]
    pub(crate) cpus: Vec<usize>,
    /// Measured time of a run, ms
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub(crate) ms: Option<u64>,
    /// Measurements of each, in turn with the others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) repeats: Option<u16>,
    /// Also sample the CPU time of a packet by component
    #[arg(long = "where")]
    pub(crate) takes_apart: bool,
    /// Write the stacks of all loads as tools for flame graphs read them
    #[arg(long, value_name = "FILE", requires = "takes_apart")]
    pub(crate) folded: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) link: LinkProperties,
}

/// Limit of a message, for every kind of traffic.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

fn bytes(text: &str) -> Result<usize, BadArgument> {
    let fits = |bytes: &usize| (1..=MAX_MESSAGE_BYTES).contains(bytes);
    text.parse().ok().filter(fits).ok_or(BadArgument::Bytes(MAX_MESSAGE_BYTES))
}

fn some(text: &str) -> Result<usize, BadArgument> {
    text.parse().ok().filter(|number: &usize| *number > 0).ok_or(BadArgument::Count)
}

#[derive(Debug, Args)]
pub(crate) struct NetPapers {
    /// Only this one
    #[arg(value_enum)]
    pub(crate) paper: Option<Paper>,
    /// Fewer cases and shorter runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measured time of a run, ms
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub(crate) ms: Option<u64>,
    /// Measurements of each, in turn with the others; an interval takes six
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) repeats: Option<u16>,
    /// Folder of lhcb.toml, the plan that simulates lhcb
    #[arg(long, value_name = "DIR", default_value = "plans")]
    pub(crate) plans: PathBuf,
    #[command(flatten)]
    pub(crate) files: Files,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// An interface on the processor's chip against one behind a bus: Liao and Bhuyan, HOTI 2009
    Hoti,
    /// Frame size and interrupt coalescence between two PCs: slides by Thannhaeuser
    Lhcb,
}

#[derive(Debug, Args)]
pub(crate) struct NetLink {
    #[command(flatten)]
    pub(crate) properties: LinkProperties,
    /// Write the counts as JSON, one object for each direction
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Run this in the near end, and end with it; `SIDECORE_FAR_PID` is the process whose namespace is the far end
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Properties of the link")]
pub(crate) struct LinkProperties {
    /// Mbit/s on the line, with all that Ethernet adds to a packet; without it a frame takes no time there
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rate_mbit: Option<u64>,
    /// One way, from a frame's last bit on the line to its arrival
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub(crate) delay_us: f64,
    /// Largest IP packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    pub(crate) mtu: u32,
    /// Queue of waiting frames, in bytes, without the frame in transmission; frames above it are dropped
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub(crate) queue: u64,
    /// Part of the frames that is lost; with offload a frame has up to 64 KiB
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub(crate) loss_percent: f64,
    /// Number of frames that interrupts the receiver immediately; without moderation each frame does
    #[arg(long, value_name = "N", requires = "moderate_us")]
    pub(crate) moderate_count: Option<u32>,
    /// Longest that a frame waits for its interrupt
    #[arg(long, value_name = "N", requires = "moderate_count")]
    pub(crate) moderate_us: Option<u64>,
    /// The kernel computes checksums and cuts segments, and not the interface
    #[arg(long)]
    pub(crate) no_offload: bool,
    /// The interface computes checksums nevertheless
    #[arg(long, requires = "no_offload")]
    pub(crate) checksums: bool,
    /// The interfaces take frames in by NAPI, as those of a driver: with GRO and its settings
    #[arg(long)]
    pub(crate) napi: bool,
    /// Cost of an access to a register: one for each batch taken from the sender, two for each interrupt, and one for
    /// each frame that is handed over
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub(crate) register_us: f64,
    /// How long before an instant to stop sleeping and look at the clock
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub(crate) spin_us: f64,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that people type")]
pub(crate) struct NetTune {
    /// Make two network namespaces on this machine, with a link between them, and tune both ends of that
    #[arg(long, required_unless_present = "interface", conflicts_with_all = ["peer", "interface"])]
    pub(crate) pair: bool,
    /// Connection between the two
    #[arg(long, value_enum, default_value = "veth", conflicts_with = "peer")]
    pub(crate) by: NetJoint,
    /// Address of `sidecore net peer`
    #[arg(long, value_name = "HOST[:PORT]", required_unless_present_any = ["pair", "revert"], requires = "interface")]
    pub(crate) peer: Option<String>,
    /// This machine's interface on the way to the peer: what is tuned
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Goal: throughput, latency, cpu (for each byte), or weights and bounds as in mix:throughput=2,cpu=1,latency<200,
    /// in Mbit/s, us and ns for each byte. By default throughput
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<Goal>,
    /// Change the interface's settings for the time of the run and put them back; without it, or --apply, nothing of the
    /// interface is changed, and what would be tried is listed
    #[arg(long = "try", requires = "interface")]
    pub(crate) tries: bool,
    /// Try, then apply the best settings; they are reverted unless the peer still answers within 10 s and Enter is typed within
    /// a minute
    #[arg(long, requires = "interface")]
    pub(crate) apply: bool,
    /// Do not ask for Enter
    #[arg(long, requires = "apply")]
    pub(crate) yes: bool,
    /// Revert the settings of --apply, or of a killed run
    #[arg(long, requires = "interface", conflicts_with_all = ["peer", "tries", "apply"])]
    pub(crate) revert: bool,
    /// Folder for the settings from before the change
    #[arg(long, value_name = "DIR", default_value = "/var/lib/sidecore/net")]
    pub(crate) state: PathBuf,
    /// Fewer runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these settings, e.g. mtu or gro
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) setting: Vec<String>,
    /// Connections of each run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) connections: usize,
    /// Round trips a second of each connection, where latency is measured
    #[arg(long, value_name = "N", default_value_t = 1_000.0, value_parser = above_0)]
    pub(crate) trips: f64,
    /// Measured time of a run, ms; 250 by default, and up to 1500 if the first runs differ much
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub(crate) ms: Option<u64>,
    /// Most runs
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<usize>,
    /// Also try every combination of the named settings, and compare the found settings with the best
    #[arg(long, requires = "pair")]
    pub(crate) exhaustive: bool,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) link: LinkProperties,
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct NetWhy {
    /// Address of `sidecore net peer`: both ends are seen, and loads are sent
    #[arg(value_name = "HOST[:PORT]", required_unless_present_any = ["connection", "pid"],
          conflicts_with_all = ["connection", "pid"])]
    pub(crate) peer: Option<String>,
    /// A connection that exists, by its ends as `ss -tn` shows them, or by one of them. Nothing is sent
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 1..=2, value_parser = end)]
    pub(crate) connection: Vec<SocketAddr>,
    /// The connections of this process, also in a container: the busiest, or the one of --connection
    #[arg(long, value_name = "PROCESS")]
    pub(crate) pid: Option<u32>,
    /// Measured time, in seconds; all takes five more
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=25))]
    pub(crate) seconds: u64,
    /// Mbit/s that the line should carry; by default what the interface says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) line_mbit: Option<u64>,
    #[command(flatten)]
    pub(crate) files: Files,
}

/// An end as `ss` shows it: the interface of a link-local address is passed over.
fn end(text: &str) -> Result<SocketAddr, BadArgument> {
    let bare = match (text.split_once('%'), text.rsplit_once(':')) {
        (Some((address, _)), Some((_, port))) => {
            format!("{address}{}:{port}", if address.starts_with('[') { "]" } else { "" })
        }
        _ => text.to_owned(),
    };
    let wrong = |_| BadArgument::End(text.to_owned());
    let end: SocketAddr = bare.parse().map_err(wrong)?;
    Ok(SocketAddr::new(end.ip().to_canonical(), end.port()))
}
