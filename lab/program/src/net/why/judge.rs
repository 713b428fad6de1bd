//! Judgement of what limits a connection. Pure: measured values in, findings out.

use super::kernel::Connection;
use super::look::{Queue, Side};
use crate::net::tune::setting::{Kind, by_name, mask};
use crate::report::{digits, micros};
use sidecore_report::format::percent;

/// Least parts of the time of a limit, and of one limit of several.
const FULL: f64 = 0.85;
const MUCH: f64 = 0.2;
/// Busy part of a processor that others could relieve.
const SPARE: f64 = 0.6;
/// Part of soft interrupts on a processor that packets keep busy.
const SOFT: f64 = 0.3;
/// Part of bytes sent again that slows a loss-based congestion control.
const LOSSY: f64 = 1e-3;
/// Ratio of several connections' payload to that of one: a full line gives 1.
const MORE: f64 = 1.4;
/// Least largest buffers, bytes: smaller ones limit a path of 100 Mbit/s and 20 ms.
const SMALL_BUFFER: u64 = 256 << 10;
/// Part of the sender's buffer.
const FILLED: f64 = 0.5;
const MANY_RULES: u64 = 200;
const SHAPERS: [&str; 6] = ["tbf", "htb", "hfsc", "cake", "netem", "cbs"];
/// Packets; shorter queues drop bursts that are usual.
const SHORT_QUEUE: u64 = 100;
/// Below this a path is not slow for its interrupts, us.
const PROMPT_US: f64 = 50.0;
const SLOW_TRIP_US: f64 = 1_000.0;

macro_rules! causes {
    ($($cause:ident: $name:literal, $settings:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Cause {
            $($cause,)*
        }

        impl Cause {
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$cause => $name,)*
                }
            }

            /// Settings that bear on it; the most likely cure first.
            pub(super) fn settings(self) -> &'static [&'static str] {
                match self {
                    $(Self::$cause => &$settings,)*
                }
            }
        }
    };
}

causes! {
    SenderCpu: "the sender's CPU", ["tso", "gso", "tx-checksum", "mtu"];
    ReceiverCpu: "the receiver's CPU", ["gro", "mtu", "rps", "coalesce-rx-usecs"];
    OneCore: "one core of several", ["rps", "interrupts", "channels", "threaded-napi"];
    SenderWindow: "the sender's window", ["wmem"];
    ReceiverWindow: "the receiver's window", ["rmem"];
    Loss: "loss", ["congestion-control", "rx-ring"];
    Line: "the line", [];
    Shaper: "a shaper", [];
    Queue: "a queue that is full", ["congestion-control", "tx-ring"];
    Latency: "latency", ["busy-poll", "threaded-napi"];
    Program: "the program", [];
    Mtu: "the MTU", ["mtu"];
    Firewall: "the firewall", [];
    Offload: "offload that is off", ["tx-checksum", "tso", "gso"];
    Gro: "GRO that is off", ["gro"];
    Moderation: "moderation of interrupts", ["gro-flush-timeout", "napi-defer-hard-irqs", "coalesce-rx-usecs", "coalesce-tx-usecs"];
}

/// A load over one or more connections. A side is missing if only one end was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) mbit_per_s: f64,
    pub(super) sender: Option<Side>,
    pub(super) receiver: Option<Side>,
    /// Payload of several connections by that of one.
    pub(super) gain: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Trips {
    pub(super) median_us: f64,
    pub(super) sides: Vec<Side>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) streams: Vec<Stream>,
    pub(super) trips: Option<Trips>,
    /// Stated rate of the line; `None`: that of the interfaces.
    pub(super) line_mbit: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) cause: Cause,
    /// The load.
    pub(super) of: String,
    /// Part of the time that it limits the load, 0 to 1, if anything was measured; otherwise an estimate.
    pub(super) weight: f64,
    pub(super) evidence: String,
    pub(super) cure: Option<String>,
}

/// The heaviest first; each cause once for each cure.
pub(super) fn judge(evidence: &Evidence) -> Vec<Finding> {
    let mut all = Vec::new();
    for stream in &evidence.streams {
        Case { of: &stream.name, found: &mut all }.stream(stream, evidence.line_mbit);
    }
    if let Some(trips) = &evidence.trips {
        Case { of: "round trips", found: &mut all }.trips(trips);
    }
    all.sort_by(|one, other| other.weight.total_cmp(&one.weight));
    let mut found: Vec<Finding> = Vec::new();
    for finding in all {
        match found.iter_mut().find(|own| own.cause == finding.cause && own.cure == finding.cure) {
            Some(own) if own.of.split(", ").any(|of| of == finding.of) => {}
            Some(own) => own.of = format!("{}, {}", own.of, finding.of),
            None => found.push(finding),
        }
    }
    found
}

struct Case<'c> {
    of: &'c str,
    found: &'c mut Vec<Finding>,
}

impl Case<'_> {
    fn add(&mut self, cause: Cause, weight: f64, evidence: String, cure: Option<String>) {
        let weight = weight.clamp(0.0, 1.0);
        self.found.push(Finding { cause, of: self.of.to_owned(), weight, evidence, cure });
    }

    fn stream(&mut self, stream: &Stream, line_mbit: Option<f64>) {
        if self.black_hole(stream) {
            return;
        }
        let (sender, receiver) = (stream.sender.as_ref(), stream.receiver.as_ref());
        let sender_cpu = sender.map_or(0.0, |side| self.cpu(side, Cause::SenderCpu));
        let receiver_cpu = receiver.map_or(0.0, |side| self.cpu(side, Cause::ReceiverCpu));
        self.costs(stream, sender_cpu.max(receiver_cpu));
        self.windows(stream, receiver_cpu);
        let limited = sender.map_or(0.0, in_flight);
        let is_local = sender.is_some_and(|side| self.queues(side, limited))
            || sent(stream).is_some_and(|(side, tcp, _)| is_filled(side, tcp));
        if !is_local {
            self.way(stream, limited, sender_cpu.max(receiver_cpu), line_mbit);
        }
        self.program(stream, sender_cpu);
    }

    fn black_hole(&mut self, stream: &Stream) -> bool {
        let Some((side, tcp, _)) = sent(stream) else { return false };
        if tcp.acked > 0 || tcp.unacked_packets == 0 || tcp.resent == 0 {
            return false;
        }
        let mtu = |side: &Side| side.settings.get("mtu").and_then(|mtu| mtu.parse::<u64>().ok());
        let (own, other) = (mtu(side), stream.receiver.as_ref().and_then(mtu));
        let beyond = other.map_or_else(String::new, |other| format!(", the other end has an MTU of {other}"));
        let evidence = format!(
            "nothing was acknowledged in {} s, and {} bytes were sent again: packets of up to {} bytes vanish{beyond}",
            digits(side.seconds),
            tcp.resent,
            tcp.pmtu
        );
        let smaller = other.filter(|other| own.is_some_and(|own| *other < own));
        let cure = smaller.map_or_else(
            || "let ICMP pass (packet too big), or sysctl net.ipv4.tcp_mtu_probing=1".to_owned(),
            |mtu| cure(side, "mtu", &mtu.to_string()),
        );
        self.add(Cause::Mtu, 1.0, evidence, Some(cure));
        true
    }

    /// Returns the part of the time that the end's CPUs limit.
    fn cpu(&mut self, side: &Side, cause: Cause) -> f64 {
        let free = side.processors.iter().filter(|(busy, _)| *busy < SPARE).count();
        let (thread, waited) = side.thread.unwrap_or_default();
        if thread >= FULL && (waited >= MUCH || free == 0) {
            let evidence = format!(
                "its thread {} ran or waited for a processor {} of the time, and waited {}: other work takes the processors",
                side.place,
                percent(thread),
                percent(waited)
            );
            let remedy = "move other work away, or give it more processors (taskset, cpuset, nice)".to_owned();
            self.add(cause, thread * 0.9, evidence, Some(remedy));
            return thread;
        }
        if thread >= FULL {
            let evidence = format!(
                "its thread {} was busy {} of the time, while {free} of {} processors had room",
                side.place,
                percent(thread),
                side.processors.len()
            );
            let remedy = "more connections with a thread each; larger messages".to_owned();
            self.add(Cause::OneCore, thread * 0.9, evidence, Some(remedy));
            self.add(cause, thread * 0.8, format!("the same thread {}", side.place), None);
            return thread;
        }
        self.hot_core(side).max(thread)
    }

    /// A processor that packets fill, beside one with room. Returns its busy part.
    fn hot_core(&mut self, side: &Side) -> f64 {
        let hot = side.processors.iter().position(|(busy, soft)| *busy >= FULL && *soft >= SOFT);
        let has_room = side.processors.iter().any(|(busy, soft)| *busy < FULL && *soft < SOFT);
        let Some(hot) = hot.filter(|_| has_room) else { return 0.0 };
        let (busy, soft) = side.processors[hot];
        let evidence = format!(
            "processor {hot} {} was busy {} of the time, {} with packets, while others had room",
            side.place,
            percent(busy),
            percent(soft)
        );
        let rest = mask(side.processors.len(), |processor| processor != hot);
        self.add(Cause::OneCore, busy * 0.98, evidence, Some(cure(side, "rps", &rest)));
        busy
    }

    /// Settings that make each byte dearer: heavy only if a CPU is the limit.
    fn costs(&mut self, stream: &Stream, cpu: f64) {
        let weight = if cpu >= FULL { 0.96 * cpu } else { 0.1 + 0.1 * cpu };
        let is = |side: &Side, name: &str, value: &str| side.settings.get(name).is_some_and(|own| own == value);
        if let Some(side) = &stream.sender {
            let without = "the processor does per packet what the interface could do per 64 KiB";
            if is(side, "tx-checksum", "off") {
                let evidence =
                    format!("checksums are computed by the processor {}, and segments cut there", side.place);
                self.add(Cause::Offload, weight, evidence, Some(cure(side, "tx-checksum", "on")));
            } else if is(side, "tso", "off") && is(side, "gso", "off") {
                self.add(
                    Cause::Offload,
                    weight,
                    format!("tso and gso are off {}: {without}", side.place),
                    Some(cure(side, "gso", "on")),
                );
            }
        }
        let mtu = |side: &Side| side.settings.get("mtu").and_then(|mtu| mtu.parse::<f64>().ok());
        if let Some(side) = &stream.receiver
            && is(side, "gro", "off")
            && let Some(bytes) = side.packet_bytes.filter(|bytes| mtu(side).is_some_and(|mtu| *bytes < 1.5 * mtu))
        {
            let evidence = format!("packets of {} bytes on average go up singly {}", digits(bytes), side.place);
            self.add(Cause::Gro, weight, evidence, Some(cure(side, "gro", "on")));
        }
        for side in [&stream.sender, &stream.receiver].into_iter().flatten() {
            self.firewall(side, weight);
        }
    }

    fn firewall(&mut self, side: &Side, weight: f64) {
        let Some(rules) = side.rules.filter(|rules| *rules >= MANY_RULES) else { return };
        let evidence = format!("{rules} rules {}: a packet passes up to all of its chain", side.place);
        let remedy = "accept established connections first, and use sets instead of a rule for each address".to_owned();
        self.add(Cause::Firewall, weight * (0.9 + rules as f64 / 20_000.0).min(1.03), evidence, Some(remedy));
    }

    fn windows(&mut self, stream: &Stream, receiver_cpu: f64) {
        if let Some((side, tcp, [_, closed, short, _])) = sent(stream) {
            if closed >= MUCH {
                let seen = format!(
                    "the receiver's window of {} bytes stopped the sender {} of the time",
                    tcp.window,
                    percent(closed)
                );
                self.receiver_window(stream, closed, &seen, receiver_cpu);
            }
            if short >= MUCH {
                let evidence =
                    format!("the socket's buffer {} was too small {} of the time", side.place, percent(short));
                self.add(Cause::SenderWindow, short, evidence, Some(larger(side, "wmem")));
            } else if is_filled(side, tcp) {
                let trip = tcp.acked as f64 / side.seconds * tcp.rtt_us as f64 / 1e6;
                let (buffer, rtt) = (tcp.buffer, micros(tcp.rtt_us as f64));
                let evidence = format!(
                    "{trip:.0} bytes went in a round trip of {rtt}, and the socket's buffer {} is for {buffer}",
                    side.place
                );
                self.add(Cause::SenderWindow, in_flight(side) * 0.95, evidence, Some(larger(side, "wmem")));
            }
        } else if let Some(side) = &stream.receiver
            && is_unread(side)
        {
            self.receiver_window(stream, 0.9, "", receiver_cpu);
        }
    }

    /// A window closes because its buffer is small, or because the program reads too slowly.
    fn receiver_window(&mut self, stream: &Stream, weight: f64, seen: &str, cpu: f64) {
        let Some(side) = &stream.receiver else {
            let remedy = "there: a larger net.ipv4.tcp_rmem or SO_RCVBUF; if `ss -tm` there shows bytes in Recv-Q, its program reads too slowly";
            return self.add(Cause::ReceiverWindow, weight, seen.to_owned(), Some(remedy.to_owned()));
        };
        let comma = if seen.is_empty() { "" } else { "; " };
        if largest(side, "rmem").is_some_and(|largest| largest < SMALL_BUFFER) {
            let evidence = format!("{seen}{comma}buffers {} are small", side.place);
            self.add(Cause::ReceiverWindow, weight, evidence, Some(larger(side, "rmem")));
        } else if cpu < FULL && is_unread(side) {
            let tcp = side.tcp.as_ref();
            let unread = tcp.map_or(0, |tcp| tcp.unread);
            let evidence =
                format!("{seen}{comma}the program {} leaves {unread} bytes unread, and its CPU has room", side.place);
            self.add(Cause::Program, weight, evidence, Some("read more often, or in another thread".to_owned()));
        } else if cpu < FULL {
            self.add(Cause::ReceiverWindow, weight, seen.to_owned(), Some(larger(side, "rmem")));
        } else {
            self.add(Cause::ReceiverCpu, weight * 0.95, format!("{seen}{comma}its CPU is the reason"), None);
        }
    }

    /// Whether a queue of the sender's interface explains the limit.
    fn queues(&mut self, side: &Side, limited: f64) -> bool {
        let mut explains = false;
        let is_shaper = |queue: &Queue| SHAPERS.contains(&queue.kind.as_str());
        for queue in &side.queues {
            let kind = &queue.kind;
            let tc = format!("tc -s qdisc show dev {}", side.interface);
            if is_shaper(queue) && queue.overlimits > 0 {
                let held = digits(queue.overlimits as f64 / side.seconds);
                let evidence = format!(
                    "{kind} on {} {} held packets back {held} times a second; {} bytes wait, {} packets were dropped",
                    side.interface, side.place, queue.waiting_bytes, queue.dropped
                );
                self.add(Cause::Shaper, 0.5 + 0.45 * limited, evidence, Some(format!("its rate: {tc}")));
                explains = true;
            } else if !is_shaper(queue) && queue.dropped > 0 {
                let limit = queue.limit.map_or_else(String::new, |limit| format!(", with room for {limit}"));
                let evidence =
                    format!("{kind} on {} {} dropped {} packets{limit}", side.interface, side.place, queue.dropped);
                let short = queue.limit.is_some_and(|limit| kind == "pfifo" && limit < SHORT_QUEUE);
                let weight = if short { 0.55 + 0.43 * limited } else { 0.4 + 0.4 * limited };
                let remedy = format!("a longer queue or fq_codel: {tc}");
                self.add(Cause::Queue, weight, evidence, Some(remedy));
                explains = true;
            }
        }
        explains
    }

    /// Loss or a full line between the ends.
    fn way(&mut self, stream: &Stream, limited: f64, cpu: f64, line_mbit: Option<f64>) {
        let Some((side, tcp, [.., again])) = sent(stream) else { return };
        let waits = tcp.min_rtt_us > 0 && tcp.rtt_us / 2 > tcp.min_rtt_us;
        let is_line = stream.gain.map_or(waits, |gain| gain < MORE);
        let several = stream
            .gain
            .map_or_else(String::new, |gain| format!("; several connections carry {} times as much", digits(gain)));
        if again >= LOSSY && !is_line {
            let places = [Some(side), stream.receiver.as_ref()].into_iter().flatten();
            let places = places.map(|side| {
                format!("interfaces {} dropped {}, its processors {}", side.place, side.dropped.0, side.dropped.1)
            });
            let evidence = format!(
                "{} of the bytes were sent again with {}; {}{several}",
                percent(again),
                tcp.congestion,
                places.collect::<Vec<_>>().join(", ")
            );
            let cure = (tcp.congestion != "bbr").then(|| cure(side, "congestion-control", "bbr"));
            self.add(Cause::Loss, limited, evidence, cure);
        } else if limited >= 0.5 && cpu < FULL && is_line {
            let line = line_mbit.or_else(|| Some(side.line_mbit? as f64));
            let (verdict, remedy) = match line {
                Some(line) if stream.mbit_per_s < 0.8 * line => (
                    format!(" of {} Mbit/s: something on the way is slower", digits(line)),
                    "look for a slower link, a shaper or a policer on the way (ethtool shows what an interface agreed on)",
                ),
                Some(line) => {
                    (format!(" of {} Mbit/s: the line is full", digits(line)), "a faster line, or less traffic")
                }
                None => (String::new(), "say with --line-mbit how much it should carry"),
            };
            let queue = format!(
                "; a packet takes {}, and {} at least",
                micros(tcp.rtt_us as f64),
                micros(tcp.min_rtt_us as f64)
            );
            let evidence = format!("{} Mbit/s{verdict}{queue}{several}", digits(stream.mbit_per_s));
            self.add(Cause::Line, limited * 0.9, evidence, Some(remedy.to_owned()));
        } else if limited >= 0.5 && cpu < FULL {
            let evidence = format!(
                "{} Mbit/s{several}, and a packet takes {}",
                digits(stream.mbit_per_s),
                micros(tcp.rtt_us as f64)
            );
            self.add(
                Cause::Latency,
                limited * 0.5,
                evidence,
                Some("more connections, or a longer transfer".to_owned()),
            );
        }
    }

    fn program(&mut self, stream: &Stream, cpu: f64) {
        let Some((_, tcp, [busy, ..])) = sent(stream) else { return };
        if busy < 0.5 {
            let part = if cpu < FULL { 0.9 } else { 0.3 };
            let evidence = format!(
                "the sender had nothing to send {} of the time; an answer takes {}",
                percent(1.0 - busy),
                micros(tcp.rtt_us as f64)
            );
            self.add(
                Cause::Program,
                part * (1.0 - busy),
                evidence,
                Some("write more at a time, and ask before answers came".to_owned()),
            );
        }
    }

    fn trips(&mut self, trips: &Trips) {
        let median = trips.median_us;
        let before = self.found.len();
        for side in &trips.sides {
            for (us, name) in waits(side) {
                if us >= PROMPT_US && us >= 0.25 * median {
                    let evidence = format!(
                        "a question takes {}; {name} {} holds packets for {}",
                        micros(median),
                        side.place,
                        micros(us)
                    );
                    self.add(Cause::Moderation, us / median, evidence, Some(cure(side, name, "0")));
                }
            }
            self.hot_core(side);
            self.firewall(side, 0.3);
        }
        if self.found[before..].iter().all(|own| own.weight < 0.5) && median >= SLOW_TRIP_US {
            let evidence = format!(
                "a question takes {}: one after the other {} a second at most",
                micros(median),
                digits(1e6 / median)
            );
            self.add(Cause::Latency, 0.3, evidence, Some("ask several questions before the first answer".to_owned()));
        }
    }
}

/// The sender with its connection and limits.
fn sent(stream: &Stream) -> Option<(&Side, &Connection, [f64; 4])> {
    let side = stream.sender.as_ref()?;
    Some((side, side.tcp.as_ref()?, side.limits()?))
}

/// Part of the time that the sender waited for acknowledgements alone.
fn in_flight(side: &Side) -> f64 {
    side.limits().map_or(0.0, |[busy, closed, short, _]| (busy - closed - short).max(0.0))
}

/// Whether a round trip fills the sender's buffer. TCP counts only a part of such times, and lets a buffer that it chose
/// itself grow to three times that.
fn is_filled(side: &Side, tcp: &Connection) -> bool {
    let trip = tcp.acked as f64 / side.seconds * tcp.rtt_us as f64 / 1e6;
    tcp.buffer > 0 && trip >= FILLED * tcp.buffer as f64
}

fn is_unread(side: &Side) -> bool {
    side.tcp.as_ref().is_some_and(|tcp| tcp.unread > 0 && tcp.unread.saturating_mul(4) >= tcp.room)
}

/// Settings that hold packets back, with their times, us.
fn waits(side: &Side) -> Vec<(f64, &'static str)> {
    let number = |name: &str| side.settings.get(name).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
    let mut all: Vec<_> = ["coalesce-rx-usecs", "coalesce-tx-usecs"].map(|name| (number(name), name)).into();
    all.push((number("gro-flush-timeout") / 1e3, "gro-flush-timeout"));
    all
}

fn largest(side: &Side, name: &str) -> Option<u64> {
    side.settings.get(name)?.split(' ').nth(2)?.parse().ok()
}

fn larger(side: &Side, name: &str) -> String {
    let now = side.settings.get(name).map_or_else(String::new, |now| format!(" (now {now})"));
    format!("{}{now}, and no smaller SO_RCVBUF or SO_SNDBUF", cure(side, name, "4096 131072 33554432"))
}

fn cure(side: &Side, name: &str, value: &str) -> String {
    let Ok(setting) = by_name(name) else { return format!("{name} {value} {}", side.place) };
    let line = match setting.lines(&side.interface, value) {
        (Kind::Link, line) => format!("in its .link file {line}"),
        (Kind::Sysctl, line) => format!("sysctl -w '{}'", line.replacen(" = ", "=", 1)),
        (Kind::Command, line) => line,
    };
    format!("{name} {value} {}: {line}", side.place)
}

#[cfg(test)]
mod tests;
