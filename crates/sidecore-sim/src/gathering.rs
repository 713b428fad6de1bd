//! Simulates how the batches of a device fill, and the times of requests in them, under the service's own policy.
//!
//! The policy is `policy/gather`; the device's times and the arrivals are modelled. Requests of one class arrive at
//! random times (Poisson) and wait in the device's queue while it computes. A free device sees them, begins with the
//! number that the policy chooses, and answers all requests of a batch at its end.

mod device;
mod pool;

use crate::engine::{Engine, World};
use device::Device;
pub use pool::{PoolLine, Requests, Rule, table as pools};
use sidecore_core::policy::gather::BatchPolicy;
pub use sidecore_core::policy::gather::MAX_BATCH;
use sidecore_core::time::Nanos;

/// Times of a device, each at least 1 ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Name in tables.
    pub name: String,
    /// Time of one request alone on an ordinary device, ns.
    pub single: Nanos,
    /// Times of 1, 2, … requests in one batch, ns.
    pub batches: [Nanos; MAX_BATCH],
}

impl Unit {
    /// Devices with known times: a 2 GHz Sapphire Rapids with Intel's `crypto_mb`, as published, whose eight lanes
    /// take the same time for one as for eight; and this project's device on a Zen 5, measured by `sidecore bench
    /// batch`.
    pub fn known() -> Vec<Self> {
        let unit = |name: &str, single, batches| Self { name: name.to_owned(), single, batches };
        vec![
            unit("RSA-2048, Sapphire Rapids", 391_000, [909_000; MAX_BATCH]),
            unit("RSA-2048, Zen 5", 197_000, [324_000, 328_000, 315_000, 319_000, 621_000, 619_000, 632_000, 638_000]),
            unit("RSA-1024, Zen 5", 66_000, [45_700, 46_400, 46_800, 47_200, 85_900, 87_900, 89_500, 91_500]),
        ]
    }

    /// Highest rate with a full queue, requests per second.
    pub fn capacity(&self) -> f64 {
        let gather = self.gather();
        gather.full() as f64 * 1e9 / gather.time(gather.full()) as f64
    }

    fn gather(&self) -> BatchPolicy {
        BatchPolicy::new(self.batches, self.single)
    }
}

/// One device at one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The device.
    pub unit: String,
    /// Arrivals as a fraction of its [capacity](Unit::capacity).
    pub load: f64,
    /// Arrivals per second.
    pub per_s: f64,
    /// Mean size of a batch.
    pub fill: f64,
    /// Median of the time from arrival to answer, ns.
    pub p50: Nanos,
    /// Its 99th percentile, ns.
    pub p99: Nanos,
    /// The 99th percentile relative to the time of one request alone.
    pub p99_to_single: f64,
    /// The longest time that a request waited on a free device, ns.
    pub held: Nanos,
    /// The policy's bound on that time, ns.
    pub bound: Nanos,
}

/// Loads, as fractions of the capacity.
pub const LOADS: [f64; 7] = [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95];
const REQUESTS: usize = 50_000;

/// Each device at each of [`LOADS`].
pub fn table(units: &[Unit], seed: u64) -> Vec<Line> {
    units.iter().flat_map(|unit| LOADS.map(|load| run(unit, load, seed))).collect()
}

#[derive(Clone, Copy)]
enum DeviceEvent {
    Arrival,
    Due,
    Done,
}

struct Alone {
    /// A request's name is its time of arrival, ns.
    device: Device<Nanos>,
    /// Mean time between arrivals, ns.
    gap: f64,
    left: usize,
    took: Vec<Nanos>,
}

impl World for Alone {
    type Event = DeviceEvent;

    fn handle(&mut self, engine: &mut Engine<DeviceEvent>, event: DeviceEvent) {
        let now = engine.now();
        match event {
            DeviceEvent::Arrival => {
                self.left -= 1;
                if self.left > 0 {
                    let gap = engine.random().exponential(self.gap);
                    engine.after(gap.round() as Nanos, DeviceEvent::Arrival);
                }
                self.device.submit(now);
            }
            DeviceEvent::Due => self.device.due(),
            DeviceEvent::Done => self.took.extend(self.device.done(now).map(|arrived| now - arrived)),
        }
        self.device.look(engine, DeviceEvent::Due, DeviceEvent::Done);
    }
}

fn run(unit: &Unit, load: f64, seed: u64) -> Line {
    let (gather, per_s) = (unit.gather(), load * unit.capacity());
    let bound = gather.longest_wait();
    let device = Device::new(gather);
    let mut alone = Alone { device, gap: 1e9 / per_s, left: REQUESTS, took: Vec::with_capacity(REQUESTS) };
    let mut engine = Engine::new(seed);
    engine.schedule(0, DeviceEvent::Arrival);
    engine.run(&mut alone, Nanos::MAX);
    let Alone { mut took, device: Device { batches, held, .. }, .. } = alone;
    took.sort_unstable();
    let at = |share: f64| took[((took.len() as f64 * share).ceil() as usize).clamp(1, took.len()) - 1];
    Line {
        unit: unit.name.clone(),
        load,
        per_s,
        fill: took.len() as f64 / batches as f64,
        p50: at(0.5),
        p99: at(0.99),
        p99_to_single: at(0.99) as f64 / unit.single as f64,
        held,
        bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_and_none_is_held_back_beyond_the_bound() {
        for unit in Unit::known() {
            for load in LOADS {
                let line = run(&unit, load, 1);
                assert!(line.held <= line.bound, "{line:?}");
                assert!(line.fill >= 1.0 && line.p50 >= unit.gather().time(1), "{line:?}");
            }
        }
    }

    #[test]
    fn batches_fill_with_the_load_and_carry_what_single_requests_cannot() {
        for unit in Unit::known() {
            let [few, many] = [0.05, 0.8].map(|load| run(&unit, load, 1));
            assert!(few.fill < 1.3 && many.fill > 0.6 * unit.gather().full() as f64, "{few:?} {many:?}");
            assert!(many.per_s * unit.single as f64 > 1.5e9, "one after another it would be overloaded: {many:?}");
            assert!(many.p99_to_single < 10.0, "{many:?}");
        }
    }

    #[test]
    fn a_device_that_does_one_at_a_time_is_the_queue_of_the_textbook() {
        // M/D/1 at half load: the mean wait is half the time of a request; the median of the total is near 1.2 of it.
        let unit = Unit { name: String::new(), single: 100_000, batches: [Nanos::MAX / 16; MAX_BATCH] };
        let line = run(&unit, 0.5, 1);
        assert!((line.fill - 1.0).abs() < 1e-9 && line.held == 0, "{line:?}");
        assert!((100_000..145_000).contains(&line.p50), "{line:?}");
    }

    #[test]
    fn a_run_follows_from_its_seed() {
        let unit = &Unit::known()[1];
        assert_eq!(run(unit, 0.5, 7), run(unit, 0.5, 7));
        assert_ne!(run(unit, 0.5, 7).p99, run(unit, 0.5, 8).p99);
    }
}
