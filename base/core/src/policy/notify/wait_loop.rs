//! The protocol of going to sleep, written once: look, arm, look again, sleep, disarm.
//!
//! [`WaitLoop`] decides the next step, and its driver carries it out: a client, a sidecore or a worker, each in real
//! or in simulated time. Messages from before the arming do not ring, hence the second look. Messages after it do.

use super::{Step, Waiter};
use crate::time::Nanos;
use core::mem;

/// The waiter's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Looks. The next call is for a look that found nothing.
    Look,
    /// Stays on its core for a moment, then looks.
    Spin,
    /// Arms all that can ring, looks at it once more and calls again.
    Arm,
    /// Sleeps and calls again when it is awake, for any reason.
    Sleep {
        /// When to wake by itself at the latest, an instant in ns.
        until: Option<Nanos>,
        /// The doorbells are armed: it may be woken before.
        armed: bool,
    },
    /// Disarms everything that it armed, then looks.
    Disarm,
}

/// One side of a hop, and where it is in its wait.
#[derive(Clone, Debug)]
pub struct WaitLoop {
    /// How it waits, and what that costs.
    pub waiter: Waiter,
    phase: WaitPhase,
}

#[derive(Clone, Copy, Debug)]
enum WaitPhase {
    Awake,
    Armed,
    Asleep { since: Nanos, armed: bool },
}

impl WaitLoop {
    /// Not in a wait.
    pub fn new(waiter: Waiter) -> Self {
        Self { waiter, phase: WaitPhase::Awake }
    }

    /// A wait begins: its first look is done and found nothing. An abandoned earlier wait is over in any phase; its
    /// armed doorbells may still ring.
    pub fn begin(&mut self, now: Nanos) {
        self.phase = WaitPhase::Awake;
        self.waiter.begin(now);
    }

    /// The next action. `found` is the result of the last look; after [`Wait::Arm`] that of the second look. The
    /// caller that takes the found item calls [`Waiter::end`].
    #[inline]
    pub fn next(&mut self, now: Nanos, found: bool) -> Wait {
        match mem::replace(&mut self.phase, WaitPhase::Awake) {
            WaitPhase::Awake if found => Wait::Look,
            WaitPhase::Awake => match self.waiter.step(now) {
                Step::Spin => Wait::Spin,
                Step::Nap { until } => self.sleep(now, Some(until), false),
                Step::Park => {
                    self.phase = WaitPhase::Armed;
                    Wait::Arm
                }
            },
            WaitPhase::Armed if found => Wait::Disarm,
            WaitPhase::Armed => self.sleep(now, None, true),
            WaitPhase::Asleep { since, armed } => {
                self.waiter.parked(since, now);
                if armed { Wait::Disarm } else { Wait::Look }
            }
        }
    }

    fn sleep(&mut self, now: Nanos, until: Option<Nanos>, armed: bool) -> Wait {
        self.phase = WaitPhase::Asleep { since: now, armed };
        Wait::Sleep { until, armed }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Notify;
    use super::*;

    fn waits(policy: Notify) -> WaitLoop {
        WaitLoop::new(Waiter::new(policy, 100, true))
    }

    #[test]
    fn it_sleeps_only_after_a_look_that_follows_the_arming() {
        let mut waits = waits(Notify::Park);
        assert_eq!(waits.next(10, false), Wait::Arm);
        assert_eq!(waits.next(10, false), Wait::Sleep { until: None, armed: true });
        assert_eq!(waits.next(90, true), Wait::Disarm);
        waits.waiter.end(95);
        let audit = waits.waiter.audit();
        assert_eq!((audit.waits, audit.parks, audit.slept_ns), (1, 1, 80));
    }

    #[test]
    fn what_came_before_the_arming_keeps_it_awake() {
        let mut waits = waits(Notify::Park);
        assert_eq!((waits.next(10, false), waits.next(10, true)), (Wait::Arm, Wait::Disarm));
        waits.waiter.end(15);
        assert_eq!((waits.waiter.audit().waits, waits.waiter.audit().parks), (1, 0));
    }

    #[test]
    fn what_is_there_is_not_waited_for() {
        let mut waits = waits(Notify::Park);
        assert_eq!(waits.next(10, true), Wait::Look);
        assert!(!waits.waiter.is_waiting());
    }

    #[test]
    fn a_wait_that_was_given_up_leaves_nothing_to_the_next() {
        let mut waits = waits(Notify::Park);
        waits.begin(10);
        assert_eq!(waits.next(10, false), Wait::Arm);
        waits.begin(20);
        assert_eq!(waits.next(20, false), Wait::Arm);
        assert_eq!(waits.next(20, false), Wait::Sleep { until: None, armed: true });
        waits.begin(90);
        assert_eq!(waits.next(90, true), Wait::Look);
        waits.waiter.end(95);
        assert_eq!(waits.waiter.audit().slept_ns, 0, "nobody knows how long the sleep was");
    }

    #[test]
    fn after_each_sleep_it_looks_and_asks_the_policy_again() {
        let mut waits = waits(Notify::BreakEven);
        assert_eq!((waits.next(0, false), waits.next(99, false)), (Wait::Spin, Wait::Spin));
        for start in [100, 500] {
            assert_eq!(waits.next(start, false), Wait::Arm);
            assert_eq!(waits.next(start, false), Wait::Sleep { until: None, armed: true });
            assert_eq!(waits.next(start + 300, false), Wait::Disarm);
        }
        waits.waiter.end(900);
        assert_eq!((waits.waiter.audit().waits, waits.waiter.audit().parks), (1, 2));
    }

    #[test]
    fn a_timer_arms_nothing() {
        let mut waits = waits(Notify::Timer { period: 1_000 });
        assert_eq!(waits.next(0, false), Wait::Sleep { until: Some(1_000), armed: false });
        assert_eq!((waits.next(1_060, false), waits.waiter.is_waiting()), (Wait::Look, true));
        assert_eq!(waits.next(1_060, false), Wait::Sleep { until: Some(2_000), armed: false });
    }
}
