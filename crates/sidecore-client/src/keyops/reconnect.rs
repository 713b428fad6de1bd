//! Operations while no service answers: they wait for its restart for a limited time, and then fail immediately.
//!
//! The wait begins when the process first finds no service, and all of its operations share it. So an outage delays a
//! server program once and for a bounded time, not in each operation. An outage ends if no operation has looked for a
//! while: a service may have come and gone in between. The wait is longer while a service manager holds the socket of
//! a service that is starting.

use super::failure::{Failure, Reason};
use super::lanes;
use super::wait::Caller;
use crate::sys::clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Interval between two attempts to reach the service.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(20);

/// Factor of the wait for a service that is starting.
const STARTING: u32 = 5;
/// An outage without an attempt for this time is over, ns.
const UNSEEN: u64 = 60_000_000_000;

/// Start of the outage in this process, and time of the last attempt, ns; 0: no outage is known.
#[derive(Default)]
pub(crate) struct Reconnect {
    since: AtomicU64,
    looked: AtomicU64,
    /// End of the last wait for the start of a service, ns.
    started: AtomicU64,
}

impl Reconnect {
    fn left(&self, wait: Duration) -> Duration {
        self.left_at(clock::now().max(1), wait)
    }

    fn left_at(&self, now: u64, wait: Duration) -> Duration {
        let looked = self.looked.swap(now, Ordering::Relaxed);
        if now.saturating_sub(looked) > UNSEEN {
            self.since.store(now, Ordering::Relaxed);
        }
        let since = match self.since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => now,
            Err(since) => since,
        };
        wait.saturating_sub(Duration::from_nanos(now.saturating_sub(since)))
    }

    pub(crate) fn waited_for_a_start(&self) {
        self.started.store(clock::now(), Ordering::Relaxed);
    }

    /// `begun`: ns.
    pub(crate) fn has_waited_since(&self, begun: u64) -> bool {
        self.started.load(Ordering::Relaxed) >= begun
    }

    fn is_over(&self) {
        if self.since.load(Ordering::Relaxed) != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
    }
}

/// Repeats the attempt while no service answers, up to [`restart_wait`](crate::client::Options::restart_wait).
///
/// # Errors
/// The errors of the attempt.
pub(crate) fn outlasted<T>(caller: Caller<'_>, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    loop {
        let result = attempt();
        // The process may be another one now: a job can be resumed in a forked child.
        let pool = lanes::pool()?;
        let starting = match &result {
            Err(failure) if failure.reason == Reason::Absent => failure.starting,
            _ => {
                pool.reconnect.is_over();
                return result;
            }
        };
        let wait = caller.options.restart_wait;
        let left = pool.reconnect.left(if starting { wait.saturating_mul(STARTING) } else { wait });
        if left.is_zero() {
            return result;
        }
        // Sleeps, and does not wait for a lane: each failed attempt counts as a lane given back, and would wake all
        // waiting threads.
        if caller.wait.for_a_while(pool, left.min(ATTEMPT_INTERVAL)).is_err() {
            return result;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Options;
    use std::time::Instant;

    const WAIT: Duration = Duration::from_secs(60);

    #[test]
    fn many_who_wait_do_not_wake_each_other() {
        let scratch = tempfile::tempdir().unwrap();
        let restart_wait = Duration::from_millis(200);
        let options = Options { socket: scratch.path().join("none"), restart_wait, ..Options::default() };
        let looks = AtomicU64::new(0);
        let look = || {
            looks.fetch_add(1, Ordering::Relaxed);
            let deadline = Instant::now() + WAIT;
            lanes::pool()?.take(&options, None, 1, None, deadline).map(|_| ())
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| outlasted(Caller::thread(&options), look).unwrap_err());
            }
        });
        // The first immediately, then one each 20 ms.
        let looks = looks.load(Ordering::Relaxed);
        assert!((8..=8 * 12).contains(&looks), "{looks} looks");
    }

    #[test]
    fn an_outage_is_waited_out_once_for_all_operations() {
        let reconnect = Reconnect::default();
        let first = reconnect.left(WAIT);
        assert_eq!(first, WAIT);
        std::thread::sleep(Duration::from_millis(2));
        let second = reconnect.left(WAIT);
        assert!(second < first, "the second goes on where the first began");
        assert_eq!(reconnect.left(Duration::from_millis(1)), Duration::ZERO);
        reconnect.is_over();
        assert_eq!(reconnect.left(WAIT), WAIT, "the next outage is another");
    }

    #[test]
    fn an_outage_that_was_not_looked_at_for_long_is_over() {
        let (reconnect, start) = (Reconnect::default(), UNSEEN + 1);
        assert_eq!(reconnect.left_at(start, WAIT), WAIT);
        assert_eq!(reconnect.left_at(start + UNSEEN, WAIT), Duration::ZERO, "it goes on where somebody looks");
        assert_eq!(reconnect.left_at(start + 2 * UNSEEN + 1, WAIT), WAIT);
    }
}
