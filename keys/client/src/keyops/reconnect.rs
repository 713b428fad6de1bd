//! Operations while no service answers: they wait for its restart for a limited time, and then fail immediately.
//!
//! The wait begins when the process first finds no service, and all of its operations share it. So an outage delays a
//! server program once and for a bounded time, not in each operation. An outage ends if no operation has looked for a
//! while: a service may have come and gone in between. The wait is longer while a service manager holds the socket of
//! a service that is starting.

use super::failure::{Failure, Reason};
use super::lanes;
use super::wait::Caller;
use crate::client::Options;
use std::time::Duration;

const ATTEMPT_INTERVAL: Duration = Duration::from_millis(20);

/// Factor of the wait for a service that is starting, and of an operation's time after the end of one.
const STARTING: u32 = 5;

/// Time of an operation. After the end of a service each lane and session is made anew, by all programs at once and
/// perhaps on a machine with too much to do. So for as long as the start of a service is waited for, operations have
/// more time.
pub(crate) fn time_of_operation(options: &Options) -> Duration {
    let moves = lanes::pool().is_ok_and(|pool| pool.outage.ended_within(options.restart_wait.saturating_mul(STARTING)));
    if moves { options.timeout.saturating_mul(STARTING) } else { options.timeout }
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
                pool.outage.is_over();
                return result;
            }
        };
        let wait = caller.options.restart_wait;
        let left = pool.outage.left(if starting { wait.saturating_mul(STARTING) } else { wait });
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
    use std::sync::atomic::{AtomicU64, Ordering};
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
}
