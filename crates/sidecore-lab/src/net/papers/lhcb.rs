//! Frame size and interrupt coalescence between two PCs. Source: W. Thannhaeuser, "Network Performance Optimisation and
//! Load Balancing", slides of the experiment `LHCb`.

use super::Study;
use super::contrast::{Contrast, Found, Metrics, Side};
use super::effect::{Against, Effect};
use crate::net::link::Settings;
use crate::net::protocol::{Direction, Load, Transport};
use sidecore::core::policy::notify::Notify;

const RATE: u64 = 1_000_000_000;
/// Frames that interrupt immediately. Source: `plans/parameters/lhcb.toml`.
const COUNT: u32 = 16;
/// Bytes of a datagram's headers, and Ethernet's overhead of a packet.
const HEADERS: u32 = 28;
const ETHERNET: u32 = 38;
const PING: usize = 64;
const STREAM: usize = 65_536;

/// A link: its name in the slides' table, its largest packet in bytes, and its coalescence in us.
type Setting = (&'static str, u32, u32);

/// Pairs of a first link and a second one. The plan's coalescence replaces a missing one in the slides.
const PAIRS: [[Setting; 2]; 2] = [
    [("mtu=1500", 1500, 200), ("mtu=9000", 9000, 200)],
    [("coalescence_us=32", 1500, 32), ("coalescence_us=1024", 1500, 1024)],
];

/// The same by TCP on a line without a rate. Processors are the limit then, as in the slides' PCs.
const FREE: [[Setting; 2]; 2] = [
    [("mtu=1500, free line", 1500, 200), ("mtu=9000, free line", 9000, 200)],
    [("coalescence_us=32, free line", 1500, 32), ("coalescence_us=1024, free line", 1500, 1024)],
];
const CHANGES: [&str; 2] = ["MTU 9000", "1024 us"];

/// Mbit/s by TCP, by UDP sent and by UDP received, in the order of [`PAIRS`]. Source: `docs/published/lhcb.csv`.
const PUBLISHED: [[[f64; 3]; 2]; 2] =
    [[[597.67, 648.53, 647.76], [704.94, 856.52, 854.52]], [[526.09, 587.43, 556.76], [593.94, 666.43, 633.72]]];

pub(super) fn study(_quick: bool) -> Study {
    let loads =
        [(Transport::Tcp, Direction::Send), (Transport::Udp, Direction::Send), (Transport::Udp, Direction::RoundTrip)];
    let limited = |pair| loads.map(|(transport, direction)| contrast(pair, transport, direction, Some(RATE)));
    let free = FREE.iter().map(|pair| contrast(pair, Transport::Tcp, Direction::Send, None));
    Study {
        scenario: "net-lhcb",
        plan: Some("lhcb.toml"),
        contrasts: PAIRS.iter().flat_map(limited).chain(free).collect(),
        effects: effects(),
        is_ordered: false,
        notes: &[
            "the line has 1000 Mbit/s, or takes no time where it is called free: then the processors are the limit, which is what \
             limited the slides' PCs. Datagrams go at the pace of the line, for this interface does not hold a sender back: \
             what it has no room for it drops. Nothing is offloaded",
            "each end's interrupts are for frames that come; the plan counts those that go as well",
            "CPU time is that of both ends and of the link between them",
        ],
    }
}

fn contrast(pair: &[Setting; 2], transport: Transport, direction: Direction, rate_bits_per_s: Option<u64>) -> Contrast {
    let metrics = match (transport, direction) {
        (_, Direction::RoundTrip) => of_trip,
        (Transport::Tcp, _) => of_tcp,
        (Transport::Udp, _) => of_udp,
    };
    let sides = pair.map(|(name, mtu, us)| {
        let datagram = (mtu - HEADERS) as usize;
        let (size, rate) = match (transport, direction) {
            (_, Direction::RoundTrip) => (PING, None),
            (Transport::Tcp, _) => (STREAM, None),
            (Transport::Udp, _) => (datagram, Some(RATE as f64 / 8.0 / f64::from(mtu + ETHERNET))),
        };
        let moderation = Some(Notify::Coalesce { count: COUNT, delay: u64::from(us) * 1_000 });
        let link = Settings { rate_bits_per_s, mtu, moderation, offload: false, ..Settings::default() };
        let plan = vec![("link.mtu_bytes", mtu.to_string()), ("nic.moderation_us", us.to_string())];
        Side::new(name, link, Load { rate, ..Load::new(transport, direction, size, 1) }, plan)
    });
    Contrast::new(sides, metrics)
}

fn of_tcp(found: &Found) -> Metrics {
    [("tcp_mbit_per_s", found.mbit_per_s()), ("cpu_percent", found.cpu_percent())].into()
}

fn of_udp(found: &Found) -> Metrics {
    [
        ("udp_sent_mbit_per_s", found.load.mbit_per_s(found.sent())),
        ("udp_received_mbit_per_s", found.mbit_per_s()),
        ("packets_per_interrupt", found.frames_per_interrupt()),
    ]
    .into()
}

fn of_trip(found: &Found) -> Metrics {
    found.latency_us().map(|us| ("latency_us", us)).into_iter().collect()
}

fn effects() -> Vec<Effect> {
    let [tcp, udp, trip] =
        [(Transport::Tcp, Direction::Send), (Transport::Udp, Direction::Send), (Transport::Udp, Direction::RoundTrip)]
            .map(|(transport, direction)| (transport, direction, None, 1));
    // With the index of the published value.
    let figures = [
        ("TCP", tcp, "tcp_mbit_per_s", Some(0), PAIRS),
        ("TCP on a free line", tcp, "tcp_mbit_per_s", Some(0), FREE),
        ("UDP sent", udp, "udp_sent_mbit_per_s", Some(1), PAIRS),
        ("UDP received", udp, "udp_received_mbit_per_s", Some(2), PAIRS),
        ("CPU time each byte, TCP", tcp, "cpu_percent/tcp_mbit_per_s", None, PAIRS),
        ("packets each interrupt", udp, "packets_per_interrupt", None, PAIRS),
        ("round trip", trip, "latency_us", None, PAIRS),
    ];
    let of_pair = |at: usize| {
        let [first, other] = PUBLISHED[at];
        figures.map(|(name, load, metric, published, pairs)| Effect {
            name: format!("{name}, {}", CHANGES[at]),
            load,
            variant: pairs[at][1].0,
            metric,
            against: Against::Ratio,
            published: published.map(|figure: usize| other[figure] / first[figure]),
        })
    };
    (0..PAIRS.len()).flat_map(of_pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_called_published_was_published() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published/lhcb.csv");
        let text = fs::read_to_string(file).unwrap();
        for ((name, ..), figures) in PAIRS.iter().flatten().zip(PUBLISHED.as_flattened()) {
            let line = format!("{name},{}", figures.map(|figure| figure.to_string()).join(","));
            assert!(text.lines().any(|known| known == line), "{line}");
        }
    }

    #[test]
    fn each_effect_is_of_a_load_that_runs() {
        let Study { contrasts, effects, .. } = study(false);
        assert!(effects.iter().all(|effect| contrasts.iter().any(|of| effect.is_of(of))));
    }
}
