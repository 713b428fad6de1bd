//! A threshold learnt from recent gaps, with a bound on its cost that holds for any gaps.
//!
//! Spinning for as long as the recent gaps make cheapest is right while the future is like the past. Source of the
//! idea: Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning for a shared-memory
//! multiprocessor", SOSP 1991. A balance of savings makes it safe: three times the offline optimum less the cost so
//! far. A wait may only choose a threshold `t` whose worst gap, one just longer, is covered by the savings `s`. With
//! park cost `c` this means `(c - s) / 2 <= t <= 2c + s`. Without savings that is c/2 to 2c. Each wait that goes well
//! widens it, so that at a steady load the threshold can be 0 (park immediately) or far above (spin). The cost of a
//! run so never exceeds three times the offline optimum by more than one poll, if no poll takes longer than a park
//! and no wake-up is false. The end of a gap during a park is known from the wake-up only. Savings count such a gap's
//! length less a park cost, or less the time of a wake-up where that is longer. So the bound also holds for true
//! lengths, but for one poll in each wait, if no wake-up takes longer than stated.
//!
//! A waiter that parks immediately cannot observe short gaps: its observations end with a wake-up. Two waiters that
//! wait for each other and both park see only each other's wake-ups. So of 256 waits in the mean eight in a row are
//! probes, which spin for two and a half parks: long enough for a partner that has to be woken. The distance between
//! rows is random, drawn from the lengths of gaps, so that the rows of two partners overlap sooner or later. Probes
//! go on while they find gaps above the learnt threshold and no longer than a park. Gaps count if the
//! threshold was at least the park cost, and are true then.

mod gaps;

use super::Audit;
use crate::time::Nanos;
use gaps::Gaps;

/// Least distance between the beginnings of two rows of probes, in waits. A random part with the same mean is added.
const PROBE_PAUSE: u32 = 128;
const PROBES: u32 = 8;
/// A probe spins for this number of half parks.
const PROBE_HALVES: i64 = 5;
/// Gaps between two looks for the best threshold.
const REVISE_EVERY: u32 = 8;
/// Limit of the savings, in park costs. It bounds the excess of any stretch of a run above three times its optimum.
const MAX_SAVED_PARKS: i64 = 8;
/// Limit of park costs and gaps, ns: sums cannot overflow.
const MAX_TIME_NS: Nanos = 1 << 40;

#[derive(Clone, Debug)]
pub(super) struct Learner {
    gaps: Gaps,
    learnt: Option<Nanos>,
    unrevised: u32,
    savings: i64,
    until_probes: u32,
    probes: u32,
    /// A pseudo-random number, hashed from the lengths of gaps.
    chance: u64,
    /// Threshold of the wait under way, ns.
    threshold: Nanos,
}

impl Learner {
    pub(super) fn new() -> Self {
        Self {
            gaps: Gaps::new(),
            learnt: None,
            unrevised: 0,
            savings: 0,
            until_probes: 2 * PROBE_PAUSE,
            chance: 0,
            probes: 0,
            threshold: 0,
        }
    }

    pub(super) fn begin(&mut self, park_cost: Nanos) {
        let cost = park_cost.min(MAX_TIME_NS).cast_signed();
        self.savings = self.savings.clamp(-cost, MAX_SAVED_PARKS * cost);
        self.until_probes = self.until_probes.saturating_sub(1);
        if self.until_probes == 0 {
            self.probes = PROBES;
            self.until_probes = PROBE_PAUSE + (self.chance >> 32) as u32 % (2 * PROBE_PAUSE);
        }
        let least = (cost - self.savings + 1).max(0) / 2;
        let most = 2 * cost + self.savings;
        let wanted = self.learnt.unwrap_or(park_cost).min(MAX_TIME_NS).cast_signed();
        let wanted = if self.probes > 0 { wanted.max(cost * PROBE_HALVES / 2) } else { wanted };
        self.threshold = wanted.clamp(least, most).cast_unsigned();
    }

    #[inline]
    pub(super) fn threshold(&self) -> Nanos {
        self.threshold
    }

    /// The wait ended after `gap` ns at the cost in `wait`. A wake-up takes up to `wake_time`, ns.
    pub(super) fn end(&mut self, gap: Nanos, wait: &Audit, park_cost: Nanos, wake_time: Nanos) {
        let cost = wait.cost_ns.min(MAX_TIME_NS).cast_signed();
        // Fibonacci hashing, the source: Knuth, The Art of Computer Programming, 6.4.
        self.chance = (self.chance ^ gap).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let found_spinning = wait.parks == 0 && wait.naps == 0;
        let surely = if found_spinning { gap } else { wait.spun_ns.max(gap.saturating_sub(park_cost.max(wake_time))) };
        let optimum = surely.min(park_cost).min(MAX_TIME_NS).cast_signed();
        self.savings = self.savings.saturating_add(3 * optimum - cost);
        if self.threshold >= park_cost {
            self.observe(gap, park_cost);
        }
        let worth_it = found_spinning && gap <= park_cost && self.learnt.is_some_and(|learnt| gap > learnt);
        self.probes = if worth_it { self.probes.max(1) } else { self.probes.saturating_sub(1) };
    }

    fn observe(&mut self, gap: Nanos, park_cost: Nanos) {
        self.gaps.record(gap.min(MAX_TIME_NS));
        self.unrevised += 1;
        if self.unrevised == REVISE_EVERY {
            self.unrevised = 0;
            self.learnt = Some(self.gaps.best_threshold(park_cost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Nanos = 1_000;

    fn wait(learner: &mut Learner, gap: Nanos) -> Nanos {
        learner.begin(COST);
        let threshold = learner.threshold();
        let parks = u64::from(gap > threshold);
        let spun_ns = gap.min(threshold);
        learner.end(gap, &Audit { parks, spun_ns, cost_ns: spun_ns + parks * COST, ..Audit::default() }, COST, COST);
        threshold
    }

    fn waits(learner: &mut Learner, count: u32, gap: Nanos) {
        for _ in 0..count {
            wait(learner, gap);
        }
    }

    #[test]
    fn it_begins_as_break_even_and_then_follows_the_gaps() {
        let mut learner = Learner::new();
        assert_eq!(wait(&mut learner, 100_000), COST);
        waits(&mut learner, 15, 100_000);
        let thresholds: [Nanos; 4_096] = core::array::from_fn(|_| wait(&mut learner, 100_000));
        let probes = thresholds.iter().filter(|threshold| **threshold == 2_500).count();
        assert!((80..=250).contains(&probes), "{probes}");
        assert_eq!(thresholds.iter().filter(|threshold| **threshold == 0).count(), 4_096 - probes);
    }

    #[test]
    fn probes_go_on_as_soon_as_gaps_are_short() {
        let mut learner = Learner::new();
        waits(&mut learner, 1_000, 100_000);
        let asleep = (0..1_000).take_while(|_| wait(&mut learner, 500) < 500).count();
        assert!(asleep < 384, "{asleep}");
        assert!((0..1_000).all(|_| wait(&mut learner, 500) >= 500));
    }

    #[test]
    fn without_savings_the_threshold_is_between_half_and_twice_the_cost() {
        let mut learner = Learner::new();
        for (learnt, threshold) in [(0, 500), (700, 700), (50_000, 2_000)] {
            learner.learnt = Some(learnt);
            learner.begin(COST);
            assert_eq!(learner.threshold(), threshold);
        }
        learner.savings = -400;
        learner.begin(COST);
        assert_eq!(learner.threshold(), 1_600);
        learner.savings = 800;
        learner.learnt = Some(0);
        learner.begin(COST);
        assert_eq!(learner.threshold(), 100);
    }

    #[test]
    fn savings_are_limited() {
        let mut learner = Learner::new();
        waits(&mut learner, 1_000, 900);
        learner.begin(COST);
        assert_eq!(learner.savings, 8_000);
    }
}
