//! The host's two tasks and the adapters.

use super::parameters::{Look, Poll};
use crate::engine::Timer;
use sidecore_core::policy::notify::{Moderator, Step, Waiter, WakeDecision};
use sidecore_core::time::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Parked,
    Napping,
    /// Begins its work after waking, or looks, perhaps in vain.
    Looking,
    Moving,
    Injecting(u32),
}

pub(super) struct Task {
    pub(super) doing: Doing,
    pub(super) timer: Option<Timer>,
    poll: Poll,
    /// Interval of its timer, ns, and whether it has found work since the last tick.
    pub(super) interval: Nanos,
    found: bool,
    pub(super) is_told: bool,
    /// The service's policy that decides its waits instead of the timer.
    policy: Option<(Box<Waiter>, Moderator)>,
}

impl Task {
    /// A task that sleeps until its first look. `interval`: the first one of its timer; `cost`: CPU time of its
    /// wake-up, ns.
    pub(super) fn new(look: Look, poll: Poll, interval: Nanos, cost: Nanos) -> Self {
        let interval = interval.clamp(poll.least, poll.most);
        let (is_told, policy) = match look {
            Look::Adaptive => (false, None),
            Look::Told => (true, None),
            Look::Notify(policy) => (false, Some((Box::new(Waiter::new(policy, cost, true)), Moderator::new(policy)))),
        };
        Self { doing: Doing::Napping, timer: None, poll, interval, found: false, is_told, policy }
    }

    pub(super) fn found(&mut self, now: Nanos) {
        self.found = true;
        if let Some((waiter, moderator)) = &mut self.policy {
            waiter.end(now);
            moderator.rung();
        }
    }

    pub(super) fn rest(&mut self, now: Nanos) -> Step {
        let rest = match &mut self.policy {
            Some((waiter, _)) => waiter.step(now),
            None if self.is_told => Step::Park,
            None => {
                let factor = if std::mem::take(&mut self.found) { 1.0 / self.poll.growth } else { self.poll.growth };
                self.interval = ((self.interval as f64 * factor) as Nanos).clamp(self.poll.least, self.poll.most);
                Step::Nap { until: now + self.interval + self.poll.late }
            }
        };
        self.doing = match rest {
            Step::Spin => Doing::Looking,
            Step::Nap { .. } => Doing::Napping,
            Step::Park => Doing::Parked,
        };
        rest
    }

    pub(super) fn ring(&mut self, now: Nanos) -> WakeDecision {
        match &mut self.policy {
            Some((_, moderator)) => moderator.completed(now, 1, false),
            None if self.is_told => WakeDecision::Now,
            None => WakeDecision::Nothing,
        }
    }

    pub(super) fn due(&mut self, now: Nanos) -> WakeDecision {
        self.policy.as_mut().map_or(WakeDecision::Nothing, |(_, moderator)| moderator.due(now))
    }
}

/// Begins a request on the adapter's engine that is free first; `engines`: the time that each is free. Returns the
/// end.
pub(super) fn begin(engines: &mut [Nanos], now: Nanos, time: Nanos) -> Nanos {
    let engine = engines.iter_mut().min().expect("an adapter has an engine");
    *engine = now.max(*engine) + time;
    *engine
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_core::policy::notify::Notify;

    const POLL: Poll = Poll { least: 50, most: 300, growth: 2.0, late: 0 };

    #[test]
    fn intervals_grow_while_nothing_is_found_and_shrink_otherwise() {
        let mut task = Task::new(Look::Adaptive, POLL, 0, 0);
        let mut rest = || task.rest(1_000);
        let seen = [rest(), rest(), rest(), rest()];
        assert_eq!(seen, [1_100, 1_200, 1_300, 1_300].map(|until| Step::Nap { until }));
        task.found(1_000);
        assert_eq!((task.rest(1_000), task.interval), (Step::Nap { until: 1_150 }, 150));
        for _ in 0..3 {
            task.found(1_000);
            task.rest(1_000);
        }
        assert_eq!(task.interval, 50);
        assert_eq!((task.doing, task.ring(1_000)), (Doing::Napping, WakeDecision::Nothing));
    }

    #[test]
    fn a_told_task_parks_and_is_rung_each_time() {
        let mut task = Task::new(Look::Told, POLL, 0, 0);
        assert_eq!((task.rest(10), task.ring(20), task.ring(20)), (Step::Park, WakeDecision::Now, WakeDecision::Now));
    }

    #[test]
    fn a_policy_of_the_service_decides_when_it_is_rung() {
        let mut task = Task::new(Look::Notify(Notify::Park), POLL, 0, 0);
        assert_eq!((task.rest(10), task.doing, task.ring(20)), (Step::Park, Doing::Parked, WakeDecision::Now));
        let mut task = Task::new(Look::Notify(Notify::Coalesce { count: 2, delay: 1_000 }), POLL, 0, 0);
        assert_eq!(
            (task.ring(0), task.due(1_000), task.ring(1_001)),
            (WakeDecision::At(1_000), WakeDecision::Now, WakeDecision::Now)
        );
    }

    #[test]
    fn engines_work_side_by_side() {
        let mut engines = [0; 2];
        assert_eq!([5, 5, 6].map(|now| begin(&mut engines, now, 10)), [15, 15, 25]);
    }
}
