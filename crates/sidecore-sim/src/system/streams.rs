//! A program that sends on many connections, and a sidecore that sends for it what gathers in rings.
//!
//! The decisions are core's: [`Rule`](sidecore_core::streams::rule::Rule) says on which path a connection is,
//! [`Sweep`](sidecore_core::streams::sweep::Sweep) whose ring is emptied next,
//! [`WaitLoop`](sidecore_core::policy::notify::WaitLoop) how the sidecore waits; cursors, holds and bells of the rings are
//! core's as well. Program and sidecore have a core each, and every connection a receiver that takes as much as it can.
//! `docs/simulator.md` says what was calibrated, and by which figures.

mod connection;
mod parameters;
mod program;
mod sidecore;
mod world;

use super::{Metric, Model, Outcome, Rule, metric};
use crate::engine::Engine;
pub(super) use parameters::Streams;
use sidecore_core::time::Nanos;
use world::{Both, Count, Tally};

/// Time until a run has settled, and the time that is measured after it, ns.
const WARM_UP: Nanos = 20_000_000;
const MEASURED: Nanos = 100_000_000;

pub(super) const METRICS: &[Metric] = &[
    metric("messages_per_s", "1/s", "messages accepted from the program"),
    metric("program_ns_per_message", "ns", "program's CPU time for a message"),
    metric("sidecore_ns_per_message", "ns", "sidecore's CPU time for a message, looking in vain included"),
    metric("messages_per_send", "1", "messages for each call that gave something to the kernel"),
    metric("ring_percent", "%", "messages that went through a ring"),
    metric("quiet_p50_us", "us", "median time from write to kernel on the quiet connection"),
    metric("quiet_p99_us", "us", "time from write to kernel on the quiet connection, of all but one in a hundred"),
    metric("promotions_per_s", "1/s", "connections that entered a ring"),
    metric("demotions_per_s", "1/s", "connections that left their ring"),
];

impl Model for Streams {
    fn rules(&self) -> Vec<Rule> {
        let kib = self.ring.kib.get();
        vec![(!kib.is_power_of_two(), "ring.kib", format!("a ring has a power of two: {}", kib.next_power_of_two()))]
    }

    fn run(&self, seed: u64) -> Outcome {
        let mut engine = Engine::new(seed);
        let mut world = Both::new(self, &mut engine);
        engine.run(&mut world, WARM_UP);
        let before = world.tally;
        world.quiet.clear();
        engine.run(&mut world, WARM_UP + MEASURED);
        let measured: Tally = std::array::from_fn(|count| world.tally[count] - before[count]);
        let of = |count: Count| measured[count as usize];
        let per_second = |count| of(count) / (MEASURED as f64 / 1e9);
        let per_message = |count| of(count) / of(Count::Messages);
        world.quiet.sort_unstable();
        let values = vec![
            per_second(Count::Messages),
            per_message(Count::Program),
            per_message(Count::Sidecore),
            of(Count::Bytes) / f64::from(self.program.message_bytes.get()) / of(Count::Calls),
            per_message(Count::Ringed) * 100.0,
            quantile_us(&world.quiet, 0.5),
            quantile_us(&world.quiet, 0.99),
            per_second(Count::Promotions),
            per_second(Count::Demotions),
        ];
        Outcome { values, limit: world.limit(&measured, MEASURED as f64), trace: engine.trace() }
    }
}

/// The time, in us, that this part of sorted times (ns) does not exceed; not a number without any.
fn quantile_us(times: &[Nanos], part: f64) -> f64 {
    let at = (times.len() as f64 * part).ceil() as usize;
    times.get(at.saturating_sub(1)).map_or(f64::NAN, |time| *time as f64 / 1e3)
}

#[cfg(test)]
mod tests;
