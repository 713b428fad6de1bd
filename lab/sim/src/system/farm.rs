//! A farm: events sent to nodes on other machines, by [`NodePool`](sidecore_nodes::NodePool) or by nodes that
//! pull.
//!
//! The dispatcher holds waiting events in one queue, sends events, receives beats and answers, and reassigns the
//! events of a lost node; each decision is core's. Messages take two hops, over the server, and stay in order between
//! two programs. A node does a few events simultaneously and queues the others. With pull, each node requests its
//! limit of events from the server, and the next one when a result is stored. `docs/models/farm.md` lists the
//! omissions.

mod dispatcher;
mod event;
mod field;
mod node;
mod parameters;
mod pull;
mod tally;
#[cfg(test)]
mod tests;
mod world;

use super::{Metric, Model, Rule, metric};
use crate::engine::Engine;
use crate::outcome::Outcome;
use field::Field;
pub(super) use parameters::Farm;
use sidecore_core::time::Nanos;
use world::World;

pub(super) const METRICS: &[Metric] = &[
    metric("ops_per_s", "1/s", "events done"),
    metric("share", "1", "work done, of what the nodes can do"),
    metric("mean_us", "us", "mean time from when an event was to come until its result is stored"),
    metric("p50_us", "us", "median of that time"),
    metric("p99_us", "us", "that time, of all but one event in a hundred"),
    metric("redone", "1", "events that were handed out again, for each thousand done"),
    metric("gap_p50_us", "us", "median time from a node's death until all that it had is with others"),
    metric("gap_p99_us", "us", "that time, of all but one death in a hundred"),
    metric("dead", "1", "events that failed as often as they may, for each thousand done"),
];

impl Model for Farm {
    fn rules(&self) -> Vec<Rule> {
        let (least, most) = (self.event.least_units.get(), self.event.most_units.get());
        let (slow, count) = (self.node.slow_count.get(), self.node.count.get());
        let (every, away) = (self.death.every_ms.nanos(), self.death.away_ms.nanos());
        let bytes = u64::from(most) * u64::from(self.event.unit_bytes.get());
        vec![
            (most < least, "event.most_units", format!("at least event.least_units, {least}")),
            (slow > count, "node.slow_count", format!("at most node.count, {count}")),
            (bytes > u64::from(u32::MAX), "event.unit_bytes", "an event has less than 4 GiB".to_owned()),
            // With half of the nodes away at a time, at some time none may be left.
            (
                every > 0 && away > every * Nanos::from(count) / 2,
                "death.away_ms",
                "more than half the nodes are away at a time: take a shorter time, or death.every_ms longer".to_owned(),
            ),
            (
                self.death.silence_ms.nanos() < 4 * self.death.beat_ms.nanos(),
                "death.silence_ms",
                "at least four beats: a node is not lost before".to_owned(),
            ),
        ]
    }

    fn run(&self, seed: u64) -> Outcome {
        let (from, to) = self.measured();
        let mut engine = Engine::new(seed);
        let mut world = World::new(self, &mut engine);
        engine.run(&mut world, from);
        let waited = world.field.held.len();
        world.field.tally.begin();
        engine.run(&mut world, to);
        let Field { held, tally, .. } = &mut world.field;
        let grows = held.len() > waited + tally.done as usize / 20;
        let (values, limit) = tally.values(self, grows);
        Outcome { values, limit, trace: engine.trace() }
    }
}
