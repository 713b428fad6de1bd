//! `sidecore bench calibrate`: measures this machine and writes a plan for `sidecore sim`.
//!
//! Operations are timed inside one process. The cost of the lane is measured with no-ops and one reference operation;
//! the plan predicts the other operations and all ways to wait. Measurements are made in passes, which may lie between
//! the cases of a scenario: a shared machine changes within a minute. Times that vary are kept as distributions.

mod plan;
mod pool;
mod sleep;

use super::error::BenchError;
use super::task::Task;
use super::testbed::{Plan, Testbed};
use hdrhistogram::Histogram;
use plan::Machine;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;
use sidecore_measure::experiment::Measured;
use sidecore_measure::export::print;
use sidecore_measure::interrupt::{INTERRUPTED, Interrupt};
use sidecore_measure::progress::Progress;
use sidecore_report::statistics::{histogram, median};
use sidecore_sim::system::PARTS;
use sidecore_terminal::output;
use sleep::{GAP, Sleep, spread};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) const WORD: &str = "calibrate";
pub(super) const ABOUT: &str =
    "This machine as a plan for `sidecore sim`, alone, or with notify and between its cases; not among all";

const SIZED: [&str; 4] = [REFERENCE, "aes-256-gcm", "chacha20-poly1305", "sha-256"];
const FIXED: [&str; 4] = ["rsa-2048-sign", "rsa-4096-sign", "p-256-sign", "ed25519-sign"];
/// Payload sizes, and the size of a message to sign, bytes.
const SIZES: [u32; 3] = [64, 1_024, 16_384];
const MESSAGE: u32 = 32;
/// Operation that measures the moving of payload.
const REFERENCE: &str = "aes-128-gcm";
const NOOP: &str = "noop";
const DEPTH: u32 = 64;
const PASSES: usize = 5;
/// Tries of each time in a pass, and the duration of one, ns. The least counts, because interrupts only lengthen a
/// time.
const TRIES: usize = 3;
const NS: u64 = 12_000_000;
/// Duration of the mutual wake-ups in a pass, ns.
const WAKING: u64 = 150_000_000;
/// One request in this number carries stage times: rarely, and as often as in the scenario notify.
const SAMPLES: [u32; 2] = [64, 4];

/// Times at [`SIZES`], ns.
type Curve = [f64; 3];
/// Upper bounds of the shares [`PARTS`] of all times, ns.
type Spread = [f64; PARTS.len()];

const MIDDLE: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Quantity {
    /// Inside the client's process: operation, bytes.
    Inline(&'static str, u32),
    /// Through the lane: operation, bytes, requests in flight.
    Through(&'static str, u32, u32),
    /// Of a no-op under open load at the client's highest rate.
    Open,
    /// Of a no-op where many requests carry stage times.
    Sampled,
    /// Of a no-op alone in the lane, for this duration, ns.
    Alone(u64),
}

use Quantity::{Alone, Inline, Open, Sampled, Through};

impl Quantity {
    fn all() -> Vec<Self> {
        let inline = SIZED.into_iter().flat_map(|op| SIZES.map(|size| Inline(op, size)));
        let signing = FIXED.into_iter().map(|op| Inline(op, MESSAGE));
        let sizes = SIZES.into_iter();
        let payload = sizes.flat_map(|size| {
            [Through(NOOP, size, DEPTH), Through(REFERENCE, size, DEPTH), Through(REFERENCE, size, 1)]
        });
        let bare = [Through(NOOP, 0, 1), Through(NOOP, 0, DEPTH), Open];
        inline.chain(signing).chain(payload).chain(bare).collect()
    }

    fn task(self, start: u64) -> Task {
        match self {
            Inline(op, size) => Task::Inline { op: op.to_owned(), size, ns: NS },
            Through(op, size, depth) => Task::Closed { op: op.to_owned(), size, depth, start, ns: NS },
            Open => Task::Open { op: NOOP.to_owned(), size: 0, per_s: 1e9, seed: 1, start, ns: NS },
            Sampled => Through(NOOP, 0, DEPTH).task(start),
            Alone(ns) => Task::Closed { op: NOOP.to_owned(), size: 0, depth: 1, start, ns },
        }
    }
}

#[derive(Debug, Default)]
struct Found {
    /// Times of all passes, ns.
    times: BTreeMap<Quantity, Vec<f64>>,
    park_costs: Vec<f64>,
    wake_times: Vec<f64>,
    sleep: Sleep,
    /// From submission until a sidecore receives it after a short sleep, and from completion until the client does.
    woken: Option<Histogram<u64>>,
    /// From submission until a spinning sidecore receives it, alone in the lane.
    queue: Option<Histogram<u64>>,
}

pub(super) struct Calibration {
    cores: (usize, usize),
    /// Its requests carry stage times rarely, those of `often` often.
    seldom: Testbed,
    often: Testbed,
    found: Found,
}

impl Calibration {
    pub(super) fn start() -> Result<Self, BenchError> {
        let plan = Plan { notify: NotifyConfig::all(Notify::Park), ..Plan::inline(1) };
        if plan.pinning.clients.is_empty() {
            return Err(BenchError::Machine("calibrate needs two cores, one for a client and one for a sidecore"));
        }
        let cores = (plan.pinning.clients[0], plan.pinning.sidecores[0]);
        let [seldom, often] = SAMPLES.map(|sample_every| Testbed::start(&Plan { sample_every, ..plan.clone() }));
        Ok(Self { cores, seldom: seldom?, often: often?, found: Found::default() })
    }

    /// Measures everything once. Nothing else may run on the two cores.
    pub(super) fn pass(&mut self) -> Result<(), BenchError> {
        let park = sidecore_daemon::sys::park::park_times()?;
        self.found.park_costs.push(park.cost as f64);
        self.found.wake_times.push(park.wake as f64);
        self.found.sleep.look(self.cores)?;
        self.seldom.set("notify=spin")?;
        for quantity in Quantity::all() {
            self.found.add(quantity, &mut self.seldom)?;
        }
        self.seldom.set("notify=park")?;
        self.often.set("notify=spin")?;
        self.found.add(Sampled, &mut self.often)?;
        let alone = once(Alone(NS), &mut self.often)?;
        let queue = self.found.queue.get_or_insert_with(histogram);
        // Longer times were interrupted, and count as interruptions.
        let undisturbed = alone.queue.iter().filter(|(time, _)| *time < GAP);
        undisturbed.for_each(|(time, count)| queue.saturating_record_n((*time).max(1), *count));
        self.often.set("notify=park")?;
        let asleep = once(Alone(WAKING), &mut self.often)?;
        let woken = self.found.woken.get_or_insert_with(histogram);
        let times = asleep.queue.iter().chain(&asleep.deliver);
        times.for_each(|(time, count)| woken.saturating_record_n((*time).max(1), *count));
        Ok(())
    }

    /// The same while `testbed`'s service on the same core sleeps.
    pub(super) fn pass_beside(&mut self, testbed: &Testbed) -> Result<(), BenchError> {
        testbed.set("notify=park")?;
        self.pass()
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), BenchError> {
        let machine = self.found.machine();
        let (found, written) = (machine.to_grid().to_text(), plan::put(path, &machine.to_toml()));
        let of_pool = pool::beside(path);
        let pooled = of_pool.as_ref().map_or(Ok(()), |of_pool| pool::replace(of_pool, &machine.to_pool()));
        // The times are printed even if they make no valid plan.
        print(&format!("{found}\n"))?;
        written.and(pooled)?;
        let path = path.display();
        print(&format!("Written to {path}: run it with `sidecore sim {path}`.\n"))?;
        let Some(of_pool) = of_pool else { return Ok(()) };
        Ok(print(&format!("Plans of pools include {}.\n", of_pool.display()))?)
    }
}

pub(super) fn run(path: &Path, interrupt: &Interrupt) -> Result<u8, BenchError> {
    let mut progress = Progress::new(PASSES).until(interrupt);
    progress.scenario("calibrate");
    let mut calibration = Calibration::start()?;
    for pass in 1..=PASSES {
        progress.begin(&format!("pass {pass}"));
        let passed = calibration.pass();
        // The interrupt may have cut the pass short.
        if progress.is_stopped() {
            abandon(path);
            return Ok(INTERRUPTED);
        }
        passed?;
        progress.advance();
    }
    drop(progress);
    calibration.write(path).map(|()| 0)
}

pub(super) fn abandon(path: &Path) {
    output::tell(format!("{} is not written: a plan takes a calibration to its end", path.display()));
}

fn once(quantity: Quantity, testbed: &mut Testbed) -> Result<Measured, BenchError> {
    let measured = testbed.together(1, |start| quantity.task(start))?;
    measured.into_iter().next().ok_or(BenchError::State("a crew without a client"))
}

impl Found {
    fn add(&mut self, quantity: Quantity, testbed: &mut Testbed) -> Result<(), BenchError> {
        let mut least = f64::INFINITY;
        for _ in 0..TRIES {
            least = least.min(1e9 / once(quantity, testbed)?.per_s());
        }
        self.times.entry(quantity).or_default().push(least);
        Ok(())
    }

    /// The median time, ns.
    fn time(&self, quantity: Quantity) -> f64 {
        self.times.get(&quantity).map_or(0.0, |times| median(times))
    }

    /// Derives the lane's costs. No-ops give the parts of both sides and the hop. No-ops with payload give the client's
    /// cost of copying. The reference operation gives the sidecore's cost of moving and, alone in the lane, each side's
    /// wait for payload from the other's cache.
    fn machine(&self) -> Machine {
        let ops: Vec<(&str, Curve)> = SIZED
            .into_iter()
            .map(|op| (op, SIZES.map(|size| self.time(Inline(op, size)))))
            .chain(FIXED.into_iter().map(|op| (op, [self.time(Inline(op, MESSAGE)); 3])))
            .collect();
        let (trip, request) = (self.time(Through(NOOP, 0, 1)), self.time(Through(NOOP, 0, DEPTH)));
        let hop = ((trip - 2.0 * request) / 2.0).max(0.0);
        let copy = SIZES.map(|size| (self.time(Through(NOOP, size, DEPTH)) - request).max(0.0));
        let own = SIZES.map(|size| request + self.time(Inline(REFERENCE, size)));
        let moving: Curve =
            std::array::from_fn(|at| (self.time(Through(REFERENCE, SIZES[at], DEPTH)) - own[at]).max(0.0));
        let transfer = std::array::from_fn(|at| {
            let parts = request + copy[at] + 2.0 * hop + own[at] + moving[at];
            ((self.time(Through(REFERENCE, SIZES[at], 1)) - parts) / 2.0).max(0.0)
        });
        let after_short = self.woken.as_ref().map_or(Spread::default(), spread);
        let added = (after_short[MIDDLE] - spread(&self.sleep.after_short)[MIDDLE]).max(0.0);
        let [few, many] = SAMPLES.map(|every| 1.0 / f64::from(every));
        Machine {
            park_cost: median(&self.park_costs),
            ops,
            request,
            client: request,
            hop: self.hop(hop),
            sample: ((self.time(Sampled) - request) / (many - few)).max(0.0),
            open: (self.time(Open) - request).max(0.0),
            moving,
            transfer,
            copy,
            wake_time: median(&self.wake_times),
            after_short,
            // The waiting of service and client adds the same time to a bare wake-up after a long sleep.
            after_long: spread(&self.sleep.after_long).map(|time| time + added),
            ring: spread(&self.sleep.sends),
            sleep: self.sleep.cpu_ns(),
            overshoot: spread(&self.sleep.overshoot),
            client_overshoot: spread(&self.sleep.client_overshoot),
            free: self.sleep.free_ns(),
            interruption: spread(&self.sleep.interruptions),
        }
    }

    /// Times of the hop: the median from round trips, the variation from queueing alone in the lane.
    fn hop(&self, median: f64) -> Spread {
        let queue = self.queue.as_ref().map_or(Spread::default(), spread);
        let middle = queue[MIDDLE].max(1.0);
        queue.map(|time| if time > 0.0 { time / middle * median } else { median })
    }
}
