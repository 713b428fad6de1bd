//! The waiting side of a hop.
//!
//! `break-even` is ski rental: spin for as long as a park costs, then park. A wait then costs at most twice its least
//! cost for a known length. No rule without chance or a guess at the length promises less. Source: Karlin and others,
//! "Competitive randomized algorithms for nonuniform problems", Algorithmica 11 (1994). Two things add to the bound:
//! the last poll ends after the threshold, and a false wake-up is a second park within one wait.

use super::learn::Learner;
use super::{Audit, Notify};
use crate::time::Nanos;

/// The waiter's next step after a look that found nothing.
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

/// Decides how one side of a hop waits, and accounts the cost.
#[derive(Clone, Debug)]
pub struct Waiter {
    policy: Notify,
    park_cost: Nanos,
    wake_time: Nanos,
    may_spin: bool,
    begun: Option<Nanos>,
    spinning_since: Option<Nanos>,
    naps: bool,
    learner: Learner,
    tally: Audit,
    audit: Audit,
}

impl Waiter {
    /// A waiter with `park_cost` ns of CPU time for a sleep and a wake. Without its own core it may not spin:
    /// policies that spin then wait as park. Numbers of the policy are brought to their limits.
    pub fn new(policy: Notify, park_cost: Nanos, may_spin: bool) -> Self {
        Self {
            policy: policy.within_limits(),
            park_cost,
            wake_time: park_cost,
            may_spin,
            begun: None,
            spinning_since: None,
            naps: false,
            learner: Learner::new(),
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
        if policy == Notify::Learn && self.begun.is_some() {
            self.learner.begin(self.park_cost);
        }
    }

    /// Takes another cost of a sleep and a wake, ns of CPU time.
    pub fn set_park_cost(&mut self, park_cost: Nanos) {
        self.park_cost = park_cost;
    }

    /// Time from a ring until the sleeper runs, ns: a length that occurs occasionally. The default is the park cost.
    /// `learn` uses it.
    pub fn set_wake_time(&mut self, wake_time: Nanos) {
        self.wake_time = wake_time;
    }

    /// Whether it may spin, from the next step on.
    pub fn set_may_spin(&mut self, may_spin: bool) {
        self.may_spin = may_spin;
    }

    /// A wait begins after a look that found nothing. Without effect within a wait.
    #[inline]
    pub fn begin(&mut self, now: Nanos) {
        self.begun_at(now);
    }

    /// The next step. Called repeatedly while nothing is found; the first call begins the wait if
    /// [`begin`](Self::begin) did not.
    #[inline]
    pub fn step(&mut self, now: Nanos) -> Step {
        self.account_spinning(now);
        let begun = self.begun_at(now);
        let step = self.decide(begun, now);
        self.naps = matches!(step, Step::Nap { .. });
        if step == Step::Spin {
            self.spinning_since = Some(now);
            self.tally.empty_polls = self.tally.empty_polls.saturating_add(1);
        }
        step
    }

    /// The park or nap of the last step was really slept, between these instants. Without effect outside a wait.
    pub fn parked(&mut self, now_before: Nanos, now_after: Nanos) {
        if self.begun.is_none() {
            return;
        }
        self.account_spinning(now_before);
        let sleeps = if self.naps { &mut self.tally.naps } else { &mut self.tally.parks };
        *sleeps = sleeps.saturating_add(1);
        self.tally.slept(now_after.saturating_sub(now_before), self.park_cost);
    }

    /// Something arrived: the wait is accounted. Without effect outside a wait.
    #[inline]
    pub fn end(&mut self, now: Nanos) {
        let Some(begun) = self.begun.take() else { return };
        self.account_spinning(now);
        let gap = now.saturating_sub(begun);
        self.tally.waits = 1;
        self.tally.optimum_ns = gap.min(self.park_cost);
        if self.policy == Notify::Learn {
            self.learner.end(gap, &self.tally, self.park_cost, self.wake_time);
        }
        self.audit.merge(&self.tally);
        self.tally = Audit::default();
    }

    /// Whether a wait is under way.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.begun.is_some()
    }

    /// Totals of the finished waits.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    #[inline]
    fn begun_at(&mut self, now: Nanos) -> Nanos {
        if let Some(begun) = self.begun {
            return begun;
        }
        self.begun = Some(now);
        if self.policy == Notify::Learn {
            self.learner.begin(self.park_cost);
        }
        now
    }

    #[inline]
    fn decide(&self, begun: Nanos, now: Nanos) -> Step {
        let spin_for = |threshold| if now.saturating_sub(begun) < threshold { Step::Spin } else { Step::Park };
        match self.policy {
            Notify::Timer { period } => Step::Nap { until: next_look(begun, period, now) },
            Notify::Park | Notify::Coalesce { .. } => Step::Park,
            _ if !self.may_spin => Step::Park,
            Notify::Spin => Step::Spin,
            Notify::BreakEven => spin_for(self.park_cost),
            Notify::Learn => spin_for(self.learner.threshold()),
        }
    }

    #[inline]
    fn account_spinning(&mut self, now: Nanos) {
        if let Some(since) = self.spinning_since.take() {
            self.tally.spun(now.saturating_sub(since));
        }
    }
}

fn next_look(begun: Nanos, period: Nanos, now: Nanos) -> Nanos {
    let elapsed = now.saturating_sub(begun);
    begun.saturating_add(elapsed - elapsed % period).saturating_add(period)
}

#[cfg(test)]
mod tests;
