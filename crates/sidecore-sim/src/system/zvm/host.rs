//! The host's two tasks and the adapters.

use super::parameters::{Look, Poll};
use crate::engine::Timer;
use sidecore_core::policy::notify::{Moderator, Ring, Step, Waiter};
use sidecore_core::time::Nanos;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Sleeps until it is woken.
    Parked,
    /// Sleeps until its timer.
    Napping,
    /// Gets to its work after waking, or looks and may find nothing.
    Looking,
    /// Moves a request or a reply.
    Moving,
    /// Tells this guest of its replies.
    Injecting(u32),
}

/// How a task waits.
enum Wait {
    Adaptive { interval: Nanos, found: bool },
    Told,
    Notify { waiter: Box<Waiter>, moderator: Moderator },
}

/// One of the host's tasks.
pub(super) struct Task {
    pub(super) doing: Doing,
    /// When it looks next, while it naps.
    pub(super) timer: Option<Timer>,
    poll: Poll,
    wait: Wait,
}

impl Task {
    /// A task that sleeps until its first look. `interval`: the first one of its timer; `cost`: CPU time of its wake-up, ns.
    pub(super) fn new(look: Look, poll: Poll, interval: Nanos, cost: Nanos) -> Self {
        let wait = match look {
            Look::Adaptive => Wait::Adaptive { interval: interval.clamp(poll.least, poll.most), found: false },
            Look::Told => Wait::Told,
            Look::Notify(policy) => {
                Wait::Notify { waiter: Box::new(Waiter::new(policy, cost, true)), moderator: Moderator::new(policy) }
            }
        };
        Self { doing: Doing::Napping, timer: None, poll, wait }
    }

    /// Interval of its timer, ns; 0 if it has none.
    pub(super) fn interval(&self) -> Nanos {
        match self.wait {
            Wait::Adaptive { interval, .. } => interval,
            Wait::Told | Wait::Notify { .. } => 0,
        }
    }

    /// Whether it is told of each piece of work.
    pub(super) fn is_told(&self) -> bool {
        matches!(self.wait, Wait::Told)
    }

    /// It found something.
    pub(super) fn found(&mut self, now: Nanos) {
        match &mut self.wait {
            Wait::Adaptive { found, .. } => *found = true,
            Wait::Told => {}
            Wait::Notify { waiter, moderator } => {
                waiter.end(now);
                moderator.rung();
            }
        }
    }

    /// Nothing is left to do: how it waits.
    pub(super) fn rest(&mut self, now: Nanos) -> Step {
        let rest = match &mut self.wait {
            Wait::Adaptive { interval, found } => {
                let factor = if std::mem::take(found) { 1.0 / self.poll.growth } else { self.poll.growth };
                *interval = ((*interval as f64 * factor) as Nanos).clamp(self.poll.least, self.poll.most);
                Step::Nap { until: now + *interval }
            }
            Wait::Told => Step::Park,
            Wait::Notify { waiter, .. } => waiter.step(now),
        };
        self.doing = match rest {
            Step::Spin => Doing::Looking,
            Step::Nap { .. } => Doing::Napping,
            Step::Park => Doing::Parked,
        };
        rest
    }

    /// Work came for it: is it woken, if it sleeps?
    pub(super) fn ring(&mut self, now: Nanos) -> Ring {
        match &mut self.wait {
            Wait::Adaptive { .. } => Ring::Nothing,
            Wait::Told => Ring::Now,
            Wait::Notify { moderator, .. } => moderator.completed(now, 1, false),
        }
    }

    /// The time of an earlier [`Ring::At`] has come.
    pub(super) fn due(&mut self, now: Nanos) -> Ring {
        match &mut self.wait {
            Wait::Adaptive { .. } | Wait::Told => Ring::Nothing,
            Wait::Notify { moderator, .. } => moderator.due(now),
        }
    }
}

/// A request begins on the engine of an adapter that is free first; of each is known when it is free. When it is done.
pub(super) fn begin(engines: &mut [Nanos], now: Nanos, time: Nanos) -> Nanos {
    let engine = engines.iter_mut().min().expect("an adapter has an engine");
    *engine = now.max(*engine) + time;
    *engine
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_core::policy::notify::Notify;

    const POLL: Poll = Poll { least: 50, most: 300, growth: 2.0 };

    #[test]
    fn intervals_grow_while_nothing_is_found_and_shrink_otherwise() {
        let mut task = Task::new(Look::Adaptive, POLL, 0, 0);
        let mut rest = || task.rest(1_000);
        let seen = [rest(), rest(), rest(), rest()];
        assert_eq!(seen, [1_100, 1_200, 1_300, 1_300].map(|until| Step::Nap { until }));
        task.found(1_000);
        assert_eq!((task.rest(1_000), task.interval()), (Step::Nap { until: 1_150 }, 150));
        for _ in 0..3 {
            task.found(1_000);
            task.rest(1_000);
        }
        assert_eq!(task.interval(), 50);
        assert_eq!((task.doing, task.ring(1_000)), (Doing::Napping, Ring::Nothing));
    }

    #[test]
    fn a_told_task_parks_and_is_rung_each_time() {
        let mut task = Task::new(Look::Told, POLL, 0, 0);
        assert_eq!((task.rest(10), task.ring(20), task.ring(20)), (Step::Park, Ring::Now, Ring::Now));
    }

    #[test]
    fn a_policy_of_the_service_decides_when_it_is_rung() {
        let mut task = Task::new(Look::Notify(Notify::Park), POLL, 0, 0);
        assert_eq!((task.rest(10), task.doing, task.ring(20)), (Step::Park, Doing::Parked, Ring::Now));
        let mut task = Task::new(Look::Notify(Notify::Coalesce { count: 2, delay: 1_000 }), POLL, 0, 0);
        assert_eq!((task.ring(0), task.due(1_000), task.ring(1_001)), (Ring::At(1_000), Ring::Now, Ring::Now));
    }

    #[test]
    fn engines_work_side_by_side() {
        let mut engines = [0; 2];
        assert_eq!([5, 5, 6].map(|now| begin(&mut engines, now, 10)), [15, 15, 25]);
    }
}
