//! The waking side of a hop: interrupt moderation by count and time, as network interfaces do it.

use super::Notify;
use crate::time::Nanos;

/// When to ring a sleeping waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeDecision {
    /// Now. Repeated until [`Moderator::rung`] is called.
    Now,
    /// At this instant in ns, if nothing else comes before: call [`Moderator::due`] then.
    At(Nanos),
    /// Not at all: nothing is pending.
    Nothing,
}

/// Decides when completions are announced.
///
/// No policy stalls: a completion is announced within its delay if [`due`](Self::due) is called at the last returned
/// instant, for any sequence of completions. Under `timer` it rings as under `park`. A waiter under `timer` never
/// arms its doorbell, so it is not woken; a waiter that did arm follows another policy, its own or the one before.
#[derive(Clone, Debug)]
pub struct Moderator {
    policy: Notify,
    pending: u32,
    oldest: Nanos,
    urgent: bool,
}

impl Moderator {
    /// Nothing is pending. Numbers of the policy are brought to their limits.
    pub fn new(policy: Notify) -> Self {
        Self { policy: policy.within_limits(), pending: 0, oldest: 0, urgent: false }
    }

    /// Takes another policy. Call [`due`](Self::due) afterwards: what is pending may now have to be announced.
    pub fn set_policy(&mut self, policy: Notify) {
        self.policy = policy.within_limits();
    }

    /// `count` completions were published; `urgent` if one of them does not want to wait.
    #[inline]
    pub fn completed(&mut self, now: Nanos, count: u32, urgent: bool) -> WakeDecision {
        if count > 0 {
            if self.pending == 0 {
                self.oldest = now;
            }
            self.pending = self.pending.saturating_add(count);
            self.urgent |= urgent;
        }
        self.due(now)
    }

    /// The decision now. May be called at any time, and must be when the instant of [`WakeDecision::At`] has come.
    #[inline]
    pub fn due(&mut self, now: Nanos) -> WakeDecision {
        if self.pending == 0 {
            return WakeDecision::Nothing;
        }
        match self.policy {
            Notify::Spin | Notify::Park | Notify::BreakEven | Notify::Learn | Notify::Timer { .. } => WakeDecision::Now,
            Notify::Coalesce { count, .. } if self.urgent || self.pending >= count => WakeDecision::Now,
            Notify::Coalesce { delay, .. } if now.saturating_sub(self.oldest) >= delay => WakeDecision::Now,
            Notify::Coalesce { delay, .. } => WakeDecision::At(self.oldest.saturating_add(delay)),
        }
    }

    /// Everything pending was announced, or the waiter has seen it.
    #[inline]
    pub fn rung(&mut self) {
        self.pending = 0;
        self.urgent = false;
    }

    /// Completions published and not announced.
    #[inline]
    pub fn pending(&self) -> u32 {
        self.pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COALESCE: Notify = Notify::Coalesce { count: 3, delay: 1_000 };

    #[test]
    fn without_moderation_each_completion_rings() {
        let timer = Notify::Timer { period: 1_000 };
        for policy in [Notify::Spin, Notify::Park, Notify::BreakEven, Notify::Learn, timer] {
            let mut moderator = Moderator::new(policy);
            assert_eq!(moderator.due(0), WakeDecision::Nothing);
            assert_eq!(moderator.completed(5, 1, false), WakeDecision::Now);
            moderator.rung();
            assert_eq!((moderator.due(6), moderator.pending()), (WakeDecision::Nothing, 0));
        }
    }

    #[test]
    fn coalescing_rings_by_count() {
        let mut moderator = Moderator::new(COALESCE);
        assert_eq!(moderator.completed(10, 1, false), WakeDecision::At(1_010));
        assert_eq!(moderator.completed(20, 1, false), WakeDecision::At(1_010));
        assert_eq!(moderator.completed(30, 1, false), WakeDecision::Now);
        assert_eq!(moderator.due(31), WakeDecision::Now, "until it is rung");
        moderator.rung();
        assert_eq!(moderator.completed(40, 1, false), WakeDecision::At(1_040));
    }

    #[test]
    fn coalescing_rings_by_time_and_for_the_urgent() {
        let mut moderator = Moderator::new(COALESCE);
        assert_eq!(moderator.completed(10, 1, false), WakeDecision::At(1_010));
        assert_eq!((moderator.due(1_009), moderator.due(1_010)), (WakeDecision::At(1_010), WakeDecision::Now));
        moderator.rung();
        assert_eq!(moderator.completed(2_000, 1, true), WakeDecision::Now);
        moderator.rung();
        assert_eq!(moderator.completed(3_000, 1, false), WakeDecision::At(4_000), "urgency ends with the ring");
    }

    #[test]
    fn a_new_policy_applies_to_what_is_pending() {
        let mut moderator = Moderator::new(COALESCE);
        moderator.completed(0, 1, false);
        moderator.set_policy(Notify::Park);
        assert_eq!(moderator.due(1), WakeDecision::Now);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut moderator = Moderator::new(COALESCE);
        assert_eq!(moderator.completed(0, 0, true), WakeDecision::Nothing);
        assert_eq!(moderator.completed(u64::MAX, 1, false), WakeDecision::At(u64::MAX));
        moderator.completed(0, u32::MAX, false);
        moderator.completed(0, u32::MAX, false);
        assert_eq!(moderator.pending(), u32::MAX);
    }
}
