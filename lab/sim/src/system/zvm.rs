//! z/VM: Linux guests that share crypto adapters through the host.
//!
//! A request goes from a thread into its guest's virtual queue, from there by the host's enqueue task to an adapter,
//! by its dequeue task back into the virtual queue, and to the thread when the guest looks. IBM's report "Host
//! Exploitation of Crypto Interruptions" describes how the host's tasks find work; `docs/models/zvm.md` describes the
//! model. Adapters are chosen by [`Dispatch`](sidecore_core::dispatch::Dispatch), as in the service; with
//! `service.software = "sidecore"` its notify policies also decide the wait at every hop.

mod guest;
mod host;
mod parameters;
mod totals;
mod world;

use super::{Model, Rule, percentile};
use crate::engine::Engine;
use crate::outcome::Outcome;
pub(super) use parameters::Zvm;
pub(super) use totals::METRICS;
use totals::Totals;
use world::Zone;

/// Number of blocks in a run: at least, at most, and the number of events that ends it in between.
const MIN_BLOCKS: u64 = 30;
const MAX_BLOCKS: u64 = 1_000;
const ENOUGH_EVENTS: u64 = 2_000_000;
/// Least number of blocks and sufficient events for open load, whose blocks are longer.
const OPEN: (u64, u64) = (4, 500_000);

impl Model for Zvm {
    fn rules(&self) -> Vec<Rule> {
        let (least, most) = (self.host.poll_least_us.get(), self.host.poll_most_us.get());
        let above = format!("the host's shortest interval, {least} us, is above its longest, {most} us");
        let too_shallow = "an adapter has more engines than requests: adapter.depth is the most it holds".to_owned();
        vec![
            (least > most, "host.poll_least_us", above),
            (self.adapter.engines.get() > self.adapter.depth.get(), "adapter.engines", too_shallow),
        ]
    }

    /// Guests' timers tick at fixed offsets from each other, which affect the waits for the host's timers. So a run
    /// consists of short blocks, each with offsets of its own. In a block every other guest signs and the others
    /// verify, and in the next block the reverse: `openssl speed` gives both the same time.
    fn run(&self, seed: u64) -> Outcome {
        let span = self.span();
        let is_open = self.gap().is_some();
        let (least, enough) = if is_open { OPEN } else { (MIN_BLOCKS, ENOUGH_EVENTS) };
        let (mut totals, mut times) = (Totals::default(), Vec::new());
        let (mut events, mut trace, mut blocks, mut intervals) = (0, 0_u64, 0, [0; 2]);
        while blocks < least || (events < enough && blocks < MAX_BLOCKS) {
            let mut engine = Engine::new(seed.wrapping_mul(BLOCK_SEEDS).wrapping_add(blocks));
            let mut zone = Zone::new(&mut engine, self, blocks, intervals);
            engine.run(&mut zone, span);
            zone.measure(totals);
            engine.run(&mut zone, 2 * span);
            let of_block;
            (totals, of_block, intervals) = zone.measured(span);
            times.extend(of_block);
            events += engine.events();
            trace = trace.rotate_left(5) ^ engine.trace();
            blocks += 1;
        }
        let mut values = totals.values();
        values.push(percentile(&mut times, 0.99) / 1e3);
        Outcome { values, limit: totals.limit(self), trace }
    }
}

const BLOCK_SEEDS: u64 = 1 << 20;
