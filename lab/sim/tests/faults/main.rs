//! Random schedules with faults, one run for each seed.
//!
//! A small world runs core's real structures and decisions: rings, doorbells and the words of requests, `Dispatch`,
//! waiters and moderators on all four hops. Clients, the service's loop and devices take steps with random delays
//! between them, so that rare interleavings come up; faults of the seed's plan strike in between. After each event the
//! [`Invariant`]s are checked. A [`Mutation`] is a deliberate defect that must be found.
//!
//! Steps of different parties follow each other. Weak memory orders between them are left to the loom models.
//!
//! `cargo xtask faults --seeds N` makes that number of runs.

mod check;
mod client;
mod device;
mod hop;
mod mutation;
mod replay;
mod scenario;
mod service;
mod shrink;
mod strike;
mod tests;
mod world;

use client::Link;
use mutation::Mutation;
use scenario::{FAULTS, Scenario};
use service::Run;
use sidecore_core::time::Nanos;
use sidecore_sim::engine::Engine;
use strum::Display;
use world::{Clock, Watch, World};

/// A run without an end by then never ends, ns.
const HORIZON: Nanos = 40_000_000;
/// Nor does one with that number of events.
const MAX_EVENTS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
enum Invariant {
    /// Each request is answered, or reported as lost, exactly once.
    #[strum(to_string = "each request is answered exactly once")]
    Once,
    /// An answer is the one to its request: result, reason, stage times.
    #[strum(to_string = "an answer is the one to its request")]
    Answer,
    #[strum(to_string = "nothing waits for ever")]
    Stall,
    /// In flight is at most what rings, devices and tables hold.
    #[strum(to_string = "in flight is at most what fits")]
    Capacity,
    /// No thread sleeps armed with something to read and no wake-up on its way.
    #[strum(to_string = "no wake-up is lost")]
    Wakeup,
    #[strum(to_string = "no client exceeds its credit")]
    Credit,
    /// Time on devices of backlogged users follows their weights, and is divided equally among their clients.
    #[strum(to_string = "shares follow weights")]
    Share,
    /// A client that breaks the protocol harms no other.
    #[strum(to_string = "a hostile client harms nobody else")]
    Bystander,
    /// A void ticket changes nothing.
    #[strum(to_string = "a void ticket changes nothing")]
    Void,
    /// The load of each device is the sum of its requests in flight.
    #[strum(to_string = "the load of a device is what is in flight on it")]
    Accounting,
    /// A request fails only where no device could do it, and names a device that is gone.
    #[strum(to_string = "a request fails only with its device, and names it")]
    Blame,
    /// No thread spins on a shared core.
    #[strum(to_string = "nobody spins on a core that is not its own")]
    Spin,
}

#[derive(Clone, Debug)]
struct Broken {
    invariant: Invariant,
    what: String,
}

#[derive(Debug)]
struct Report {
    seeds: u64,
    events: u64,
    requests: u64,
    /// Dormant lanes, summed over all rounds of housekeeping.
    rested: u64,
    /// Faults that struck, by kind in the order of [`FAULTS`].
    faults: [u64; FAULTS.len()],
    broken: Option<Failure>,
    trace: u64,
}

#[derive(Debug)]
struct Failure {
    /// Its seed. With the same commit it fails again.
    seed: u64,
    invariant: Invariant,
    what: String,
    /// A smaller run that breaks the same invariant, in words: clients, devices, and faults with their times.
    scenario: String,
    trace: Vec<String>,
}

fn run(first_seed: u64, seeds: u64, mutation: Option<Mutation>) -> Report {
    let faults = [0; FAULTS.len()];
    let mut report = Report { seeds: 0, events: 0, requests: 0, rested: 0, faults, broken: None, trace: 0 };
    for seed in (first_seed..).take(usize::try_from(seeds).unwrap_or(usize::MAX)) {
        let scenario = Scenario::new(seed);
        let (clock, run) = run_one(&scenario, mutation, Watch::default());
        let world = run.world;
        report.seeds += 1;
        report.events += clock.events();
        report.requests += world.requests;
        report.rested += world.rested;
        report.faults.iter_mut().zip(world.struck).for_each(|(sum, struck)| *sum += struck);
        report.trace = report.trace.rotate_left(7) ^ clock.trace();
        if let Some(broken) = world.broken {
            report.broken = Some(shrink::explain(&scenario, mutation, broken));
            break;
        }
    }
    report
}

/// The run of that seed as a record for [`replay`](sidecore_sim::replay::replay): the calls into the dispatch of its last
/// service, in at most that number of words of 8 bytes.
fn record(seed: u64, words: usize) -> Vec<u8> {
    let scenario = Scenario::new(seed);
    let (_, mut run) = run_one(&scenario, None, Watch { words: false, tape: Some(words) });
    let record = run.sidecore.end_record().map(|tape| tape.into_words()).unwrap_or_default();
    record.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn run_one(scenario: &Scenario, mutation: Option<Mutation>, watch: Watch) -> (Clock, Run<'_>) {
    let mut clock = Engine::new(scenario.seed);
    let mut run = Run::new(scenario, mutation, watch, &mut clock);
    // A defect of another kind may leave a client without requests waiting.
    let has_shares = mutation.is_none_or(|mutation| mutation.breaks() == Invariant::Share);
    let mut shares = if scenario.backlogged && has_shares { Shares::Before } else { Shares::Done };
    while run.world.broken.is_none() && clock.events() < MAX_EVENTS && !run.is_finished() {
        if !clock.step(&mut run, HORIZON) {
            break;
        }
        shares = shares.next(&mut run.world);
    }
    run.world.check_end(run.is_finished());
    (clock, run)
}

/// Shares are measured while each client has requests waiting, until one has submitted all.
#[derive(Clone, Copy, Debug)]
enum Shares {
    Before,
    Measured,
    Done,
}

impl Shares {
    fn next(self, world: &mut World) -> Self {
        // The service has each lane, with several requests in it.
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

/// The result of a request as a device computes it: different for each.
fn result(link: u32, tag: u32, size: u32) -> u32 {
    let word = u64::from(link) << 40 ^ u64::from(tag) << 20 ^ u64::from(size);
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32 | 1
}
