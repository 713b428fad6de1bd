//! This machine: one client and one sidecore on a core each, and a lane between them, as `sidecore bench` runs them.
//!
//! Every parameter is measured by `sidecore bench calibrate`. How the two sides wait is decided by
//! [`Waiter`](sidecore_core::policy::notify::Waiter), as in the service and in the client library.

mod lane;

use super::{Metric, Model, Outcome, Rule, metric, percentile};
use crate::settings::{Bytes, Count, Ns, Rate, Ratio, notify, settings};
use lane::{Arrival, lane};
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
            /// Requests a second that come by themselves; 0: as `load` says.
            rate_per_s: Rate<0, 1_000_000_000>,
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
    /// Operations whose time is known.
    #[expect(non_camel_case_types, reason = "names of plans")]
    Op = noop | aes_128_gcm | aes_256_gcm | chacha20_poly1305 | sha_256 | rsa_2048_sign | rsa_4096_sign | p_256_sign
        | ed25519_sign;
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
    metric("ops_per_s", "1/s", "requests done in a second"),
    metric("mean_us", "us", "mean time from submission to reception"),
    metric("p50_us", "us", "median of it"),
    metric("p99_us", "us", "99th percentile of it"),
    metric("client_cpu_us", "us", "CPU time of the client for each request"),
    metric("service_cpu_us", "us", "CPU time of the sidecore for each request"),
];

/// Requests in flight when the capacity is found that loads are fractions of.
const CAPACITY_DEPTH: u64 = 32;
const CAPACITY_REQUESTS: u64 = 20_000;

impl Machine {
    /// Times of the operation; none of one that does nothing.
    fn op(&self) -> Option<&Curve> {
        Some(match self.client.op {
            Op::noop => return None,
            Op::aes_128_gcm => &self.aes_128_gcm,
            Op::aes_256_gcm => &self.aes_256_gcm,
            Op::chacha20_poly1305 => &self.chacha20_poly1305,
            Op::sha_256 => &self.sha_256,
            Op::rsa_2048_sign => &self.rsa_2048_sign,
            Op::rsa_4096_sign => &self.rsa_4096_sign,
            Op::p_256_sign => &self.p_256_sign,
            Op::ed25519_sign => &self.ed25519_sign,
        })
    }
}

impl Model for Machine {
    fn rules(&self) -> Vec<Rule> {
        let (every, lasts) = (self.noise.every_ns.get(), self.noise.lasts_ns.get());
        let message = format!("interruptions of {lasts} ns with nothing between them leave no time");
        vec![(lasts > 0.0 && every <= 0.0, "noise.every_ns", message)]
    }

    fn run(&self, seed: u64) -> Outcome {
        let (load, policy) = (self.client.load.get(), self.service.notify);
        let rate = self.client.rate_per_s.get();
        let arrival = if rate > 0.0 {
            Arrival::Open(1e9 / rate)
        } else if load > 0.0 {
            let capacity = lane(self, Arrival::Closed(CAPACITY_DEPTH), Notify::Spin, CAPACITY_REQUESTS, seed).0.rate();
            Arrival::Open(1e9 / (capacity * load))
        } else {
            Arrival::Closed(self.client.depth.get().into())
        };
        let (mut world, engine) = lane(self, arrival, policy, self.client.requests.get().into(), seed);
        let per = |ns: f64| ns / world.times.len().max(1) as f64 / 1e3;
        let cpu = [per(world.client.cpu), per(world.sidecore.cpu)];
        let busy = world.sidecore.worked / engine.now().max(1) as f64 * 100.0;
        let mean = per(world.times.iter().sum::<u64>() as f64);
        let [p50, p99] = [0.5, 0.99].map(|part| percentile(&mut world.times, part) / 1e3);
        let values = vec![world.rate(), mean, p50, p99, cpu[0], cpu[1]];
        let limit = if busy > 90.0 { format!("sidecore {busy:.0} %") } else { format!("client sidecore {busy:.0} %") };
        Outcome { values, limit, trace: engine.trace() }
    }
}
