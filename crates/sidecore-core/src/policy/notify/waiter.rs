//! The waiting side of a hop.
//!
//! `break-even` is ski rental: spin for as long as a park costs, then park. A wait then costs at most twice what it
//! would have cost had its length been known, and no rule without chance or a guess at the length promises less.
//! Source: Karlin and others, "Competitive randomized algorithms for nonuniform problems", Algorithmica 11 (1994). Two
//! things add to the bound: the last poll ends after the threshold, and a false wake-up is a second park within one
//! wait.

use super::{Audit, Notify};
use crate::time::Nanos;

/// What a waiter does next, having found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again.
    Spin,
    /// Sleep with the doorbell unarmed, then look.
    Nap {
        /// When to wake, an instant in ns.
        until: Nanos,
    },
    /// Arm the doorbell, look once more and sleep until woken.
    Park,
}

/// Decides how one side of a hop waits, and accounts what that costs.
#[derive(Clone, Debug)]
pub struct Waiter {
    policy: Notify,
    park_cost: Nanos,
    may_spin: bool,
    /// When the wait under way began.
    begun: Option<Nanos>,
    /// When the last step was answered with spin, until the time from there is accounted.
    spinning_since: Option<Nanos>,
    /// Whether the last step was answered with nap.
    napping: bool,
    /// The wait under way; `audit` has the finished ones.
    tally: Audit,
    audit: Audit,
}

impl Waiter {
    /// A waiter to which a sleep and a wake cost `park_cost` ns of CPU time. Where it does not own its core it may not
    /// spin: spin and break-even then wait as park. Numbers of the policy are brought to their limits.
    pub fn new(policy: Notify, park_cost: Nanos, may_spin: bool) -> Self {
        Self {
            policy: policy.within_limits(),
            park_cost,
            may_spin,
            begun: None,
            spinning_since: None,
            napping: false,
            tally: Audit::default(),
            audit: Audit::default(),
        }
    }

    /// The policy in force.
    #[inline]
    pub fn policy(&self) -> Notify {
        self.policy
    }

    /// Takes another policy, from the next step on, also within a wait.
    pub fn set_policy(&mut self, policy: Notify) {
        self.policy = policy.within_limits();
    }

    /// Takes another cost of a sleep and a wake, ns of CPU time.
    pub fn set_park_cost(&mut self, park_cost: Nanos) {
        self.park_cost = park_cost;
    }

    /// Whether it may spin, from the next step on.
    pub fn set_may_spin(&mut self, may_spin: bool) {
        self.may_spin = may_spin;
    }

    /// A wait begins: nothing was there. Without effect within a wait.
    #[inline]
    pub fn begin(&mut self, now: Nanos) {
        self.begun.get_or_insert(now);
    }

    /// What to do next. Called again and again while nothing is there; the first call begins the wait if
    /// [`begin`](Self::begin) did not.
    #[inline]
    pub fn step(&mut self, now: Nanos) -> Step {
        self.account_spinning(now);
        let begun = *self.begun.get_or_insert(now);
        let step = self.decide(begun, now);
        self.napping = matches!(step, Step::Nap { .. });
        if step == Step::Spin {
            self.spinning_since = Some(now);
            self.tally.empty_polls = self.tally.empty_polls.saturating_add(1);
        }
        step
    }

    /// The park or nap last answered was really slept, between these instants. Without effect outside a wait.
    pub fn parked(&mut self, now_before: Nanos, now_after: Nanos) {
        if self.begun.is_none() {
            return;
        }
        self.account_spinning(now_before);
        let sleeps = if self.napping { &mut self.tally.naps } else { &mut self.tally.parks };
        *sleeps = sleeps.saturating_add(1);
        self.tally.slept(now_after.saturating_sub(now_before), self.park_cost);
    }

    /// Something arrived: the wait is accounted. Without effect outside a wait.
    #[inline]
    pub fn end(&mut self, now: Nanos) {
        let Some(begun) = self.begun.take() else { return };
        self.account_spinning(now);
        self.tally.waits = 1;
        self.tally.optimum_ns = now.saturating_sub(begun).min(self.park_cost);
        self.audit.merge(&self.tally);
        self.tally = Audit::default();
    }

    /// Whether a wait is under way.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.begun.is_some()
    }

    /// What the finished waits cost.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    #[inline]
    fn decide(&self, begun: Nanos, now: Nanos) -> Step {
        match self.policy {
            Notify::Spin if self.may_spin => Step::Spin,
            Notify::BreakEven if self.may_spin && now.saturating_sub(begun) < self.park_cost => Step::Spin,
            Notify::Timer { period } => Step::Nap { until: next_look(begun, period, now) },
            Notify::Spin | Notify::Park | Notify::Coalesce { .. } | Notify::BreakEven => Step::Park,
        }
    }

    #[inline]
    fn account_spinning(&mut self, now: Nanos) {
        if let Some(since) = self.spinning_since.take() {
            self.tally.spun(now.saturating_sub(since));
        }
    }
}

/// The next point of the grid `begun + k * period` after now.
fn next_look(begun: Nanos, period: Nanos, now: Nanos) -> Nanos {
    let elapsed = now.saturating_sub(begun);
    begun.saturating_add(elapsed - elapsed % period).saturating_add(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spin_polls_and_costs_its_time() {
        let mut waiter = Waiter::new(Notify::Spin, 100, true);
        waiter.begin(1_000);
        for now in [1_000, 1_100, 1_200] {
            assert_eq!(waiter.step(now), Step::Spin);
        }
        assert!(waiter.is_waiting());
        waiter.end(1_250);
        let expected =
            Audit { waits: 1, empty_polls: 3, spun_ns: 250, cost_ns: 250, optimum_ns: 100, ..Audit::default() };
        assert_eq!((*waiter.audit(), waiter.is_waiting()), (expected, false));
    }

    #[test]
    fn park_sleeps_at_once() {
        for policy in [Notify::Park, Notify::Coalesce { count: 8, delay: 1_000 }] {
            let mut waiter = Waiter::new(policy, 100, true);
            waiter.begin(0);
            assert_eq!(waiter.step(0), Step::Park);
            waiter.parked(5, 45);
            waiter.end(50);
            let expected = Audit { waits: 1, parks: 1, slept_ns: 40, cost_ns: 100, optimum_ns: 50, ..Audit::default() };
            assert_eq!(*waiter.audit(), expected);
        }
    }

    #[test]
    fn timer_naps_on_its_grid() {
        let mut waiter = Waiter::new(Notify::Timer { period: 1_000 }, 100, true);
        waiter.begin(500);
        assert_eq!(waiter.step(500), Step::Nap { until: 1_500 });
        waiter.parked(510, 1_560);
        assert_eq!(waiter.step(1_560), Step::Nap { until: 2_500 });
        waiter.parked(1_560, 4_600);
        assert_eq!(waiter.step(4_600), Step::Nap { until: 5_500 });
        waiter.end(4_700);
        let audit = waiter.audit();
        assert_eq!((audit.naps, audit.parks, audit.cost_ns, audit.optimum_ns), (2, 0, 200, 100));
    }

    #[test]
    fn break_even_spins_as_long_as_a_park_costs() {
        let mut waiter = Waiter::new(Notify::BreakEven, 100, true);
        waiter.begin(0);
        assert_eq!((waiter.step(0), waiter.step(99), waiter.step(100)), (Step::Spin, Step::Spin, Step::Park));
        waiter.parked(100, 900);
        waiter.end(910);
        assert_eq!((waiter.audit().cost_ns, waiter.audit().optimum_ns), (200, 100));
        assert!((waiter.audit().ratio() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_core_that_is_not_owned_never_spins() {
        for policy in [Notify::Spin, Notify::BreakEven] {
            assert_eq!(Waiter::new(policy, 100, false).step(0), Step::Park);
        }
    }

    #[test]
    fn a_park_found_unnecessary_costs_nothing() {
        let mut waiter = Waiter::new(Notify::Park, 100, true);
        assert_eq!(waiter.step(0), Step::Park);
        waiter.end(10);
        assert_eq!(*waiter.audit(), Audit { waits: 1, optimum_ns: 10, ..Audit::default() });
    }

    #[test]
    fn a_new_policy_holds_within_a_wait() {
        let mut waiter = Waiter::new(Notify::Spin, 100, true);
        assert_eq!(waiter.step(0), Step::Spin);
        waiter.set_policy(Notify::Timer { period: 1 });
        assert_eq!(waiter.policy(), Notify::Timer { period: Notify::MIN_INTERVAL });
        assert_eq!(waiter.step(1_700), Step::Nap { until: 2_000 });
        waiter.set_policy(Notify::BreakEven);
        waiter.set_park_cost(5_000);
        assert_eq!(waiter.step(2_000), Step::Spin);
    }

    #[test]
    fn calls_outside_a_wait_change_nothing() {
        let mut waiter = Waiter::new(Notify::Park, 100, true);
        waiter.parked(0, 10);
        waiter.end(10);
        assert_eq!(*waiter.audit(), Audit::default());
    }

    #[test]
    fn time_that_runs_backwards_or_out_is_survived() {
        let mut waiter = Waiter::new(Notify::Timer { period: 1_000 }, u64::MAX, true);
        waiter.begin(u64::MAX - 5);
        assert_eq!(waiter.step(3), Step::Nap { until: u64::MAX });
        waiter.parked(10, 3);
        waiter.parked(3, 3);
        waiter.end(0);
        assert_eq!((waiter.audit().cost_ns, waiter.audit().slept_ns), (u64::MAX, 0));
    }
}
