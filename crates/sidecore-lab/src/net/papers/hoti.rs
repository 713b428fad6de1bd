//! An interface on the processor's chip compared with one behind PCI Express. Source: Liao and Bhuyan, "Performance
//! Measurement of an Integrated NIC Architecture with 10GbE", HOTI 2009, pages 52 to 59.

use super::Study;
use super::contrast::{Contrast, Found, Metrics, Side};
use super::effect::{Against, Effect};
use crate::net::account::Figure;
use crate::net::link::Settings;
use crate::net::protocol::{Direction, Load, Transport};
use crate::net::sampling::Component;
use sidecore::core::policy::notify::Notify;

const VARIANTS: [&str; 2] = ["integrated", "discrete"];
/// Cost of an access to a register of each, ns.
const REGISTERS: [u64; 2] = [0, 1_000];
/// As the paper's interfaces: 32 packets, or 8 clocks of 25 us, the timer of the driver nxge of illumos.
const MODERATION: Notify = Notify::Coalesce { count: 32, delay: 200_000 };
const CONNECTIONS: usize = 32;
const LARGE: usize = 65_536;
const SMALL: usize = 64;

pub(super) fn study(quick: bool) -> Study {
    Study {
        scenario: "net-hoti",
        plan: None,
        contrasts: contrasts(quick),
        effects: effects(),
        is_ordered: true,
        notes: &[
            "published are figures of receiving over 32 connections; what the paper gives in words stands as a number: 40 % fewer context \
             switches on the chip are 1.67 x, no advantage for small I/O is 1.00 x, 6 us less latency are 6 us. By what context \
             switches are counted is not known, so both are there",
            "both links interrupt for 32 frames or after 200 us, round trips excepted, where each frame interrupts: 400 us \
             of moderation would hide what is looked for. Nothing is offloaded",
            "the whole path is driver, stack and copy, as the paper adds them up: without scheduler, entry and program",
            "CPU time is that of both ends and of the link between them, whose threads do the work of driver and interface. Both \
             ends are on this machine, so that to send and to receive differ in little but their names",
        ],
    }
}

fn contrasts(quick: bool) -> Vec<Contrast> {
    let (sizes, counts): (&[usize], &[usize]) = if quick {
        (&[SMALL, LARGE], &[1])
    } else {
        (&[SMALL, 256, 1_024, 4_096, 16_384, LARGE], &[1, 2, 4, 8, 16, 64])
    };
    let trips: &[usize] = if quick { &[SMALL] } else { &[SMALL, 256, 1_024, 4_096, 16_384] };
    let mut contrasts = Vec::new();
    for direction in [Direction::Receive, Direction::Send] {
        let sizes = if quick && direction == Direction::Send { &[LARGE][..] } else { sizes };
        let counts = if quick && direction == Direction::Send { &[] } else { counts };
        contrasts.extend(sizes.iter().map(|size| stream(direction, *size, CONNECTIONS)));
        contrasts.extend(counts.iter().map(|count| stream(direction, LARGE, *count)));
        if !quick || direction == Direction::Receive {
            contrasts.push(parts(direction));
        }
    }
    contrasts.extend(trips.iter().map(|size| trip(*size)));
    contrasts
}

fn stream(direction: Direction, size: usize, connections: usize) -> Contrast {
    Contrast::new(stream_sides(direction, size, connections), of_stream)
}

fn parts(direction: Direction) -> Contrast {
    Contrast::new(stream_sides(direction, LARGE, CONNECTIONS), of_parts).taken_apart()
}

fn stream_sides(direction: Direction, size: usize, connections: usize) -> [Side; 2] {
    sides(load(direction, size, connections), Some(MODERATION))
}

fn load(direction: Direction, size: usize, connections: usize) -> Load {
    Load::new(Transport::Tcp, direction, size, connections)
}

fn trip(size: usize) -> Contrast {
    Contrast::new(sides(load(Direction::RoundTrip, size, 1), None), of_trip)
}

fn sides(load: Load, moderation: Option<Notify>) -> [Side; 2] {
    [0, 1].map(|at| {
        let link = Settings { offload: false, register: REGISTERS[at], moderation, ..Settings::default() };
        Side::new(VARIANTS[at], link, load, Vec::new())
    })
}

fn of_stream(found: &Found) -> Metrics {
    let switches =
        found.run.both.near.per_second(Figure::ContextSwitches).map(|switches| ("context_switches_per_s", switches));
    Metrics::from([
        ("bandwidth_gbit_per_s", found.mbit_per_s() / 1e3),
        ("cpu_percent", found.cpu_percent()),
        ("packets_per_interrupt", found.frames_per_interrupt()),
    ])
    .into_iter()
    .chain(switches)
    .collect()
}

/// By the parts of the paper's path. The scheduler is no part of it.
const PARTS: [(&str, &[Component]); 5] = [
    ("driver_us_per_packet", &[Component::Driver]),
    ("stack_us_per_packet", &[Component::Protocol, Component::Socket]),
    ("copy_us_per_packet", &[Component::Copy, Component::Buffers]),
    (
        "path_us_per_packet",
        &[Component::Driver, Component::Protocol, Component::Socket, Component::Copy, Component::Buffers],
    ),
    ("scheduler_us_per_packet", &[Component::Scheduler]),
];

fn of_parts(found: &Found) -> Metrics {
    let Some((parts, packets)) = found.run.breakdown.as_ref().zip(found.run.packets()) else { return Metrics::new() };
    let us = parts.us();
    let of = |wanted: &[Component]| {
        us.iter().filter(|(part, _)| wanted.contains(part)).map(|(_, share)| share.seen).sum::<f64>()
    };
    PARTS.iter().filter(|_| !us.is_empty()).map(|(name, wanted)| (*name, of(wanted) / packets)).collect()
}

fn of_trip(found: &Found) -> Metrics {
    found.latency_us().map(|us| ("latency_us", us)).into_iter().collect()
}

/// Source of the published values: `docs/published/inic.csv`, receive.
fn effects() -> Vec<Effect> {
    let receive = |size, connections| (Transport::Tcp, Direction::Receive, Some(size), connections);
    let send = (Transport::Tcp, Direction::Send, Some(LARGE), CONNECTIONS);
    let trip = (Transport::Tcp, Direction::RoundTrip, Some(SMALL), 1);
    let bandwidth = "bandwidth_gbit_per_s";
    let large = receive(LARGE, CONNECTIONS);
    let table = [
        ("driver, each packet", large, "driver_us_per_packet", Some(4.7 / 2.6)),
        ("whole path, each packet", large, "path_us_per_packet", Some(28.0 / 20.0)),
        ("stack, each packet", large, "stack_us_per_packet", None),
        ("copying and freeing, each packet", large, "copy_us_per_packet", None),
        ("scheduler, each packet", large, "scheduler_us_per_packet", None),
        ("context switches, each second", large, "context_switches_per_s", Some(1.0 / 0.6)),
        ("context switches, each byte", large, "context_switches_per_s/bandwidth_gbit_per_s", Some(1.0 / 0.6)),
        ("CPU time, each byte", large, "cpu_percent/bandwidth_gbit_per_s", Some(35.0 / 27.0 * 8.97 / 8.31)),
        ("CPU time", large, "cpu_percent", Some(35.0 / 27.0)),
        ("bandwidth, 64 B", receive(SMALL, CONNECTIONS), bandwidth, Some(1.0)),
        ("bandwidth, 64 KiB", large, bandwidth, Some(8.31 / 8.97)),
        ("bandwidth, 64 KiB, sent", send, bandwidth, None),
        ("bandwidth, 64 KiB, 1 connection", receive(LARGE, 1), bandwidth, None),
    ];
    let ratio = |(name, load, metric, published): (&str, _, _, _)| Effect {
        name: name.to_owned(),
        load,
        variant: VARIANTS[1],
        metric,
        against: Against::Ratio,
        published,
    };
    let latency =
        Effect { against: Against::Difference, ..ratio(("round trip of 64 B", trip, "latency_us", Some(6.0))) };
    table.into_iter().map(ratio).chain([latency]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_called_published_was_published() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published/inic.csv");
        let text = fs::read_to_string(file).unwrap();
        let published = |metric: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(',')).unwrap();
            let (integrated, discrete) = line.split_once(',').unwrap();
            discrete.parse::<f64>().unwrap() / integrated.parse::<f64>().unwrap()
        };
        let effects = effects();
        for (name, expected) in [
            ("bandwidth, 64 KiB", published("bandwidth_gbit_per_s")),
            ("CPU time", published("cpu_percent")),
            ("driver, each packet", published("driver_us_per_packet")),
            ("whole path, each packet", published("path_us_per_packet")),
            ("CPU time, each byte", published("cpu_percent") / published("bandwidth_gbit_per_s")),
        ] {
            let effect = effects.iter().find(|effect| effect.name == name).unwrap();
            assert!((effect.published.unwrap() - expected).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn each_effect_is_of_a_load_that_runs() {
        for quick in [false, true] {
            let Study { contrasts, effects, .. } = study(quick);
            assert!(effects.iter().all(|effect| contrasts.iter().any(|of| effect.is_of(of))), "{quick}");
        }
    }
}
