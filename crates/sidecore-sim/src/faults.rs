//! Random schedules with faults, one run for each seed.
//!
//! A small world runs core's real structures and decisions: rings, doorbells and the words of requests, `Dispatch`,
//! waiters and moderators on all four hops. Clients, the service's loop and devices take steps with random delays, so
//! that rare interleavings occur; faults from the seed's plan strike in between. After each event the [`Invariant`]s
//! are checked. A [`Sabotage`] is a deliberate defect that must be found.
//!
//! Steps of different parties run one after the other. The loom models cover the effects of a weak memory order.

mod check;
mod client;
mod device;
mod hop;
mod sabotage;
mod scenario;
mod service;
mod shrink;
mod strike;
#[cfg(test)]
mod tests;
mod world;

pub use sabotage::Sabotage;
pub use scenario::FAULTS;

use crate::engine::Engine;
use client::Link;
use scenario::Scenario;
use service::Run;
use sidecore_core::time::Nanos;
use std::ops::ControlFlow;
use strum::Display;
use world::{Clock, Watch, World};

/// A run that lasts longer counts as endless, ns.
const HORIZON: Nanos = 40_000_000;
/// A run with more events counts as endless.
const MAX_EVENTS: u64 = 400_000;

/// The invariants.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
pub enum Invariant {
    /// Each request is answered, or reported as lost, exactly once.
    #[strum(to_string = "each request is answered exactly once")]
    Once,
    /// An answer matches its request: result, reason, stage times.
    #[strum(to_string = "an answer is the one to its request")]
    Answer,
    /// Nothing waits forever.
    #[strum(to_string = "nothing waits for ever")]
    Stall,
    /// Requests in flight are at most the capacity of rings, devices and tables.
    #[strum(to_string = "in flight is at most what fits")]
    Capacity,
    /// No thread sleeps armed with something to read and without a wake-up on its way.
    #[strum(to_string = "no wake-up is lost")]
    Wakeup,
    /// No client exceeds its credit in flight.
    #[strum(to_string = "no client exceeds its credit")]
    Credit,
    /// Time on devices of backlogged clients follows their weights.
    #[strum(to_string = "shares follow weights")]
    Share,
    /// A client that breaks the protocol harms no other client.
    #[strum(to_string = "a hostile client harms nobody else")]
    Bystander,
    /// A void ticket has no effect.
    #[strum(to_string = "a void ticket changes nothing")]
    Void,
    /// The load of each device is the sum of its requests in flight.
    #[strum(to_string = "the load of a device is what is in flight on it")]
    Accounting,
    /// A request fails only if no device could do it, and names a device that is gone.
    #[strum(to_string = "a request fails only with its device, and names it")]
    Blame,
    /// No thread spins on a shared core.
    #[strum(to_string = "nobody spins on a core that is not its own")]
    Spin,
}

/// The first broken invariant of a run.
#[derive(Clone, Debug)]
struct Broken {
    invariant: Invariant,
    what: String,
}

/// Result of a series of runs.
#[derive(Debug)]
pub struct Report {
    /// Number of runs.
    pub seeds: u64,
    /// Events in all of them.
    pub events: u64,
    /// Requests that were submitted.
    pub requests: u64,
    /// Dormant lanes found, summed over all housekeeping of services.
    pub rested: u64,
    /// Faults that struck, by kind in the order of [`FAULTS`].
    pub faults: [u64; FAULTS.len()],
    /// The first run with a broken invariant. It was the last run.
    pub broken: Option<Failure>,
    /// Hash over all events of all runs.
    pub trace: u64,
}

/// A run with a broken invariant.
#[derive(Debug)]
pub struct Failure {
    /// Its seed. The run repeats with the same commit.
    pub seed: u64,
    /// The broken invariant.
    pub invariant: Invariant,
    /// Details.
    pub what: String,
    /// A smaller run that breaks the same invariant, in words: participants and faults with their times.
    pub scenario: String,
    /// The last events of the smaller run in words, up to the one that broke the invariant.
    pub trace: Vec<String>,
}

/// Runs `seeds` seeds from the first one on, up to a broken invariant. After each run, `progress` receives the runs
/// done and the total, and can end the series.
pub fn run(
    first_seed: u64,
    seeds: u64,
    sabotage: Option<Sabotage>,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Report {
    let faults = [0; FAULTS.len()];
    let mut report = Report { seeds: 0, events: 0, requests: 0, rested: 0, faults, broken: None, trace: 0 };
    for seed in (first_seed..).take(usize::try_from(seeds).unwrap_or(usize::MAX)) {
        let scenario = Scenario::new(seed);
        let (clock, run) = run_one(&scenario, sabotage, Watch::default());
        let world = run.world;
        report.seeds += 1;
        report.events += clock.events();
        report.requests += world.requests;
        report.rested += world.rested;
        report.faults.iter_mut().zip(world.struck).for_each(|(sum, struck)| *sum += struck);
        report.trace = report.trace.rotate_left(7) ^ clock.trace();
        if let Some(broken) = world.broken {
            report.broken = Some(shrink::explain(&scenario, sabotage, broken));
            break;
        }
        if progress(report.seeds, seeds).is_break() {
            break;
        }
    }
    report
}

/// The run of this seed as a record for [`replay`](crate::replay::replay): the calls into the dispatch of its last
/// service, in at most `words` words of 8 bytes.
pub fn record(seed: u64, words: usize) -> Vec<u8> {
    let scenario = Scenario::new(seed);
    let (_, mut run) = run_one(&scenario, None, Watch { words: false, tape: Some(words) });
    let record = run.sidecore.end_record().map(|tape| tape.into_words()).unwrap_or_default();
    record.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Runs a scenario to its end or to the first broken invariant.
fn run_one(scenario: &Scenario, sabotage: Option<Sabotage>, watch: Watch) -> (Clock, Run<'_>) {
    let mut clock = Engine::new(scenario.seed);
    let mut run = Run::new(scenario, sabotage, watch, &mut clock);
    let mut shares = if scenario.backlogged { Shares::Before } else { Shares::Done };
    while run.world.broken.is_none() && clock.events() < MAX_EVENTS && !run.is_finished() {
        if !clock.step(&mut run, HORIZON) {
            break;
        }
        shares = shares.next(&mut run.world);
    }
    run.world.check_end(run.is_finished());
    (clock, run)
}

/// Shares are measured from the time all clients have requests waiting until the first client has submitted all of its
/// requests.
#[derive(Clone, Copy, Debug)]
enum Shares {
    Before,
    Measured,
    Done,
}

impl Shares {
    fn next(self, world: &mut World) -> Self {
        // The service has accepted each lane, with several requests in it.
        let waits = |link: &Link| link.accepted && link.submission.waiting() > 8;
        match self {
            Self::Before if world.links.iter().all(waits) => {
                world.charged.fill(0);
                Self::Measured
            }
            Self::Measured if world.links.iter().any(|link| link.left == 0) => {
                world.check_shares();
                Self::Done
            }
            same => same,
        }
    }
}

/// The result of a request as a device computes it; requests have different results.
fn result(link: u32, tag: u32, size: u32) -> u32 {
    let word = u64::from(link) << 40 ^ u64::from(tag) << 20 ^ u64::from(size);
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32 | 1
}
