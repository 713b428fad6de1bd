//! This machine: one client and one sidecore on a core each, and a lane between them, as `sidecore bench` runs them.
//!
//! Every parameter is measured by `sidecore bench calibrate`. How the two sides wait is decided by
//! [`Waiter`](sidecore_core::policy::notify::Waiter), as in the service and in the client library.

mod lane;
mod side;

use super::{Impossible, Metric, Outcome, System};
use crate::settings::{Kind, Parameter, Settings};
use lane::{Arrival, Costs, lane};
use sidecore_core::policy::notify::Notify;

/// The system `machine`.
#[derive(Debug)]
pub(super) struct Machine;

/// Operations whose time is known.
const OPS: &[&str] = &[
    "noop",
    "aes-128-gcm",
    "aes-256-gcm",
    "chacha20-poly1305",
    "sha-256",
    "rsa-2048-sign",
    "rsa-4096-sign",
    "p-256-sign",
    "ed25519-sign",
];

const POLICIES: &[&str] = &["spin", "park", "timer(250us)", "coalesce(16,100us)", "break-even", "learn", "predict"];

const LONG: f64 = 1e10;

const fn ns(name: &'static str) -> Parameter {
    Parameter { name, unit: "ns", kind: Kind::Number(0.0, LONG) }
}

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "client.op", unit: "1", kind: Kind::Choice(OPS) },
    Parameter { name: "client.size", unit: "B", kind: Kind::Count(0, 1 << 20) },
    Parameter { name: "client.depth", unit: "1", kind: Kind::Count(1, 4096) },
    Parameter { name: "client.load", unit: "1", kind: Kind::Number(0.0, 0.99) },
    ns("client.open_ns"),
    Parameter { name: "client.requests", unit: "1", kind: Kind::Count(100, 100_000_000) },
    Parameter { name: "service.notify", unit: "1", kind: Kind::Choice(POLICIES) },
    Parameter { name: "service.sample_every", unit: "1", kind: Kind::Count(1, 1_000_000) },
    ns("lane.hop_ns"),
    ns("lane.request_ns"),
    ns("lane.client_ns"),
    ns("lane.sample_ns"),
    ns("move.at_64_ns"),
    ns("move.at_1024_ns"),
    ns("move.at_16384_ns"),
    ns("transfer.at_64_ns"),
    ns("transfer.at_1024_ns"),
    ns("transfer.at_16384_ns"),
    ns("copy.at_64_ns"),
    ns("copy.at_1024_ns"),
    ns("copy.at_16384_ns"),
    ns("wake.latency_ns"),
    ns("wake.deep_latency_ns"),
    ns("wake.deep_after_ns"),
    ns("wake.send_ns"),
    ns("wake.sleep_ns"),
    ns("wake.park_cost_ns"),
    ns("timer.overshoot_ns"),
    ns("timer.client_overshoot_ns"),
    ns("noise.every_ns"),
    ns("noise.lasts_ns"),
    ns("aes-128-gcm.at_64_ns"),
    ns("aes-128-gcm.at_1024_ns"),
    ns("aes-128-gcm.at_16384_ns"),
    ns("aes-256-gcm.at_64_ns"),
    ns("aes-256-gcm.at_1024_ns"),
    ns("aes-256-gcm.at_16384_ns"),
    ns("chacha20-poly1305.at_64_ns"),
    ns("chacha20-poly1305.at_1024_ns"),
    ns("chacha20-poly1305.at_16384_ns"),
    ns("sha-256.at_64_ns"),
    ns("sha-256.at_1024_ns"),
    ns("sha-256.at_16384_ns"),
    ns("rsa-2048-sign.at_64_ns"),
    ns("rsa-2048-sign.at_1024_ns"),
    ns("rsa-2048-sign.at_16384_ns"),
    ns("rsa-4096-sign.at_64_ns"),
    ns("rsa-4096-sign.at_1024_ns"),
    ns("rsa-4096-sign.at_16384_ns"),
    ns("p-256-sign.at_64_ns"),
    ns("p-256-sign.at_1024_ns"),
    ns("p-256-sign.at_16384_ns"),
    ns("ed25519-sign.at_64_ns"),
    ns("ed25519-sign.at_1024_ns"),
    ns("ed25519-sign.at_16384_ns"),
];

/// Sizes at which times are known, bytes, and how parameters call them. Between and beyond them times are on a line.
const KNOWN: [(f64, &str); 3] = [(64.0, "at_64_ns"), (1_024.0, "at_1024_ns"), (16_384.0, "at_16384_ns")];

/// The time of `part` at that size, ns.
fn at_size(settings: &Settings, part: &str, size: f64) -> f64 {
    let points = KNOWN.map(|(size, name)| (size, settings.number(&format!("{part}.{name}"))));
    let [(from, low), (to, high)] = if size <= points[1].0 { [points[0], points[1]] } else { [points[1], points[2]] };
    let time = low + (high - low) * (size - from) / (to - from);
    time.max(0.0)
}

const METRICS: &[Metric] = &[
    Metric { name: "ops_per_s", unit: "1/s", meaning: "requests done in a second" },
    Metric { name: "mean_us", unit: "us", meaning: "mean time from submission to reception" },
    Metric { name: "p50_us", unit: "us", meaning: "median of it" },
    Metric { name: "p99_us", unit: "us", meaning: "99th percentile of it" },
    Metric { name: "client_cpu_us", unit: "us", meaning: "CPU time of the client for each request" },
    Metric { name: "service_cpu_us", unit: "us", meaning: "CPU time of the sidecore for each request" },
];

/// Requests in flight when the capacity is found that loads are fractions of.
const CAPACITY_DEPTH: u64 = 32;
const CAPACITY_REQUESTS: u64 = 20_000;

impl System for Machine {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn parameters(&self) -> &'static [Parameter] {
        PARAMETERS
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn check(&self, settings: &Settings) -> Result<(), Impossible> {
        let (every, lasts) = (settings.number("noise.every_ns"), settings.number("noise.lasts_ns"));
        if lasts > 0.0 && every < 2.0 * lasts {
            let message = format!("interruptions of {lasts} ns every {every} ns leave no time: is it in ns?");
            return Err(Impossible { parameter: "noise.every_ns", message });
        }
        Ok(())
    }

    fn run(&self, settings: &Settings, seed: u64) -> Outcome {
        let costs = Costs::of(settings);
        let load = settings.number("client.load");
        let requests = settings.count("client.requests");
        let (depth, policy) = (settings.count("client.depth"), settings.word("service.notify"));
        let found = if load > 0.0 {
            let capacity =
                lane(&costs, Arrival::Closed(CAPACITY_DEPTH), Notify::Spin, CAPACITY_REQUESTS, seed).0.rate();
            lane(&costs, Arrival::Open { gap: 1e9 / (capacity * load) }, notify(policy), requests, seed)
        } else {
            lane(&costs, Arrival::Closed(depth), notify(policy), requests, seed)
        };
        let (mut world, engine) = found;
        let per = |ns: f64| ns / world.times.len().max(1) as f64 / 1e3;
        let cpu = (per(world.client.cpu), per(world.sidecore.cpu));
        let busy = world.sidecore.worked / engine.now().max(1) as f64 * 100.0;
        let rate = world.rate();
        let mean = per(world.times.iter().sum::<u64>() as f64);
        world.times.sort_unstable();
        let at = |part: f64| {
            world.times.get((world.times.len() as f64 * part) as usize).map_or(f64::NAN, |t| *t as f64 / 1e3)
        };
        let values = vec![rate, mean, at(0.5), at(0.99), cpu.0, cpu.1];
        let limit = if busy > 90.0 { format!("sidecore {busy:.0} %") } else { format!("client sidecore {busy:.0} %") };
        Outcome { values, limit, events: engine.events(), trace: engine.trace() }
    }
}

/// The words of the plan are spellings of policies.
fn notify(spelling: &str) -> Notify {
    Notify::parse(spelling).unwrap_or(Notify::Park)
}
