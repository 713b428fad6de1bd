//! `sidecore net why`: what limits a path to a peer, or a connection that exists.

mod judge;
mod kernel;
pub(super) mod look;

use super::flow::times;
use super::measure::{address_of, find_peer};
use super::path::Path;
use super::protocol::{Direction, Load, Transport};
use crate::args::NetWhy;
use crate::error::LabError;
use crate::net::account::Account;
use crate::net::columns;
use crate::net::sections::export;
use crate::net::tune::location::in_words;
use crate::report::{Outcome, Row, column, digits};
use judge::{Evidence, Finding, Stream, Trips, judge};
use kernel::{Connection, connections};
use look::{Look, Side, sockets};
use nix::sched::{CloneFlags, setns};
use sidecore_ipc::sys::clock;
use sidecore_measure::host_monitor::{HostMonitor, caveats_since};
use sidecore_measure::interrupt::Interrupt;
use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

const HERE: &str = "here";
const PEER: &str = "at the peer";
const WARM_UP: Duration = Duration::from_millis(300);
const SEND: &str = "send";
const SMALL: usize = 64;
const LARGE: usize = 65_536;
const SEVERAL: usize = 8;
/// Parts of the measured time: round trips, a stream each way, several streams.
const PARTS: [f64; 4] = [0.15, 0.35, 0.25, 0.25];
/// Most connections to choose the busiest from.
const MAX_CHOICE: usize = 65_536;
/// Least weight of a finding that is no side remark.
const MATTERS: f64 = 0.25;
const NO_LIMIT: &str = "Nothing stands out as the limit";

pub(super) fn run(args: &NetWhy) -> Result<(), LabError> {
    let began = HostMonitor::now();
    let window = Duration::from_secs(args.seconds);
    let line_mbit = args.line_mbit.map(|mbit| mbit as f64);
    let (evidence, unseen, words, lost) = if let Some(peer) = &args.peer {
        let words = in_words(address_of(peer)?);
        let mut path = find_peer(peer)?;
        path.until(&Interrupt::new()?);
        let (evidence, unseen, lost) = both_ends(&mut path, window, line_mbit)?;
        (evidence, unseen, words, lost)
    } else {
        let (evidence, unseen, words) = one_end(args, window)?;
        (evidence, unseen, words, None)
    };
    let mut outcome = outcome(&evidence, unseen);
    outcome.caveats = caveats_since(began);
    export("sidecore net why", &args.files, outcome, words)?;
    match lost {
        Some(LabError::Stopped) | None => Ok(()),
        Some(why) => Err(why),
    }
}

/// Settings that bear on what limits the path, those of the heaviest cause first, and that cause in words.
pub(super) fn suspects(path: &mut Path, window: Duration) -> Result<(Vec<&'static str>, String), LabError> {
    let (evidence, ..) = both_ends(path, window, None)?;
    let found = judge(&evidence);
    let heaviest = found.first().filter(|finding| finding.weight >= MATTERS);
    let said = heaviest.map_or_else(|| format!("{NO_LIMIT}: {}", rates(&evidence)), words);
    let heavy = found.iter().filter(|finding| finding.weight >= MATTERS);
    Ok((heavy.flat_map(|finding| finding.cause.settings()).copied().collect(), said))
}

/// Measures in turn. A load that fails after the first one is left out. Returns also what ended the path before its end.
fn both_ends(
    path: &mut Path,
    window: Duration,
    line_mbit: Option<f64>,
) -> Result<(Evidence, Vec<String>, Option<LabError>), LabError> {
    let mut lost = None;
    let mut evidence = Evidence { line_mbit, ..Evidence::default() };
    let mut unseen = Vec::new();
    let trip = Load::new(Transport::Tcp, Direction::RoundTrip, SMALL, 1);
    let seen = Seen::of(path, &trip, window.mul_f64(PARTS[0]))?;
    let [here, there] = [seen.side(0), seen.side(1)];
    unseen.extend(seen.unseen());
    evidence.trips = seen.median_us.map(|median_us| Trips { median_us, sides: vec![here, there] });
    let loads = [(Direction::Send, 1), (Direction::Receive, 1), (Direction::Send, SEVERAL)];
    for ((direction, connections), part) in loads.into_iter().zip(&PARTS[1..]) {
        let load = Load::new(Transport::Tcp, direction, LARGE, connections);
        let name = match (direction, connections) {
            (Direction::Receive, _) => "receive".to_owned(),
            (_, 1) => SEND.to_owned(),
            (_, several) => format!("send by {several}"),
        };
        match Seen::of(path, &load, window.mul_f64(*part)) {
            Ok(seen) => evidence.streams.push(seen.stream(name, direction)),
            Err(why) if path.is_lost() => {
                unseen.push(format!("{name} and what would follow: {why}"));
                lost = Some(why);
                break;
            }
            Err(why) => unseen.push(format!("{name}: {why}")),
        }
    }
    if let [one, .., several] = &mut evidence.streams[..]
        && one.name == SEND
        && one.mbit_per_s > 0.0
        && several.name.starts_with("send by")
    {
        one.gain = Some(several.mbit_per_s / one.mbit_per_s);
    }
    unseen.dedup();
    Ok((evidence, unseen, lost))
}

/// Looks at both ends before and after a load.
struct Seen {
    /// At the beginning and at the end: local, peer.
    looks: [[Look; 2]; 2],
    median_us: Option<f64>,
}

impl Seen {
    fn of(path: &mut Path, load: &Load, window: Duration) -> Result<Self, LabError> {
        let mut running = path.begin(load)?;
        thread::sleep(WARM_UP);
        running.keep_latencies(true);
        let before = running.look()?;
        thread::sleep(window);
        let now = running.look()?;
        running.keep_latencies(false);
        let median_us = times(&running.end()?).map(|times| times.p50);
        Ok(Self { looks: [before, now], median_us })
    }

    fn side(&self, end: usize) -> Side {
        Side::between([HERE, PEER][end], &self.looks[0][end], &self.looks[1][end])
    }

    fn unseen(&self) -> impl Iterator<Item = String> {
        let ends = self.looks[1].iter().zip([HERE, PEER]);
        ends.flat_map(|(look, place)| look.unseen.iter().map(move |why| format!("{place}: {why}")))
    }

    fn stream(&self, name: String, direction: Direction) -> Stream {
        let to = usize::from(direction == Direction::Send);
        let account = self.looks[1][to].account.since(&self.looks[0][to].account);
        Stream {
            name,
            mbit_per_s: account.received.bytes as f64 * 8.0 / 1e6 / account.seconds(),
            sender: Some(self.side(1 - to)),
            receiver: Some(self.side(to)),
            gain: None,
        }
    }
}

/// Watches a connection of other programs, without sending anything.
fn one_end(args: &NetWhy, window: Duration) -> Result<(Evidence, Vec<String>, String), LabError> {
    let mut unseen = Vec::new();
    if let Some(process) = args.pid {
        enter(process)?;
    }
    let chosen = choose(args, &mut unseen)?;
    let process = args.pid.or_else(|| owner(chosen.inode));
    if process.is_none() {
        unseen.push("the program's threads: no process with this connection can be seen; it takes root".to_owned());
    }
    let (local, remote) = (chosen.local, chosen.remote);
    let look = || {
        let account = Account { at_ns: clock::now(), ..Account::of_kernel() };
        let process = process.map(|process| (process, None));
        Look::new(account, process, remote.ip(), |own| (own.local, own.remote) == (local, remote))
    };
    let before = look();
    thread::sleep(window);
    let now = look();
    let side = Side::between(HERE, &before, &now);
    unseen.extend(now.unseen);
    let Some(tcp) = &side.tcp else {
        return Err(LabError::broken(format!("the connection {local} {remote} ended meanwhile: name one that stays")));
    };
    unseen.push(format!("the other end of {local} {remote}: run it there too"));
    let sends = if tcp.bytes() == 0 { tcp.unread == 0 } else { tcp.sent >= tcp.received };
    let mbit_per_s = tcp.acked.max(tcp.received) as f64 * 8.0 / 1e6 / side.seconds;
    let mut stream =
        Stream { name: if sends { "send" } else { "receive" }.to_owned(), mbit_per_s, ..Stream::default() };
    *(if sends { &mut stream.sender } else { &mut stream.receiver }) = Some(side);
    let line_mbit = args.line_mbit.map(|mbit| mbit as f64);
    let words = in_words(SocketAddr::new(remote.ip(), 0));
    Ok((Evidence { streams: vec![stream], trips: None, line_mbit }, unseen, words))
}

/// The busiest of the named connections.
fn choose(args: &NetWhy, unseen: &mut Vec<String>) -> Result<Connection, LabError> {
    let own = args.pid.map(sockets);
    let is_meant = |connection: &Connection| {
        let is_end = match args.connection[..] {
            [] => true,
            [end] => end == connection.local || end == connection.remote,
            [local, remote, ..] => (local, remote) == (connection.local, connection.remote),
        };
        is_end && own.as_ref().is_none_or(|own| own.contains(&connection.inode))
    };
    let count = || {
        let all = connections(MAX_CHOICE, is_meant)
            .map_err(|error| LabError::failed("cannot ask the kernel about connections", error))?;
        Ok::<_, LabError>(all)
    };
    let before: HashMap<_, _> = count()?.into_iter().map(|own| ((own.local, own.remote), own.bytes())).collect();
    thread::sleep(WARM_UP);
    let moved = |own: &Connection| {
        own.bytes().saturating_sub(before.get(&(own.local, own.remote)).copied().unwrap_or_default())
    };
    let now = count()?;
    if now.len() > 1 {
        unseen.push(format!("{} other connections: the busiest is judged", now.len() - 1));
    }
    let chosen = now.into_iter().max_by_key(|own| (moved(own), own.unacked_packets));
    chosen.ok_or_else(|| {
        let remedy =
            "`ss -tnp` lists those of this network namespace with their processes; another user's process takes root";
        LabError::missing("no such connection", "TCP has none with these ends", remedy)
    })
}

/// Moves to the network namespace of the process, as of a container, unless it is this one.
fn enter(process: u32) -> Result<(), LabError> {
    let what = || format!("cannot look into the network of process {process}");
    let open = |process: &str| File::open(format!("/proc/{process}/ns/net"));
    let there = open(&process.to_string());
    let there = there
        .map_err(|error| LabError::missing(what(), error, "`ss -tnp` names processes; another user's takes root"))?;
    if open("self")?.metadata()?.ino() == there.metadata()?.ino() {
        return Ok(());
    }
    setns(there, CloneFlags::CLONE_NEWNET).map_err(|error| LabError::missing(what(), error, "it takes root"))
}

fn owner(inode: u64) -> Option<u32> {
    let all = procfs::process::all_processes().ok()?.flatten();
    all.map(|process| process.pid.cast_unsigned()).find(|process| sockets(*process).contains(&inode))
}

fn outcome(evidence: &Evidence, unseen: Vec<String>) -> Outcome {
    let found = judge(evidence);
    let mut outcome = Outcome::new(found.iter().map(row).collect(), Vec::new(), unseen);
    for finding in found.iter().filter(|finding| finding.weight >= MATTERS) {
        outcome.note(words(finding));
    }
    for stream in &evidence.streams {
        outcome.add_rows([load_row(stream)]);
    }
    if let Some(trips) = &evidence.trips {
        outcome.add_rows([Row::new("net-why-loads", "round trips").with(column::TOTAL_P50, trips.median_us)]);
    }
    if outcome.notes.is_empty() {
        outcome.note(format!("{NO_LIMIT}: {}", rates(evidence)));
    }
    outcome
}

fn rates(evidence: &Evidence) -> String {
    let rates = evidence.streams.iter().map(|stream| format!("{} {} Mbit/s", stream.name, digits(stream.mbit_per_s)));
    rates.collect::<Vec<_>>().join(", ")
}

fn load_row(stream: &Stream) -> Row {
    let thread = |side: &Option<Side>| side.as_ref().and_then(|side| side.thread).map(|(thread, _)| thread);
    let limits = stream.sender.as_ref().and_then(Side::limits);
    let columns = [columns::TCP_BUSY, columns::TCP_RWND, columns::TCP_SNDBUF, columns::TCP_AGAIN];
    let row = Row::new("net-why-loads", &stream.name)
        .with(column::MBIT_PER_S, stream.mbit_per_s)
        .with(columns::SENDER_THREAD, thread(&stream.sender))
        .with(columns::RECEIVER_THREAD, thread(&stream.receiver));
    limits
        .into_iter()
        .flat_map(|limits| columns.into_iter().zip(limits))
        .fold(row, |row, (key, part)| row.with(key, part))
}

fn row(finding: &Finding) -> Row {
    Row::new("net-why", finding.cause.name())
        .with(column::OP, finding.of.as_str())
        .with(columns::LIMITS, finding.weight)
        .with(columns::EVIDENCE, finding.evidence.as_str())
        .with(columns::CURE, finding.cure.as_deref())
}

fn words(finding: &Finding) -> String {
    let Finding { cause, of, evidence, cure, .. } = finding;
    let cure = cure.as_ref().map_or_else(String::new, |cure| format!(". Try: {cure}"));
    format!("{} ({of}): {evidence}{cure}", cause.name())
}
