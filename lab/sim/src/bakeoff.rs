//! The judge of balance policies: random pools of devices under each policy, and special cases that separate them.
//!
//! Load is a fraction of the devices' capacity, which a linear program computes from their true times. All policies
//! see the same arrivals; each begins with rates learnt from a few observations and continues to learn, as in the
//! service.

mod cases;
mod run;

use cases::Case;
pub use cases::{random_pool, regression_pool};
use rayon::prelude::*;
use run::Traffic;
pub use run::{Card, Judged, Run};
use sidecore_core::policy::balance::Balance;
use std::ops::ControlFlow;

/// Loads of the random pools, as fractions of the fluid capacity.
pub const LOADS: [f64; 3] = [0.8, 0.9, 0.95];
/// A policy within this factor of the best counts as equally good.
pub const NEAR: f64 = 1.1;

/// Parameters of a bake-off.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Number of random pools.
    pub seeds: u64,
    /// Limits of requests on a device; all cases run with each. `None`: no limit.
    pub depths: Vec<Option<u32>>,
    /// Number of requests that arrive simultaneously after a fifth of each run.
    pub burst: u32,
    /// Factor on the times of each pool's quickest device from half of a run on; 1: none.
    pub slow: f64,
}

impl Setup {
    /// A setup with this number of random pools, without a limit on devices, a burst or a slow device.
    pub fn of(seeds: u64) -> Self {
        Self { seeds, depths: vec![None], burst: 0, slow: 1.0 }
    }
}

/// Result of one case under one policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// `pools`: random devices and mixes. `regression`: two devices of 0.35 us + 0.589 ns/B and two of 1.25 us +
    /// 0.595 ns/B, 95 % 256 B and 5 % 16 KiB. For the others see [`run`].
    pub scenario: &'static str,
    /// Seed of the pool and of the arrivals.
    pub seed: u64,
    /// Fraction of the fluid capacity; `None`: always 64 requests outstanding.
    pub load: Option<f64>,
    /// Limit of requests on a device; `None`: no limit.
    pub depth: Option<u32>,
    /// Number of requests that arrived simultaneously.
    pub burst: u32,
    /// Factor on the times of the quickest device from half of the run on.
    pub slow: f64,
    /// Policy for choosing devices.
    pub balance: Balance,
    /// The result under this policy.
    pub found: Judged,
    /// Mean and 99th percentile, relative to the best stable policy in this case; `None`: not stable.
    pub ratio: Option<(f64, f64)>,
}

/// Counts of good results of a policy in the random pools at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Limit of requests on a device; `None`: no limit.
    pub depth: Option<u32>,
    /// Fraction of the fluid capacity.
    pub load: f64,
    /// The policy.
    pub balance: Balance,
    /// Number of pools.
    pub pools: usize,
    /// Pools with a stable result.
    pub stable: usize,
    /// Pools with a mean time in the system within [`NEAR`] of the best.
    pub near_mean: usize,
    /// Pools with a 99th percentile within [`NEAR`] of the best.
    pub near_p99: usize,
    /// Largest ratio of its 99th percentile to the best, over stable results.
    pub worst: f64,
}

/// All lines of a bake-off.
#[derive(Clone, Debug, PartialEq)]
pub struct Bakeoff {
    /// By case, then by policy.
    pub lines: Vec<Line>,
}

impl Bakeoff {
    /// Counts of good results in the random pools, by depth, load and policy.
    pub fn summaries(&self) -> Vec<Summary> {
        let of = |(depth, load, balance)| {
            let place = (cases::POOLS, depth, Some(load), balance);
            let is_of = |line: &&Line| (line.scenario, line.depth, line.load, line.balance) == place;
            let lines: Vec<&Line> = self.lines.iter().filter(is_of).collect();
            let ratios: Vec<(f64, f64)> = lines.iter().filter_map(|line| line.ratio).collect();
            Summary {
                depth,
                load,
                balance,
                pools: lines.len(),
                stable: ratios.len(),
                near_mean: ratios.iter().filter(|(mean, _)| *mean <= NEAR).count(),
                near_p99: ratios.iter().filter(|(_, p99)| *p99 <= NEAR).count(),
                worst: ratios.iter().map(|(_, p99)| *p99).fold(0.0, f64::max),
            }
        };
        let mut depths: Vec<Option<u32>> = self.lines.iter().map(|line| line.depth).collect();
        depths.dedup();
        let loads = depths.into_iter().flat_map(|depth| LOADS.map(|load| (depth, load)));
        loads.flat_map(|(depth, load)| Balance::ALL.map(|balance| (depth, load, balance))).map(of).collect()
    }
}

/// Runs all policies on random pools at each of [`LOADS`], and on the special cases:
///
/// - `regression` at each of [`LOADS`] and with 64 requests outstanding;
/// - `heavy tail`: sizes of a Pareto distribution from 64 B to 1 MiB, at 0.8;
/// - `alike`: such sizes on four devices of 1 us + 0.6 ns/B;
/// - `slowed`: at 0.6, the first device takes four times as long from a quarter of the run on;
/// - `misled`: at 0.9, devices alternately report 20 % less and 20 % more than their true times, and prices follow;
///
/// With [`Setup::slow`] the load is a fraction of the capacity after the change, and only requests after it count.
///
/// `progress` receives the runs done and the total before each run; the runs of a case go side by side. A break returns the complete cases.
pub fn run(setup: &Setup, progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>) -> Bakeoff {
    let cases: Vec<Case> = setup.depths.iter().flat_map(|depth| cases::all(setup, *depth)).collect();
    let total = cases.len() * Balance::ALL.len();
    let (mut lines, mut done) = (Vec::with_capacity(total), 0);
    for case in &cases {
        for _ in Balance::ALL {
            if progress(done, total).is_break() {
                return Bakeoff { lines };
            }
            done += 1;
        }
        let go = |balance: &Balance| Run { balance: *balance, ..case.run.clone() }.go(case.seed);
        let judged: Vec<Judged> = Balance::ALL.par_iter().map(go).collect();
        lines.extend(compared(case, setup.slow, &judged));
    }
    Bakeoff { lines }
}

fn compared<'a>(case: &'a Case, slow: f64, judged: &'a [Judged]) -> impl Iterator<Item = Line> + 'a {
    let least = |value: fn(&Judged) -> f64| {
        judged.iter().filter(|judged| judged.stable).map(value).fold(f64::INFINITY, f64::min)
    };
    let (mean, p99) = (least(|judged| judged.mean), least(|judged| judged.p99));
    let load = if let Traffic::Open(load) = case.run.traffic { Some(load) } else { None };
    Balance::ALL.into_iter().zip(judged).map(move |(balance, judged)| Line {
        scenario: case.scenario,
        seed: case.seed,
        load,
        depth: case.run.depth,
        burst: case.run.burst,
        slow,
        balance,
        found: *judged,
        ratio: judged.stable.then_some((judged.mean / mean, judged.p99 / p99)),
    })
}
