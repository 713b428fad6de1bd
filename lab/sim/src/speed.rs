//! A world with timers only, to measure the speed of the engine.

use crate::engine::{Engine, World};
use sidecore_core::time::Nanos;

const MAX_DELAY_NS: Nanos = 100_000;

struct Timers {
    left: u64,
}

impl World for Timers {
    type Event = u32;

    fn handle(&mut self, engine: &mut Engine<u32>, timer: u32) {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            let delay = engine.random().below(MAX_DELAY_NS);
            engine.after(delay, timer);
        }
    }
}

/// Handles `events` events with `pending` timers; each restarts with a random time. Returns the number of
/// handled events, including the pending ones at the end.
pub fn timers(pending: usize, events: u64) -> u64 {
    let mut engine = Engine::new(1);
    for timer in 0..pending {
        engine.schedule(timer as Nanos, timer as u32);
    }
    engine.run(&mut Timers { left: events }, Nanos::MAX - 1);
    engine.events()
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_events_are_handled() {
        assert!((1_000..1_008).contains(&super::timers(8, 1_000)));
    }
}
