//! Each limit by one change of a plain path, and wild values of a peer.

use super::super::kernel::Connection;
use super::*;
use std::net::SocketAddr;

const SECONDS: f64 = 2.0;

fn us(part: f64) -> u64 {
    (part * SECONDS * 1e6) as u64
}

/// With much in flight all the time.
fn tcp() -> Connection {
    let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
    Connection {
        local: end(1),
        remote: end(2),
        inode: 1,
        congestion: "cubic".to_owned(),
        busy_us: us(1.0),
        rwnd_us: 0,
        sndbuf_us: 0,
        sent: 100_000_000,
        resent: 0,
        acked: 100_000_000,
        received: 0,
        rtt_us: 1_000,
        min_rtt_us: 900,
        pmtu: 1_500,
        unacked_packets: 100,
        window: 3_000_000,
        unread: 0,
        room: 6_000_000,
        buffer: 4_000_000,
    }
}

/// With room on all processors.
fn side(place: &'static str) -> Side {
    let settings = [
        ("mtu", "1500"),
        ("tso", "on"),
        ("gso", "on"),
        ("gro", "on"),
        ("tx-checksum", "on"),
        ("rmem", "4096 131072 6291456"),
        ("wmem", "4096 16384 4194304"),
    ];
    Side {
        place,
        interface: "eth0".to_owned(),
        thread: Some((0.3, 0.01)),
        processors: vec![(0.3, 0.1); 4],
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        packet_bytes: Some(20_000.0),
        tcp: Some(tcp()),
        seconds: SECONDS,
        ..Side::default()
    }
}

fn plain() -> Evidence {
    let stream = Stream {
        name: "send".to_owned(),
        mbit_per_s: 400.0,
        sender: Some(side("here")),
        receiver: Some(side("at the peer")),
        gain: Some(1.0),
    };
    let trips = Trips { median_us: 100.0, sides: vec![side("here"), side("at the peer")] };
    Evidence { streams: vec![stream], trips: Some(trips), line_mbit: None }
}

fn sender(evidence: &mut Evidence) -> &mut Side {
    evidence.streams[0].sender.as_mut().unwrap()
}

fn receiver(evidence: &mut Evidence) -> &mut Side {
    evidence.streams[0].receiver.as_mut().unwrap()
}

fn sent(evidence: &mut Evidence) -> &mut Connection {
    sender(evidence).tcp.as_mut().unwrap()
}

fn set(side: &mut Side, name: &str, value: &str) {
    side.settings.insert(name.to_owned(), value.to_owned());
}

fn queue(kind: &str, limit: Option<u64>, dropped: u64, overlimits: u64) -> Queue {
    Queue { kind: kind.to_owned(), limit, dropped, overlimits, ..Queue::default() }
}

type Change = fn(&mut Evidence);

/// A change of the plain path, the first finding, and a part of its evidence or cure.
const CASES: &[(&str, Change, Cause, &str)] = &[
    ("nothing but a full line", |_| {}, Cause::Line, "--line-mbit"),
    (
        "half the line",
        |all| all.line_mbit = Some(1_000.0),
        Cause::Line,
        "of 1000 Mbit/s: something on the way is slower",
    ),
    ("the line", |all| all.line_mbit = Some(410.0), Cause::Line, "the line is full"),
    ("an interface that agreed on more", |all| sender(all).line_mbit = Some(1_000), Cause::Line, "slower"),
    ("the sender's thread", |all| sender(all).thread = Some((0.99, 0.0)), Cause::OneCore, "more connections"),
    (
        "all processors",
        |all| {
            sender(all).thread = Some((0.99, 0.05));
            sender(all).processors = vec![(0.98, 0.1); 4];
        },
        Cause::SenderCpu,
        "other work",
    ),
    ("a peer whose CPU others take", |all| receiver(all).thread = Some((0.95, 0.7)), Cause::ReceiverCpu, "at the peer"),
    (
        "a processor with all packets",
        |all| receiver(all).processors = vec![(1.0, 0.9), (0.2, 0.0), (0.2, 0.0), (0.2, 0.0)],
        Cause::OneCore,
        "rps e at the peer",
    ),
    ("a small buffer at the sender", |all| sent(all).sndbuf_us = us(0.9), Cause::SenderWindow, "wmem"),
    (
        "a buffer that each round trip fills, which TCP's times do not show",
        |all| {
            *sent(all) = Connection { rtt_us: 2_000, buffer: 65_536, ..tcp() };
            all.streams[0].gain = Some(8.0);
        },
        Cause::SenderWindow,
        "100000 bytes went in a round trip of 2000 us",
    ),
    (
        "a small buffer at the receiver",
        |all| {
            sent(all).rwnd_us = us(0.9);
            set(receiver(all), "rmem", "4096 8192 8192");
        },
        Cause::ReceiverWindow,
        "now 4096 8192 8192",
    ),
    (
        "a program that does not read",
        |all| {
            sent(all).rwnd_us = us(0.9);
            receiver(all).tcp.as_mut().unwrap().unread = 5_000_000;
        },
        Cause::Program,
        "5000000 bytes unread",
    ),
    (
        "a receiver whose CPU is the reason",
        |all| {
            sent(all).rwnd_us = us(0.9);
            receiver(all).thread = Some((0.99, 0.5));
        },
        Cause::ReceiverCpu,
        "",
    ),
    (
        "loss",
        |all| {
            sent(all).resent = 500_000;
            all.streams[0].gain = Some(6.0);
        },
        Cause::Loss,
        "congestion-control bbr",
    ),
    ("loss of a full line", |all| sent(all).resent = 500_000, Cause::Line, ""),
    ("one connection that others outdo", |all| all.streams[0].gain = Some(6.0), Cause::Latency, "more connections"),
    ("a shaper", |all| sender(all).queues = vec![queue("tbf", None, 3, 2_000)], Cause::Shaper, "tc -s qdisc"),
    ("a short queue", |all| sender(all).queues = vec![queue("pfifo", Some(10), 5, 0)], Cause::Queue, "room for 10"),
    (
        "a short queue in a shaper",
        |all| sender(all).queues = vec![queue("tbf", None, 5, 2_000), queue("pfifo", Some(10), 5, 0)],
        Cause::Queue,
        "room for 10",
    ),
    (
        "a black hole",
        |all| {
            *sent(all) = Connection { acked: 0, resent: 30_000, rtt_us: 100, ..tcp() };
            set(sender(all), "mtu", "9000");
        },
        Cause::Mtu,
        "MTUBytes=1500",
    ),
    (
        "no checksums by the interface",
        |all| {
            sender(all).thread = Some((0.99, 0.0));
            set(sender(all), "tx-checksum", "off");
            set(sender(all), "tso", "requested");
        },
        Cause::Offload,
        "TransmitChecksumOffload=yes",
    ),
    (
        "GRO off",
        |all| {
            receiver(all).thread = Some((0.99, 0.0));
            set(receiver(all), "gro", "off");
            receiver(all).packet_bytes = Some(1_400.0);
        },
        Cause::Gro,
        "GenericReceiveOffload=yes",
    ),
    (
        "2,000 rules",
        |all| {
            sender(all).thread = Some((0.99, 0.0));
            sender(all).rules = Some(2_000);
        },
        Cause::Firewall,
        "2000 rules here",
    ),
    (
        "moderation of 1 ms",
        |all| {
            let trips = all.trips.as_mut().unwrap();
            trips.median_us = 1_100.0;
            set(&mut trips.sides[1], "gro-flush-timeout", "1000000");
            all.streams.clear();
        },
        Cause::Moderation,
        "gro-flush-timeout 0 at the peer",
    ),
    (
        "a far peer",
        |all| {
            all.trips.as_mut().unwrap().median_us = 20_000.0;
            all.streams.clear();
        },
        Cause::Latency,
        "50.0 a second",
    ),
    (
        "a program with little to send",
        |all| *sent(all) = Connection { busy_us: us(0.1), sent: 9_000, acked: 9_000, ..tcp() },
        Cause::Program,
        "nothing to send 90.0 %",
    ),
    (
        "one end: a window",
        |all| {
            all.streams[0].receiver = None;
            sent(all).rwnd_us = us(0.7);
        },
        Cause::ReceiverWindow,
        "Recv-Q",
    ),
    (
        "one end: the receiving program",
        |all| {
            all.streams[0].sender = None;
            receiver(all).tcp.as_mut().unwrap().unread = 5_000_000;
        },
        Cause::Program,
        "unread",
    ),
    (
        "one end: loss",
        |all| {
            (all.streams[0].receiver, all.streams[0].gain) = (None, None);
            sent(all).resent = 500_000;
        },
        Cause::Loss,
        "interfaces here dropped 0",
    ),
    (
        "one end: a line with a queue",
        |all| {
            (all.streams[0].receiver, all.streams[0].gain) = (None, None);
            *sent(all) = Connection { resent: 500_000, rtt_us: 30_000, ..tcp() };
        },
        Cause::Line,
        "30.0 ms",
    ),
];

#[test]
fn each_limit_is_named_first() {
    for (name, change, cause, part) in CASES {
        let mut evidence = plain();
        change(&mut evidence);
        let found = judge(&evidence);
        let Some(first) = found.first() else { panic!("{name}: nothing was found") };
        assert_eq!(first.cause, *cause, "{name}: {found:#?}");
        let said = format!("{} {}", first.evidence, first.cure.as_deref().unwrap_or_default());
        assert!(said.contains(part), "{name}: {said}");
    }
}

#[test]
fn what_does_not_limit_is_a_side_remark() {
    let mut evidence = plain();
    set(sender(&mut evidence), "tx-checksum", "off");
    sender(&mut evidence).rules = Some(5_000);
    let found = judge(&evidence);
    assert_eq!(found[0].cause, Cause::Line, "{found:#?}");
    assert!(found[1..].iter().all(|finding| finding.weight < 0.25), "{found:#?}");
    assert_eq!(found.len(), 3, "{found:#?}");
}

#[test]
fn without_evidence_nothing_is_found() {
    assert!(judge(&Evidence::default()).is_empty());
    let blind = Stream { name: "send".to_owned(), sender: Some(Side::default()), ..Stream::default() };
    assert!(judge(&Evidence { streams: vec![blind], ..Evidence::default() }).is_empty());
}

#[test]
fn what_a_peer_says_cannot_break_a_judgement() {
    let mut evidence = plain();
    let wild = Connection { unread: u64::MAX, room: u64::MAX, rtt_us: u64::MAX, ..tcp() };
    receiver(&mut evidence).tcp = Some(wild);
    receiver(&mut evidence).processors = vec![(f64::NAN, f64::NAN), (1.0, 1.0), (0.0, 0.0)];
    receiver(&mut evidence).rules = Some(u64::MAX);
    receiver(&mut evidence).seconds = 0.0;
    set(receiver(&mut evidence), "mtu", "-1");
    for wild in [0, 1, u64::MAX / 2, u64::MAX] {
        *sent(&mut evidence) = Connection {
            busy_us: wild,
            rwnd_us: wild,
            sndbuf_us: wild,
            sent: wild,
            resent: wild,
            acked: wild,
            received: wild,
            rtt_us: wild,
            min_rtt_us: wild,
            pmtu: wild,
            unacked_packets: wild,
            window: wild,
            unread: wild,
            room: wild,
            buffer: wild,
            ..tcp()
        };
        let found = judge(&evidence);
        assert!(found.iter().all(|finding| (0.0..=1.0).contains(&finding.weight)), "{found:#?}");
    }
}

#[test]
fn a_cause_of_several_loads_stands_once() {
    let mut evidence = plain();
    sender(&mut evidence).thread = Some((0.99, 0.0));
    let again = Stream { name: "send by 8".to_owned(), ..evidence.streams[0].clone() };
    evidence.streams.push(again);
    let found = judge(&evidence);
    assert_eq!((found[0].of.as_str(), found[0].cause), ("send, send by 8", Cause::OneCore), "{found:#?}");
}
