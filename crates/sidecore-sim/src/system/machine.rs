//! This machine: one client and one sidecore on a core each, and a lane between them, as `sidecore bench` runs them.
//!
//! Every parameter is measured by `sidecore bench calibrate`. How the two sides wait is decided by
//! [`Waiter`](sidecore_core::policy::notify::Waiter), as in the service and in the client library.

mod costs;
mod lane;
mod side;

use super::{Impossible, Metric, Model, Outcome};
use crate::settings::{Bytes, Count, Ns, Ratio, notify, settings};
use costs::Costs;
use lane::{Arrival, lane};
use serde::Deserialize;
use sidecore_core::policy::notify::Notify;

/// A time that was measured.
type Time = Ns<0, 10_000_000_000>;

settings! {
    /// The system `machine`.
    Machine {
        client: Client {
            op: Op,
            size: Bytes<0, 1_048_576>,
            depth: Count<1, 4096>,
            /// Part of the capacity; 0: always `depth` in flight.
            load: Ratio<0, 99>,
            open_ns: Time,
            requests: Count<100, 100_000_000>,
        }
        service: Service {
            #[serde(deserialize_with = "notify")]
            notify: Notify,
            sample_every: Count<1, 1_000_000>,
        }
        lane: Lane {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            hop_ns: Time,
            request_ns: Time,
            client_ns: Time,
            sample_ns: Time,
        }
        /// Times at sizes of so many bytes.
        r#move: Curve {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            at_64_ns: Time,
            at_1024_ns: Time,
            at_16384_ns: Time,
        }
        transfer: Curve;
        copy: Curve;
        wake: Wake {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            /// From the ring until the sleeper runs.
            latency_ns: Time,
            /// The same after a long sleep, and from which sleep on that is.
            deep_latency_ns: Time,
            deep_after_ns: Time,
            /// CPU time of ringing.
            send_ns: Time,
            /// CPU time of going to sleep and coming back.
            sleep_ns: Time,
            /// What a sleep and a wake-up are taken to cost by the policies.
            park_cost_ns: Time,
        }
        /// How much later than asked a sleeper wakes by itself. A client has the kernel's timer slack.
        timer: Timer {
            overshoot_ns: Time,
            client_overshoot_ns: Time,
        }
        /// The host takes the core away: after how much time on it, and for how long, in the mean.
        noise: Noise {
            every_ns: Time,
            lasts_ns: Time,
        }
        aes_128_gcm: Curve;
        aes_256_gcm: Curve;
        chacha20_poly1305: Curve;
        sha_256: Curve;
        rsa_2048_sign: Curve;
        rsa_4096_sign: Curve;
        p_256_sign: Curve;
        ed25519_sign: Curve;
    }
}

/// Operations whose time is known.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(in crate::system) enum Op {
    #[serde(rename = "noop")]
    Noop,
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
    #[serde(rename = "sha-256")]
    Sha256,
    #[serde(rename = "rsa-2048-sign")]
    Rsa2048Sign,
    #[serde(rename = "rsa-4096-sign")]
    Rsa4096Sign,
    #[serde(rename = "p-256-sign")]
    P256Sign,
    #[serde(rename = "ed25519-sign")]
    Ed25519Sign,
}

impl Curve {
    /// The time at that size, ns. Between and beyond the known sizes times are on a line.
    fn at(&self, size: f64) -> f64 {
        let points =
            [(64.0, self.at_64_ns.get()), (1_024.0, self.at_1024_ns.get()), (16_384.0, self.at_16384_ns.get())];
        let [(from, low), (to, high)] =
            if size <= points[1].0 { [points[0], points[1]] } else { [points[1], points[2]] };
        let time = low + (high - low) * (size - from) / (to - from);
        time.max(0.0)
    }
}

pub(super) const METRICS: &[Metric] = &[
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

impl Machine {
    /// Times of the operation; none of one that does nothing.
    fn op(&self) -> Option<&Curve> {
        Some(match self.client.op {
            Op::Noop => return None,
            Op::Aes128Gcm => &self.aes_128_gcm,
            Op::Aes256Gcm => &self.aes_256_gcm,
            Op::ChaCha20Poly1305 => &self.chacha20_poly1305,
            Op::Sha256 => &self.sha_256,
            Op::Rsa2048Sign => &self.rsa_2048_sign,
            Op::Rsa4096Sign => &self.rsa_4096_sign,
            Op::P256Sign => &self.p_256_sign,
            Op::Ed25519Sign => &self.ed25519_sign,
        })
    }
}

impl Model for Machine {
    fn check(&self) -> Result<(), Impossible> {
        let (every, lasts) = (self.noise.every_ns.get(), self.noise.lasts_ns.get());
        if lasts > 0.0 && every <= 0.0 {
            let message = format!("interruptions of {lasts} ns with nothing between them leave no time");
            return Err(Impossible { parameter: "noise.every_ns", message });
        }
        Ok(())
    }

    fn run(&self, seed: u64) -> Outcome {
        let costs = Costs::of(self);
        let (load, policy) = (self.client.load.get(), self.service.notify);
        let requests = u64::from(self.client.requests.get());
        let found = if load > 0.0 {
            let capacity =
                lane(&costs, Arrival::Closed(CAPACITY_DEPTH), Notify::Spin, CAPACITY_REQUESTS, seed).0.rate();
            lane(&costs, Arrival::Open { gap: 1e9 / (capacity * load) }, policy, requests, seed)
        } else {
            lane(&costs, Arrival::Closed(u64::from(self.client.depth.get())), policy, requests, seed)
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
