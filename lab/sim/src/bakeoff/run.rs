//! A run of the bake-off: a plan of the system `pool`, with a sidecore that costs nothing.

use crate::outcome::Outcome;
use crate::settings::{Settings, Source};
use crate::system::{self, System};
use sidecore_core::policy::balance::{Balance, Program};
use std::collections::{BTreeMap, BTreeSet};

/// Number of requests in the system that ends a run: no policy that carries the load reaches it.
const OVERFLOW: u32 = 8_000;
/// Largest ring of a device, above [`OVERFLOW`].
const RING: u32 = 16_384;

/// The real time of a device, and its reported time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Card {
    /// Fixed time, ns.
    pub fixed: f64,
    /// Time per byte, ns.
    pub per_byte: f64,
    /// Reported time as a multiple of the true time: 1, unless it misleads.
    pub reports: f64,
}

impl Card {
    /// A device that reports its true time.
    pub fn new(fixed: f64, per_byte: f64) -> Self {
        Self { fixed, per_byte, reports: 1.0 }
    }

    /// Time for this number of bytes, ns.
    pub(super) fn time(&self, size: u32) -> f64 {
        (self.fixed + self.per_byte * f64::from(size)).max(1.0)
    }
}

/// Arrival process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// Open: Poisson arrivals at this fraction of the fluid capacity.
    Open(f64),
    /// Closed: this number of requests; a completed one makes room for the next.
    Closed(u32),
}

/// A change in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Fraction of the run before it.
    pub after: f64,
    /// The device that changes.
    pub device: usize,
    /// Factor on the device's time after it.
    pub slower: f64,
}

/// Parameters of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The devices.
    pub cards: Vec<Card>,
    /// Probability and size in bytes of each kind of request; probabilities sum to 1.
    pub sizes: Vec<(f64, u32)>,
    /// Arrival process.
    pub traffic: Traffic,
    /// Total of requests.
    pub requests: u32,
    /// Fraction of the requests that is not counted, while prices and rates are learnt.
    pub warm_up: f64,
    /// Policy for choosing devices.
    pub balance: Balance,
    /// A device that changes.
    pub change: Option<Change>,
    /// Limit of requests on a device; `None`: no limit.
    pub depth: Option<u32>,
    /// Number of extra requests that arrive simultaneously at the end of the warm-up.
    pub burst: u32,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Whether the devices carried the load: the metric `stable` of the system `pool`.
    pub stable: bool,
    /// Mean time in the system, ns.
    pub mean: f64,
    /// 99th percentile of the time in the system, ns.
    pub p99: f64,
    /// Rate of completions as a fraction of the fluid capacity: without the warm-up, if the run was longer.
    pub carried: f64,
}

impl Run {
    /// The highest rate of these sizes that the devices can carry, by the linear program, requests per ns. The devices
    /// are as slow as at the end of the warm-up.
    pub fn capacity(&self) -> f64 {
        let mix: Vec<f64> = self.sizes.iter().map(|(part, _)| *part).collect();
        let slower = |device: usize| {
            let changed = self.change.filter(|change| change.device == device && change.after <= self.warm_up);
            changed.map_or(1.0, |change| change.slower)
        };
        let time = |kind: usize, device: usize| Some(self.cards[device].time(self.sizes[kind].1) * slower(device));
        Program::new(self.cards.len(), mix.len()).solve(self.cards.len(), &mix, time).unwrap_or(0.0)
    }

    /// The device with the highest rate of these sizes.
    pub(super) fn quickest(&self) -> usize {
        let mean = |card: &Card| self.sizes.iter().map(|(part, size)| part * card.time(*size)).sum::<f64>();
        (0..self.cards.len()).min_by(|a, b| mean(&self.cards[*a]).total_cmp(&mean(&self.cards[*b]))).unwrap_or(0)
    }

    /// Simulates the run.
    ///
    /// # Panics
    ///
    /// If a value is outside the limits of a plan's.
    pub fn go(&self, seed: u64) -> Judged {
        let (capacity, pool) = (self.capacity(), system::find("pool").expect("it is a system"));
        let outcome = pool.run(&self.settings(pool, capacity), seed);
        let found = |name: &str| value(pool, &outcome, name);
        Judged {
            stable: found("stable") > 0.5,
            mean: found("mean_us") * 1e3,
            p99: found("p99_us") * 1e3,
            carried: found("rate_per_s") / 1e9 / capacity,
        }
    }

    fn settings(&self, pool: &System, capacity: f64) -> Settings {
        let devices = || (0..self.cards.len()).map(|device| format!("device.d{device:02}"));
        let parts: BTreeSet<String> = devices().map(|device| device + ".op").chain(["work.op".to_owned()]).collect();
        let mut settings = pool.settings(&parts);
        let mut set = |name: &str, value: &dyn ToString| {
            settings.set(name, &value.to_string(), Source::Plan).expect("values of a run are values of a plan");
        };
        let mut sizes = BTreeMap::new();
        for (part, size) in &self.sizes {
            *sizes.entry(*size).or_insert(0.0) += part;
        }
        let sizes: Vec<String> = sizes.iter().map(|(size, part)| format!("{size}:{part}")).collect();
        set("work.op.shares_by_bytes", &sizes.join(","));
        let rate = match self.traffic {
            Traffic::Open(load) => load * capacity,
            Traffic::Closed(requests) => {
                set("requests.clients", &1);
                set("requests.in_flight", &requests);
                // The change comes before counting begins.
                Self { change: None, ..self.clone() }.capacity()
            }
        };
        if let Traffic::Open(_) = self.traffic {
            set("requests.rate_per_s", &(rate * 1e9));
        }
        set("requests.count", &self.requests);
        set("requests.warm_up", &self.warm_up);
        set("requests.surge", &self.burst);
        set("requests.overflow", &OVERFLOW);
        set("host.balance", &self.balance.name());
        for (number, (device, card)) in devices().zip(&self.cards).enumerate() {
            set(&format!("{device}.ring"), &self.depth.unwrap_or(RING));
            set(&format!("{device}.reports"), &card.reports);
            set(&format!("{device}.op.us"), &(card.fixed / 1e3));
            set(&format!("{device}.op.ns_per_byte"), &card.per_byte);
            if let Some(change) = self.change.filter(|change| change.device == number) {
                let at = change.after * f64::from(self.requests) / rate;
                set(&format!("{device}.slow_from_ms"), &(at / 1e6));
                set(&format!("{device}.slow_factor"), &change.slower);
            }
        }
        settings
    }
}

fn value(system: &System, outcome: &Outcome, name: &str) -> f64 {
    let number = system.metrics.iter().position(|metric| metric.name == name);
    number.map_or(f64::NAN, |number| outcome.values[number])
}
