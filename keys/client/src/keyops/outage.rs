//! How long the service has been absent: one outage for all operations of a process.

use sidecore_ipc::sys::clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An outage without an attempt for this time is over, ns.
const UNSEEN: u64 = 60_000_000_000;

/// Start of the outage in this process, and time of the last attempt, ns; 0: no outage is known.
#[derive(Default)]
pub(crate) struct Outage {
    since: AtomicU64,
    looked: AtomicU64,
    /// End of the last wait for the start of a service, ns.
    started: AtomicU64,
    /// Time when a lane's service was last found to have ended, ns; 0: never.
    ended: AtomicU64,
}

impl Outage {
    pub(crate) fn left(&self, wait: Duration) -> Duration {
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

    /// The service of a lane has ended: the next one gives new lanes.
    pub(crate) fn service_ended(&self) {
        self.ended.store(clock::now().max(1), Ordering::Relaxed);
    }

    /// `begun`: ns.
    pub(crate) fn has_ended_since(&self, begun: u64) -> bool {
        self.ended.load(Ordering::Relaxed) >= begun
    }

    /// Whether the service of a lane ended within this time.
    pub(crate) fn ended_within(&self, time: Duration) -> bool {
        self.ended_within_at(clock::now(), time)
    }

    fn ended_within_at(&self, now: u64, time: Duration) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        ended != 0 && Duration::from_nanos(now.saturating_sub(ended)) < time
    }

    pub(crate) fn is_over(&self) {
        if self.since.load(Ordering::Relaxed) != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(60);

    #[test]
    fn an_outage_is_waited_out_once_for_all_operations() {
        let outage = Outage::default();
        let first = outage.left(WAIT);
        assert_eq!(first, WAIT);
        std::thread::sleep(Duration::from_millis(2));
        let second = outage.left(WAIT);
        assert!(second < first, "the second goes on where the first began");
        assert_eq!(outage.left(Duration::from_millis(1)), Duration::ZERO);
        outage.is_over();
        assert_eq!(outage.left(WAIT), WAIT, "the next outage is another");
    }

    #[test]
    fn the_end_of_a_service_is_remembered_for_a_while() {
        let outage = Outage::default();
        assert!(!outage.ended_within(WAIT), "none has ended");
        outage.service_ended();
        let ended = outage.ended.load(Ordering::Relaxed);
        let later = |seconds| ended + Duration::from_secs(seconds).as_nanos() as u64;
        assert!(outage.ended_within_at(later(59), WAIT) && !outage.ended_within_at(later(60), WAIT));
        assert!(!outage.ended_within_at(ended, Duration::ZERO), "who waits for no service gets no more time");
    }

    #[test]
    fn an_outage_that_was_not_looked_at_for_long_is_over() {
        let (outage, start) = (Outage::default(), UNSEEN + 1);
        assert_eq!(outage.left_at(start, WAIT), WAIT);
        assert_eq!(outage.left_at(start + UNSEEN, WAIT), Duration::ZERO, "it goes on where somebody looks");
        assert_eq!(outage.left_at(start + 2 * UNSEEN + 1, WAIT), WAIT);
    }
}
