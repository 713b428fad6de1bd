//! This machine: one client and one sidecore on a core each, with a lane between them, as `sidecore bench` runs them.
//!
//! Every parameter is measured by `sidecore bench calibrate`. The wait decisions of both sides are those of
//! [`Waiter`](sidecore_core::policy::notify::Waiter), as in the service and in the client library. Varying times are
//! drawn from their measured distributions.

mod host;
mod world;

use super::{Metric, Model, Rule, metric, percentile};
use crate::engine::Random;
use crate::outcome::Outcome;
use crate::settings::{Bytes, Count, Ns, Rate, Ratio, notify, settings};
use sidecore_core::policy::notify::Notify;
use world::{Arrival, lane};

type Time = Ns<0, 10_000_000_000>;

settings! {
    /// The system `machine`.
    LaneModel {
        client: Client {
            op: Op,
            size: Bytes<0, 1_048_576>,
            depth: Count<1, 4096>,
            /// Fraction of the capacity; 0: always `depth` in flight.
            load: Ratio<0, 99>,
            /// Open load, requests per second; 0: by `load`.
            rate_per_s: Rate<0, 1_000_000_000>,
            /// Repeats a bench's arrivals: those of its seed, and of this number of seeds after it, in turn with the
            /// runs'. 0: arrivals from the run's own seed.
            arrivals_seed: Count<0, 4_294_967_295>,
            arrivals_repeats: Count<0, 1000>,
            open_ns: Time,
            /// Limit in flight under open load; further requests wait.
            slots: Count<1, 65_536>,
            requests: Count<100, 100_000_000>,
        }
        service: Service {
            #[serde(deserialize_with = "notify")]
            notify: Notify,
            sample_every: Count<1, 1_000_000>,
        }
        lane: Lane {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            request_ns: Time,
            client_ns: Time,
            sample_ns: Time,
        }
        /// Times at sizes of this number of bytes.
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
            /// A sleep of at least this duration is a long one.
            deep_after_ns: Time,
            /// CPU time of falling asleep and waking.
            sleep_ns: Time,
            /// Cost of a sleep and a wake-up as assumed by the policies.
            park_cost_ns: Time,
            /// Duration of a wake-up as assumed by the policies.
            time_ns: Time,
        }
        /// A distribution of times: its percentiles.
        hop: Spread {
            #![expect(clippy::struct_field_names, reason = "names of plans")]
            p0_ns: Time,
            p10_ns: Time,
            p25_ns: Time,
            p50_ns: Time,
            p75_ns: Time,
            p90_ns: Time,
            p99_ns: Time,
            p100_ns: Time,
        }
        /// CPU time of ringing.
        ring: Spread;
        /// Time from the ring until the sleeper runs, after a short sleep and after a long one.
        wake_after_short: Spread;
        wake_after_long: Spread;
        /// Delay of a sleeper's own wake-up. A client has the kernel's timer slack.
        overshoot: Spread;
        client_overshoot: Spread;
        /// The host takes the core away: mean time from the end of one interruption to the next, and their duration.
        noise: Noise {
            every_ns: Time,
        }
        interruption: Spread;
        aes_128_gcm: Curve;
        aes_256_gcm: Curve;
        chacha20_poly1305: Curve;
        sha_256: Curve;
        rsa_2048_sign: Curve;
        rsa_4096_sign: Curve;
        p_256_sign: Curve;
        ed25519_sign: Curve;
    }
    /// Operations with known times.
    #[expect(non_camel_case_types, reason = "names of plans")]
    Op = noop | aes_128_gcm | aes_256_gcm | chacha20_poly1305 | sha_256 | rsa_2048_sign | rsa_4096_sign | p_256_sign
        | ed25519_sign;
}

impl Spread {
    /// Percentiles in ascending order: fraction, and time in ns.
    fn points(&self) -> [(f64, f64); 8] {
        let Self { p0_ns, p10_ns, p25_ns, p50_ns, p75_ns, p90_ns, p99_ns, p100_ns } = self;
        let times = [p0_ns, p10_ns, p25_ns, p50_ns, p75_ns, p90_ns, p99_ns, p100_ns].map(|time| time.get());
        std::array::from_fn(|point| (PARTS[point], times[point]))
    }

    /// Draws a time, ns. Between known percentiles it grows exponentially, because long times are rare.
    fn draw(&self, random: &mut Random) -> f64 {
        let (part, points) = (random.uniform(), self.points());
        let above = points.iter().position(|(known, _)| *known > part).unwrap_or(points.len() - 1).max(1);
        let ((from, low), (to, high)) = (points[above - 1], points[above]);
        let way = (part - from) / (to - from);
        if low > 0.0 { low * (high / low).powf(way) } else { low + (high - low) * way }
    }

    fn is_any(&self) -> bool {
        self.p100_ns.get() > 0.0
    }

    fn is_in_order(&self) -> bool {
        self.points().is_sorted_by(|(_, low), (_, high)| low <= high)
    }
}

impl Curve {
    /// The time at this size, ns. Linear between and beyond the known sizes.
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

/// The fractions of a [`Spread`]'s percentiles.
pub const PARTS: [f64; 8] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0];

/// Requests in flight for finding the capacity; loads are fractions of that.
const CAPACITY_DEPTH: u64 = 32;
const CAPACITY_REQUESTS: u64 = 20_000;

impl LaneModel {
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

impl Model for LaneModel {
    fn rules(&self) -> Vec<Rule> {
        let spreads = [
            ("hop.p0_ns", &self.hop),
            ("ring.p0_ns", &self.ring),
            ("wake-after-short.p0_ns", &self.wake_after_short),
            ("wake-after-long.p0_ns", &self.wake_after_long),
            ("overshoot.p0_ns", &self.overshoot),
            ("client-overshoot.p0_ns", &self.client_overshoot),
            ("interruption.p0_ns", &self.interruption),
        ];
        let order = "the times from p0 to p100 are to be in order".to_owned();
        let mut rules: Vec<Rule> = spreads.map(|(name, spread)| (!spread.is_in_order(), name, order.clone())).into();
        let message = "interruptions with nothing between them leave no time".to_owned();
        rules.push((self.interruption.is_any() && self.noise.every_ns.get() <= 0.0, "noise.every_ns", message));
        rules
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
