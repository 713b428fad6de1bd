//! What a host takes away from a core that it lends: the thread on it does not run meanwhile, whatever it does.

use super::Spread;
use crate::engine::Random;
use sidecore_core::time::Nanos;

/// The interruptions of one core, which come at random times, one after the other.
pub(super) struct Host {
    /// From the end of one to the next, in the mean, ns.
    every: f64,
    lasts: Spread,
    /// The interruption that is under way or comes next.
    from: Nanos,
    until: Nanos,
}

impl Host {
    pub(super) fn new(every: f64, lasts: Spread) -> Self {
        let from = if lasts.is_any() { 0 } else { Nanos::MAX };
        Self { every, lasts, from, until: from }
    }

    /// When a thread is done that begins at that instant and needs the core for so long, ns.
    pub(super) fn run(&mut self, random: &mut Random, start: Nanos, time: Nanos) -> Nanos {
        let (mut at, mut left) = (start, time);
        loop {
            self.pass(random, at);
            if at < self.from {
                let ran = left.min(self.from - at);
                (at, left) = (at + ran, left - ran);
            }
            if left == 0 {
                return at;
            }
            at = self.until;
        }
    }

    /// The thread slept until then: what would have interrupted it did not.
    pub(super) fn slept(&mut self, now: Nanos) {
        if self.from < now {
            self.until = self.until.min(now);
        }
    }

    /// Goes on to the first interruption that ends later than that.
    fn pass(&mut self, random: &mut Random, at: Nanos) {
        while self.until <= at {
            self.from = self.until + random.exponential(self.every).round() as Nanos;
            self.until = self.from + self.lasts.draw(random).round().max(1.0) as Nanos;
        }
    }
}
