//! What the waiting policies cost and how late they are, on gaps of every kind.
//!
//! The waiter is the service's own; the gaps and the machine are modelled. One wait follows the other in plain simulated
//! time: nothing happens at the same time as anything else, so no queue of events is needed.
//!
//! A park costs CPU time; a wake-up, and the end of a nap, come late by a fixed time and an exponentially distributed
//! one. Costs are held against the offline optimum for the true lengths of the gaps: spinning through those that are
//! shorter than a park costs, parking at once for the others. That is stricter than the waiter's own audit, which knows
//! a length up to the wake-up only.
//!
//! Completions are stamped: the forecaster gets the true time of one that was slept through, and of one that was looked
//! for the time at which it was seen.

mod process;

pub use process::Process;

use crate::engine::Random;
use process::Arrivals;
use sidecore_core::policy::notify::{Audit, Forecaster, Notify, Step, Waiter};
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;

/// The machine that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// CPU time of a sleep and a wake-up, ns.
    pub park_cost: Nanos,
    /// From the ring, or the end of a nap, until the sleeper runs: the least, ns.
    pub wake_latency: Nanos,
    /// Mean of what comes on top of it, exponentially distributed, ns. The sum is never more than a park costs, or the
    /// least latency if that is more.
    pub wake_jitter: Nanos,
    /// Time of one look, ns.
    pub poll: Nanos,
}

impl Default for Machine {
    /// A server without deep idle states: 5 us of CPU time for a sleep and a wake-up, which comes after 2.5 us and 0.25 us
    /// more in the mean, and 20 ns for a look. Assumed; `sidecore serve` measures the first at start.
    fn default() -> Self {
        Self { park_cost: 5_000, wake_latency: 2_500, wake_jitter: 250, poll: 20 }
    }
}

/// One policy on one process of gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The gaps.
    pub process: Process,
    /// The policy.
    pub policy: Notify,
    /// Waits.
    pub waits: u64,
    /// CPU time of all waits over what they would have cost had their lengths been known.
    pub ratio: f64,
    /// The largest that cost over optimum was at any point of the run, the time of one poll for each wait left out of
    /// account: what has come is seen at the next look, of which the optimum knows nothing.
    pub worst_ratio: f64,
    /// CPU time of a wait in the mean, ns.
    pub cpu_per_wait: f64,
    /// Median of the time from the end of a gap until the waiter has seen it, ns.
    pub added_p50: Nanos,
    /// Its 99th percentile, ns.
    pub added_p99: Nanos,
    /// 99th percentile of gap and added time together, ns: the latency of a completion where the gap is its time.
    pub total_p99: Nanos,
    /// CPU time against that of `park` on the same gaps.
    pub cpu_to_park: f64,
    /// 99th percentile of the total against that of `spin` on the same gaps.
    pub p99_to_spin: f64,
}

/// Waits for each process and policy.
const WAITS: usize = 5_000;
/// The first two are the yardsticks.
const POLICIES: [Notify; 5] = [Notify::Spin, Notify::Park, Notify::BreakEven, Notify::Learn, Notify::Predict];

/// All processes under all policies on the default machine, process by process, the policies of each in the same order:
/// spin, park, break-even, learn, predict. Each policy gets the same gaps, but for the adversary's: they follow the
/// policy, so comparisons with spin and park say nothing there.
pub fn table(seed: u64) -> Vec<Line> {
    let machine = Machine::default();
    Process::all(&machine).into_iter().flat_map(|process| compare(&machine, process, seed)).collect()
}

/// One process under all policies.
pub fn compare(machine: &Machine, process: Process, seed: u64) -> Vec<Line> {
    let mut lines: Vec<Line> = POLICIES.iter().map(|policy| run(machine, process, *policy, seed)).collect();
    let (spin, park) = (lines[0].total_p99.max(1), lines[1].cpu_per_wait.max(1.0));
    for line in &mut lines {
        line.cpu_to_park = line.cpu_per_wait / park;
        line.p99_to_spin = line.total_p99 as f64 / spin as f64;
    }
    lines
}

/// A waiter in its world.
struct World<'m> {
    machine: &'m Machine,
    waiter: Waiter,
    forecaster: Forecaster,
    arrivals: Arrivals,
    /// Of the machine, so that gaps do not depend on how often somebody slept.
    random: Random,
    now: Nanos,
    /// The last step was a sleep.
    slept: bool,
    optimum: Nanos,
    worst: f64,
    added: Vec<Nanos>,
    totals: Vec<Nanos>,
}

fn run(machine: &Machine, process: Process, policy: Notify, seed: u64) -> Line {
    let mut waiter = Waiter::new(policy, machine.park_cost, true);
    waiter.set_wake_time(machine.park_cost.max(machine.wake_latency));
    let mut world = World {
        machine,
        waiter,
        forecaster: Forecaster::new(),
        arrivals: Arrivals::new(process, seed),
        random: Random::new(!seed),
        now: 0,
        slept: false,
        optimum: 0,
        worst: 0.0,
        added: Vec::with_capacity(WAITS),
        totals: Vec::with_capacity(WAITS),
    };
    for _ in 0..WAITS {
        world.wait();
    }
    world.line(process, policy)
}

impl World<'_> {
    /// One wait from begin to end.
    fn wait(&mut self) {
        let awaited = self.arrivals.next();
        let start = self.now;
        self.slept = false;
        if let Some(size) = awaited.size
            && let Some(forecast) = self.forecaster.forecast(Class::NOOP, size, start)
        {
            self.waiter.expect(forecast);
        }
        self.waiter.begin(start);
        let gap = self.live_through(awaited.gap);
        self.waiter.end(self.now);
        let total = self.now - start;
        if let Some(size) = awaited.size {
            self.forecaster.observe(Class::NOOP, size, if self.slept { gap } else { total });
        }
        self.account(gap, total);
        // What was awaited is dealt with before the next wait.
        self.now += 1_000;
    }

    /// Waits for something that comes after `gap`; gives the gap. `None`: it comes as soon as the waiter sleeps. A waiter that
    /// never sleeps meets its worst at ten times what a park costs.
    fn live_through(&mut self, gap: Option<Nanos>) -> Nanos {
        let start = self.now;
        let arrival = start + gap.unwrap_or(10 * self.machine.park_cost);
        while self.now < arrival {
            match self.waiter.step(self.now) {
                Step::Spin => self.look(),
                Step::Nap { .. } | Step::Park if gap.is_none() => {
                    let arrival = self.now + 1;
                    self.sleep(arrival);
                    return arrival - start;
                }
                Step::Nap { until } => self.sleep(until),
                Step::Park => self.sleep(arrival),
            }
        }
        gap.unwrap_or(self.now - start)
    }

    fn look(&mut self) {
        self.now += self.machine.poll;
        self.slept = false;
    }

    /// Sleeps until a ring or the end of a nap.
    fn sleep(&mut self, until: Nanos) {
        let Machine { park_cost, wake_latency, wake_jitter, .. } = *self.machine;
        let late = wake_latency + self.random.exponential(wake_jitter as f64) as Nanos;
        let woken = until.max(self.now) + late.min(park_cost.max(wake_latency));
        self.waiter.parked(self.now, woken);
        self.now = woken;
        self.slept = true;
    }

    fn account(&mut self, gap: Nanos, total: Nanos) {
        self.optimum += gap.min(self.machine.park_cost);
        self.added.push(total - gap);
        self.totals.push(total);
        let Audit { cost_ns, waits, .. } = *self.waiter.audit();
        let polls = (waits + 1) * self.machine.poll;
        self.worst = self.worst.max(cost_ns.saturating_sub(polls) as f64 / self.optimum.max(1) as f64);
    }

    fn line(mut self, process: Process, policy: Notify) -> Line {
        let Audit { waits, cost_ns, .. } = *self.waiter.audit();
        Line {
            process,
            policy,
            waits,
            ratio: cost_ns as f64 / self.optimum.max(1) as f64,
            worst_ratio: self.worst,
            cpu_per_wait: cost_ns as f64 / waits.max(1) as f64,
            added_p50: percentile(&mut self.added, 0.5),
            added_p99: percentile(&mut self.added, 0.99),
            total_p99: percentile(&mut self.totals, 0.99),
            cpu_to_park: 1.0,
            p99_to_spin: 1.0,
        }
    }
}

/// The smallest value that at least this share of the values does not exceed.
fn percentile(values: &mut [Nanos], share: f64) -> Nanos {
    let rank = (values.len() as f64 * share).ceil() as usize;
    let index = rank.clamp(1, values.len()) - 1;
    *values.select_nth_unstable(index).1
}

#[cfg(test)]
mod tests;
