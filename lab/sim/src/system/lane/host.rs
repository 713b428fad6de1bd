//! Interruptions of a core by the host: its thread does not run during them, neither working nor spinning.

use super::Spread;
use crate::engine::Random;
use sidecore_core::time::Nanos;

pub(super) struct Host {
    /// Mean time from the end of one to the next, ns.
    every: f64,
    lasts: Spread,
    from: Nanos,
    until: Nanos,
}

impl Host {
    pub(super) fn new(every: f64, lasts: Spread) -> Self {
        let from = if lasts.is_any() { 0 } else { Nanos::MAX };
        Self { every, lasts, from, until: from }
    }

    /// End of work that begins at `start` and needs the core for `time`, ns.
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

    /// The thread slept until now: interruptions during that had no effect.
    pub(super) fn slept(&mut self, now: Nanos) {
        if self.from < now {
            self.until = self.until.min(now);
        }
    }

    /// Advances to the first interruption that ends later than `at`.
    fn pass(&mut self, random: &mut Random, at: Nanos) {
        while self.until <= at {
            self.from = self.until + random.exponential(self.every).round() as Nanos;
            self.until = self.from + self.lasts.draw(random).round().max(1.0) as Nanos;
        }
    }
}
