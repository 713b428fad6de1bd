//! Observations of one end of a connection: processors, threads, the interface with its queues, and TCP's own account.

use super::kernel::{self, Connection};
use crate::error::LabError;
use crate::net::account::{Account, Figure, Processor};
use crate::net::links::Links;
use crate::net::tune::location::Here;
use crate::net::tune::setting::by_name;
use procfs::process::{FDTarget, Process};
use rtnetlink::packet_route::tc::{TcAttribute, TcMessage, TcOption, TcStats2};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};

const SETTINGS: &str = "mtu tso gso gro tx-checksum rx-checksum congestion-control rmem wmem rps coalesce-rx-usecs coalesce-tx-usecs \
                        gro-flush-timeout napi-defer-hard-irqs";
const MAX_THREADS: usize = 4_096;
const MAX_CONNECTIONS: usize = 256;
const MAX_QUEUES: usize = 256;
const MAX_UNSEEN: usize = 16;
/// Most characters of a text of the peer.
const MAX_TEXT: usize = 120;

/// All of it at one moment. Counts have arbitrary beginnings: only differences are meaningful.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::net) struct Look {
    pub(in crate::net) account: Account,
    /// Times that each thread ran, and waited for a processor, ns.
    pub(super) threads: BTreeMap<u32, (u64, u64)>,
    pub(super) interface: String,
    /// By the name that `net tune` uses.
    pub(super) settings: BTreeMap<String, String>,
    pub(super) line_mbit: Option<u64>,
    pub(super) queues: Vec<Queue>,
    /// Packets of all interfaces that had no room in a processor's queue.
    pub(super) backlog_dropped: u64,
    pub(super) rules: Option<u64>,
    pub(super) connections: Vec<Connection>,
    /// Parts without a value, with reasons.
    pub(super) unseen: Vec<String>,
}

/// A queueing discipline of the interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Queue {
    pub(super) kind: String,
    pub(super) handle: u32,
    /// Packets of a `pfifo`, bytes of a `bfifo`; other kinds have several limits.
    pub(super) limit: Option<u64>,
    pub(super) waiting_bytes: u64,
    pub(super) dropped: u64,
    pub(super) overlimits: u64,
}

/// Utilization of an end between two looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Side {
    /// In sentences: `here` or `at the peer`.
    pub(super) place: &'static str,
    pub(super) interface: String,
    /// Parts of the time that the busiest thread ran or waited for a processor, and waited for one. `None`: unseen.
    pub(super) thread: Option<(f64, f64)>,
    /// Parts of the time that each processor was busy, and in soft interrupts.
    pub(super) processors: Vec<(f64, f64)>,
    pub(super) settings: BTreeMap<String, String>,
    pub(super) line_mbit: Option<u64>,
    /// Mean of received packets.
    pub(super) packet_bytes: Option<f64>,
    pub(super) queues: Vec<Queue>,
    /// By interfaces, and by processors' queues.
    pub(super) dropped: (u64, u64),
    pub(super) rules: Option<u64>,
    /// Of the busiest one, counted between the looks.
    pub(super) tcp: Option<Connection>,
    pub(super) seconds: f64,
}

impl Look {
    /// `process` with its threads of that name, or all; `None`: it is unknown. Only connections that `is_own` accepts.
    pub(in crate::net) fn new(
        account: Account,
        process: Option<(u32, Option<&str>)>,
        peer: IpAddr,
        is_own: impl Fn(&Connection) -> bool,
    ) -> Self {
        let mut look = Self { account, ..Self::default() };
        look.threads = process.map(|(process, named)| threads(process, named)).unwrap_or_default();
        match kernel::connections(MAX_CONNECTIONS, is_own) {
            Ok(own) => look.connections = own,
            Err(error) => look.unseen.push(format!("TCP's account of its connections: {error}")),
        }
        match kernel::rules() {
            Ok(rules) => look.rules = Some(rules),
            Err(error) => look.unseen.push(format!("firewall rules: {error}; it takes root")),
        }
        if fs::read_to_string("/proc/net/ip_tables_names").is_ok_and(|names| !names.is_empty()) {
            look.unseen.push("rules of iptables-legacy: `iptables-legacy-save | wc -l` counts them".to_owned());
        }
        look.backlog_dropped = backlog_dropped(&fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default());
        if let Err(error) = look.add_interface(peer) {
            look.unseen.push(format!("the interface: {error}"));
        }
        look
    }

    /// Of the threads and connections of a load in this process.
    pub(in crate::net) fn of_load(account: Account, peer: IpAddr) -> Self {
        let own = std::process::id();
        let sockets = sockets(own);
        let peer = peer.to_canonical();
        Self::new(account, Some((own, Some("flow"))), peer, |connection| {
            connection.remote.ip() == peer && sockets.contains(&connection.inode)
        })
    }

    fn add_interface(&mut self, peer: IpAddr) -> Result<(), LabError> {
        let mut here = Here::toward(SocketAddr::new(peer, 0))?;
        if let Some(why) = here.lacks_attributes() {
            self.unseen.push(format!(
                "rps, gro-flush-timeout, napi-defer-hard-irqs and the line's rate: {why}; it takes root"
            ));
        }
        for name in SETTINGS.split(' ') {
            // A driver may not have it.
            if let Ok(value) = here.read(by_name(name)?) {
                self.settings.insert(name.to_owned(), value);
            }
        }
        here.interface().clone_into(&mut self.interface);
        self.line_mbit = here.line_mbit();
        self.queues = Links::here()?.queues(here.interface())?.iter().take(MAX_QUEUES).map(queue).collect();
        Ok(())
    }

    /// A peer's texts are printed to a terminal, and its names stand in commands that a user may copy into a shell: a
    /// name is one word and no option. Values of settings have several words, in quotes.
    pub(in crate::net) fn printable(mut self) -> Self {
        let plain = |text: &mut String, further: &str| {
            let is_plain = |shown: &char| shown.is_ascii_alphanumeric() || further.contains(*shown);
            let shown = text.chars().filter(is_plain).skip_while(|first| *first == '-');
            *text = shown.take(MAX_TEXT).collect();
        };
        let name = |text: &mut String| plain(text, "-_.");
        name(&mut self.interface);
        self.settings.values_mut().for_each(|value| plain(value, " -_.:,"));
        self.unseen.truncate(MAX_UNSEEN);
        self.queues.iter_mut().for_each(|queue| name(&mut queue.kind));
        self.connections.iter_mut().for_each(|connection| name(&mut connection.congestion));
        for why in &mut self.unseen {
            *why = why.chars().filter(|shown| !shown.is_control()).take(MAX_TEXT).collect();
        }
        self
    }
}

impl Side {
    pub(super) fn between(place: &'static str, before: &Look, now: &Look) -> Self {
        let account = now.account.since(&before.account);
        let seconds = account.seconds();
        let part = |time: f64| (time / seconds).clamp(0.0, 1.0);
        let threads = now.threads.iter().filter_map(|(thread, (ran, waited))| {
            let before = before.threads.get(thread)?;
            let [ran, waited] = [ran.saturating_sub(before.0), waited.saturating_sub(before.1)];
            Some((part((ran as f64 + waited as f64) / 1e9), part(waited as f64 / 1e9)))
        });
        let busy = |own: &Processor| (part(seconds - own.idle - own.stolen), part(own.softirq + own.interrupt));
        let figure = |figure| account.figures.get(&figure).copied().unwrap_or(0);
        let packets = figure(Figure::PacketsReceived);
        Self {
            place,
            interface: now.interface.clone(),
            thread: threads.max_by(|one, other| one.0.total_cmp(&other.0)),
            processors: account.processors.iter().map(busy).collect(),
            settings: now.settings.clone(),
            line_mbit: now.line_mbit,
            packet_bytes: (packets > 0).then(|| figure(Figure::BytesReceived) as f64 / packets as f64),
            queues: now.queues.iter().map(|queue| queue.since(&before.queues)).collect(),
            dropped: (figure(Figure::Dropped), now.backlog_dropped.saturating_sub(before.backlog_dropped)),
            rules: now.rules,
            tcp: busiest(&before.connections, &now.connections),
            seconds,
        }
    }
}

impl Side {
    /// Parts of the time that the connection was busy, stopped by the receiver's window, and by the sender's buffer;
    /// part of the bytes that were sent again.
    pub(super) fn limits(&self) -> Option<[f64; 4]> {
        let tcp = self.tcp.as_ref()?;
        let part = |us: u64| (us as f64 / 1e6 / self.seconds).min(1.0);
        let again = tcp.resent as f64 / tcp.sent.max(1) as f64;
        Some([part(tcp.busy_us), part(tcp.rwnd_us), part(tcp.sndbuf_us), again.min(1.0)])
    }
}

impl Queue {
    fn since(&self, before: &[Self]) -> Self {
        let before = before.iter().find(|own| own.handle == self.handle && own.kind == self.kind);
        let before = before.cloned().unwrap_or_default();
        Self {
            dropped: self.dropped.saturating_sub(before.dropped),
            overlimits: self.overlimits.saturating_sub(before.overlimits),
            ..self.clone()
        }
    }
}

impl Connection {
    fn since(&self, before: &Self) -> Self {
        Self {
            busy_us: self.busy_us.saturating_sub(before.busy_us),
            rwnd_us: self.rwnd_us.saturating_sub(before.rwnd_us),
            sndbuf_us: self.sndbuf_us.saturating_sub(before.sndbuf_us),
            sent: self.sent.saturating_sub(before.sent),
            resent: self.resent.saturating_sub(before.resent),
            acked: self.acked.saturating_sub(before.acked),
            received: self.received.saturating_sub(before.received),
            ..self.clone()
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sent.saturating_add(self.received)
    }
}

fn busiest(before: &[Connection], now: &[Connection]) -> Option<Connection> {
    let since = |own: &Connection| {
        let before = before.iter().find(|before| (before.local, before.remote) == (own.local, own.remote))?;
        Some(own.since(before))
    };
    now.iter().filter_map(since).max_by_key(|own| (own.bytes(), own.unacked_packets))
}

fn threads(process: u32, named: Option<&str>) -> BTreeMap<u32, (u64, u64)> {
    let all = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten().take(MAX_THREADS);
    let thread = |entry: fs::DirEntry| {
        let path = entry.path();
        if let Some(named) = named
            && fs::read_to_string(path.join("comm")).ok()?.trim() != named
        {
            return None;
        }
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        let mut times = text.split_ascii_whitespace().map_while(|time| time.parse().ok());
        Some((entry.file_name().to_str()?.parse().ok()?, (times.next()?, times.next()?)))
    };
    all.filter_map(thread).collect()
}

/// Empty where the process is gone, or another user's.
pub(super) fn sockets(process: u32) -> HashSet<u64> {
    let open = Process::new(process.cast_signed()).and_then(|process| process.fd());
    let socket = |target| if let FDTarget::Socket(inode) = target { Some(inode) } else { None };
    open.into_iter().flatten().flatten().filter_map(|open| socket(open.target)).collect()
}

/// One hexadecimal line of each processor; the second column.
fn backlog_dropped(text: &str) -> u64 {
    let dropped = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).fold(0, u64::saturating_add)
}

fn queue(message: &TcMessage) -> Queue {
    let mut queue = Queue { handle: message.header.handle.into(), ..Queue::default() };
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(kind) => queue.kind.clone_from(kind),
            TcAttribute::Options(options) if ["pfifo", "bfifo", "pfifo_head_drop"].contains(&queue.kind.as_str()) => {
                queue.limit = options.iter().find_map(limit);
            }
            TcAttribute::Stats2(all) => {
                for stats in all {
                    if let TcStats2::Queue(stats) = stats {
                        queue.waiting_bytes = stats.backlog.into();
                        queue.dropped = stats.drops.into();
                        queue.overlimits = stats.overlimits.into();
                    }
                }
            }
            _ => {}
        }
    }
    queue
}

fn limit(option: &TcOption) -> Option<u64> {
    use netlink_packet_core::Nla as _;
    let TcOption::Other(own) = option else { return None };
    let mut value = vec![0; own.value_len()];
    own.emit_value(&mut value);
    value.first_chunk().map(|limit| u32::from_ne_bytes(*limit).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::Command;

    #[test]
    fn a_peers_names_are_no_commands_and_its_texts_move_no_cursor() {
        let bad = "eth0;$(reboot)`x`\u{1b}[31m\n".to_owned() + &"y".repeat(1_000);
        let look = Look {
            interface: bad.clone(),
            settings: [("mtu".to_owned(), bad.clone())].into(),
            queues: vec![Queue { kind: bad.clone(), ..Queue::default() }],
            unseen: vec![bad],
            ..Look::default()
        };
        let shown = look.printable();
        for name in [&shown.interface, &shown.settings["mtu"], &shown.queues[0].kind] {
            assert!(name.starts_with("eth0rebootx31m") && name.len() == MAX_TEXT, "{name}");
        }
        let named = |name: &str| Look { interface: name.to_owned(), ..Look::default() }.printable().interface;
        assert_eq!([named("a notes.txt b"), named("--help")], ["anotes.txtb", "help"]);
        assert!(shown.unseen[0].len() == MAX_TEXT && !shown.unseen[0].contains(char::is_control));
    }

    #[test]
    fn counts_of_processors_are_hexadecimal() {
        assert_eq!(backlog_dropped("0000000a 00000010 00000000\n00000001 00000001\nbad zz\n\n"), 17);
    }

    #[test]
    fn a_side_is_the_difference_of_two_looks_and_bounded() {
        let look = |at_ns: u64, idle: f64, thread: (u64, u64), dropped| Look {
            account: Account {
                at_ns,
                processors: vec![Processor { idle, ..Processor::default() }],
                ..Account::default()
            },
            threads: [(7, thread)].into(),
            queues: vec![Queue { kind: "tbf".to_owned(), dropped, ..Queue::default() }],
            ..Look::default()
        };
        let before = look(1_000_000_000, 10.0, (0, 0), 5);
        let side = Side::between("here", &before, &look(3_000_000_000, 10.5, (1_000_000_000, 500_000_000), 8));
        assert_eq!((side.seconds, side.thread, side.queues[0].dropped), (2.0, Some((0.75, 0.25)), 3));
        assert!((side.processors[0].0 - 0.75).abs() < 1e-9);
        // A peer's counts may go back, or be absurd.
        let wild = Side::between("at the peer", &before, &look(0, -1e300, (u64::MAX, u64::MAX), 0));
        assert_eq!((wild.thread, wild.queues[0].dropped, wild.processors[0].0), (Some((1.0, 1.0)), 0, 1.0));
    }

    #[test]
    fn an_end_sees_its_connections_and_nobody_elses() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let there = listener.accept().unwrap().0;
        let look = Look::of_load(Account::default(), Ipv4Addr::LOCALHOST.into());
        let local = here.local_addr().unwrap();
        assert!(look.connections.iter().any(|own| own.local == local));
        assert!(look.settings.contains_key("congestion-control"), "{:?}", look.unseen);
        drop(there);
        // A socket of another process only.
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let foreign = other.local_addr().unwrap();
        let mut child = Command::new("sleep").arg("60").stdin(OwnedFd::from(other)).spawn().unwrap();
        let seen = Look::of_load(Account::default(), Ipv4Addr::LOCALHOST.into());
        let exists = !kernel::connections(1, |own| own.local == foreign).unwrap().is_empty();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(exists && seen.connections.iter().all(|own| own.local != foreign));
        assert!(Look::of_load(Account::default(), Ipv4Addr::new(192, 0, 2, 1).into()).connections.is_empty());
    }
}
