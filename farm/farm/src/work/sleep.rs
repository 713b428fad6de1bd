//! Work that only sleeps: the number at the beginning of an event, in units. It uses no core, so comparisons do not
//! depend on the number of cores.

use super::too_long;
use crate::node::task::{Outcome, Task, Work};
use crate::sys;
use bytes::Bytes;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::time::Duration;

const MAX_NUMBER_BYTES: usize = 32;

pub(super) struct Sleep {
    unit: Duration,
    limit: Duration,
}

impl Sleep {
    pub(super) fn new(unit: Duration, limit: Duration) -> Self {
        Self { unit, limit }
    }
}

impl Work for Sleep {
    async fn run(&self, task: &Task) -> Outcome {
        let Some(wanted) = units(&task.body).map(|units| times(self.unit, units)) else {
            return Outcome::Failed("the event does not begin with a number of units to sleep".to_owned());
        };
        let limit = self.limit.min(task.limit);
        match sleep(wanted.min(limit)).await {
            Ok(()) if wanted > limit => Outcome::Failed(too_long(limit)),
            Ok(()) => Outcome::Done(Bytes::copy_from_slice(task.id.as_bytes()).into()),
            Err(error) => Outcome::Refused(format!("cannot sleep: {error}")),
        }
    }
}

fn units(body: &[u8]) -> Option<f64> {
    let body = &body[..body.len().min(MAX_NUMBER_BYTES)];
    let end = body.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(body.len());
    str::from_utf8(&body[..end]).ok()?.parse().ok()
}

/// A product that overflows is longer than all limits.
fn times(unit: Duration, units: f64) -> Duration {
    Duration::try_from_secs_f64(unit.as_secs_f64() * units).unwrap_or(Duration::MAX)
}

/// Sleeps as a node of `work --sleep` does. It uses a timer of the kernel: the runtime's timers have steps of a
/// millisecond.
///
/// # Errors
/// The kernel gives no timer, or the duration is longer than it takes.
///
/// # Panics
/// Outside of a runtime of tokio with I/O.
pub async fn sleep(duration: Duration) -> io::Result<()> {
    if duration.is_zero() {
        return Ok(());
    }
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = sys::watch(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
    let once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let at = Timespec::try_from(duration).map_err(|_| io::ErrorKind::InvalidInput)?;
    let setting = Itimerspec { it_interval: once, it_value: at };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
    timer.readable().await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn task(body: &'static str, limit: Duration) -> Task {
        Task { id: "feeder-7".to_owned(), kind: "k".to_owned(), body: body.into(), limit }
    }

    #[test]
    fn the_number_ends_where_something_else_begins() {
        for (body, number) in [("7", 7.0), ("2.5 and more", 2.5), ("0", 0.0), ("10\n", 10.0), (".5x", 0.5)] {
            assert_eq!(units(body.as_bytes()), Some(number), "{body}");
        }
        for body in ["", "x1", "-1", "1.2.3", " 1", "inf", "NaN"] {
            assert_eq!(units(body.as_bytes()), None, "{body}");
        }
        let long = "9".repeat(4_000);
        assert!(units(long.as_bytes()).is_some_and(f64::is_finite));
        assert_eq!(times(Duration::from_secs(1), 1e300), Duration::MAX);
    }

    #[tokio::test]
    async fn the_result_is_the_id_after_so_many_units() {
        let sleep = Sleep::new(Duration::from_micros(300), Duration::from_secs(60));
        let start = Instant::now();
        assert_eq!(sleep.run(&task("2.5", Duration::MAX)).await, Outcome::Done("feeder-7".into()));
        assert!(start.elapsed() >= Duration::from_micros(750));
        assert_eq!(sleep.run(&task("0", Duration::MAX)).await, Outcome::Done("feeder-7".into()));
        assert!(matches!(sleep.run(&task("much", Duration::MAX)).await, Outcome::Failed(_)));
    }

    #[tokio::test]
    async fn nothing_sleeps_longer_than_the_limit() {
        let limit = Duration::from_millis(2);
        let failed = Outcome::Failed("took longer than 2ms".to_owned());
        let sleep = Sleep::new(Duration::from_secs(3_600), Duration::from_secs(60));
        assert_eq!(sleep.run(&task("1", limit)).await, failed);
        let sleep = Sleep::new(Duration::from_secs(3_600), limit);
        assert_eq!(sleep.run(&task("9999999999", Duration::from_secs(60))).await, failed);
    }
}
