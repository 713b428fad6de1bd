//! Costs of waiting, compared with the offline optimum.

use crate::time::Nanos;

/// Totals over the finished waits of one waiter. They stop at their maximum.
///
/// A wait costs the time it spun, and one park cost for each park and each nap: a nap is a sleep and a wake as well.
/// The optimum knows the length of each gap, and spins through it or parks immediately, at the lesser cost. The length
/// is the observed one, from begin to end of the wait, so it includes the latency of a wake-up. For a short gap spent
/// in a park the optimum is therefore a little too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Finished waits.
    pub waits: u64,
    /// Looks that found nothing and led to spinning.
    pub empty_polls: u64,
    /// Sleeps to a given time.
    pub naps: u64,
    /// Sleeps until woken.
    pub parks: u64,
    /// Time spent polling, ns.
    pub spun_ns: Nanos,
    /// Time spent asleep, in parks and naps, ns.
    pub slept_ns: Nanos,
    /// Cost of the waits, ns of CPU time.
    pub cost_ns: Nanos,
    /// Least cost of the waits with known lengths, ns of CPU time.
    pub optimum_ns: Nanos,
}

impl Audit {
    /// Cost as a multiple of the optimum; 1 before any wait.
    pub fn ratio(&self) -> f64 {
        self.cost_ns.max(1) as f64 / self.optimum_ns.max(1) as f64
    }

    /// Adds the totals of another.
    pub fn merge(&mut self, other: &Self) {
        self.waits = self.waits.saturating_add(other.waits);
        self.empty_polls = self.empty_polls.saturating_add(other.empty_polls);
        self.naps = self.naps.saturating_add(other.naps);
        self.parks = self.parks.saturating_add(other.parks);
        self.spun_ns = self.spun_ns.saturating_add(other.spun_ns);
        self.slept_ns = self.slept_ns.saturating_add(other.slept_ns);
        self.cost_ns = self.cost_ns.saturating_add(other.cost_ns);
        self.optimum_ns = self.optimum_ns.saturating_add(other.optimum_ns);
    }

    /// The numbers in the counters' order: parks stand before naps.
    #[inline]
    pub fn words(&self) -> [u64; 8] {
        let Self { waits, empty_polls, naps, parks, spun_ns, slept_ns, cost_ns, optimum_ns } = *self;
        [waits, empty_polls, parks, naps, spun_ns, slept_ns, cost_ns, optimum_ns]
    }

    #[inline]
    pub(super) fn spun(&mut self, time: Nanos) {
        self.spun_ns = self.spun_ns.saturating_add(time);
        self.cost_ns = self.cost_ns.saturating_add(time);
    }

    #[inline]
    pub(super) fn slept(&mut self, time: Nanos, park_cost: Nanos) {
        self.slept_ns = self.slept_ns.saturating_add(time);
        self.cost_ns = self.cost_ns.saturating_add(park_cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_and_stop_at_the_maximum() {
        let mut audit = Audit { waits: 1, cost_ns: 30, optimum_ns: 20, ..Audit::default() };
        assert!((audit.ratio() - 1.5).abs() < 1e-9);
        audit.merge(&Audit { waits: 2, parks: 3, cost_ns: u64::MAX, optimum_ns: 20, ..Audit::default() });
        assert_eq!(audit, Audit { waits: 3, parks: 3, cost_ns: u64::MAX, optimum_ns: 40, ..Audit::default() });
    }

    #[test]
    fn nothing_cost_nothing() {
        assert!((Audit::default().ratio() - 1.0).abs() < 1e-9);
    }
}
