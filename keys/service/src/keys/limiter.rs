//! The limit of a key's private operations a second, over all lanes and sidecores.

use sidecore_core::time::Nanos;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const SECOND: Nanos = 1_000_000_000;

/// A bucket that holds the tokens of one second and fills evenly.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    /// 0: no limit.
    rate: AtomicU32,
    /// The time at which the bucket is full again, ns.
    full: AtomicU64,
    /// The time from which on a refusal is reported again, ns.
    tell: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Permitted,
    /// `told`: no other refusal of the last second is reported.
    Refused {
        told: bool,
    },
}

impl Limiter {
    pub(crate) fn new(rate: Option<u32>) -> Self {
        let limiter = Self::default();
        limiter.set(rate);
        limiter
    }

    /// The bucket is full at first.
    pub(super) fn set(&self, rate: Option<u32>) {
        self.full.store(0, Ordering::Relaxed);
        self.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.rate.load(Ordering::Relaxed) != 0
    }

    /// Whether a request may be done at this time, as [`admit`](Self::admit).
    pub(crate) fn admits(&self, now: Nanos) -> bool {
        self.admit(now) == Admission::Permitted
    }

    /// Takes a token at this time. Times of different threads may be out of order by little.
    pub(crate) fn admit(&self, now: Nanos) -> Admission {
        let Some(interval) = SECOND.checked_div(self.rate.load(Ordering::Relaxed).into()) else {
            return Admission::Permitted;
        };
        let taken = self.full.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full| {
            let next = full.max(now) + interval;
            (next - now <= SECOND).then_some(next)
        });
        if taken.is_ok() {
            return Admission::Permitted;
        }
        let due = |tell: Nanos| (tell <= now).then_some(now + SECOND);
        let told = self.tell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok();
        Admission::Refused { told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(limiter: &Limiter, times: impl Iterator<Item = Nanos>) -> usize {
        times.filter(|now| limiter.admit(*now) == Admission::Permitted).count()
    }

    #[test]
    fn a_second_permits_its_number_and_what_was_not_used_is_not_saved() {
        for rate in [1, 3, 100, 1_000_000] {
            let limiter = Limiter::new(Some(rate));
            let most = rate as usize;
            let start = 50 * SECOND;
            assert_eq!(permitted(&limiter, (0..2 * u64::from(rate)).map(|_| start)), most, "{rate}");
            // A day later it holds no more than one second's.
            let later = start + 86_400 * SECOND;
            assert_eq!(permitted(&limiter, (0..2 * u64::from(rate)).map(|_| later)), most, "{rate}");
        }
    }

    #[test]
    fn after_the_first_burst_requests_are_permitted_evenly() {
        let limiter = Limiter::new(Some(100));
        assert_eq!(permitted(&limiter, (0..200).map(|_| SECOND)), 100);
        // 10 seconds with a request each millisecond.
        let times = (0..10_000).map(|ms| SECOND + ms * 1_000_000);
        assert!((990..=1000).contains(&permitted(&limiter, times)));
    }

    #[test]
    fn a_refusal_is_told_once_a_second() {
        let limiter = Limiter::new(Some(1));
        let at = |now| limiter.admit(now);
        assert_eq!(at(SECOND), Admission::Permitted);
        assert_eq!(at(SECOND + 1), Admission::Refused { told: true });
        assert_eq!(at(SECOND + 2), Admission::Refused { told: false });
        assert_eq!(at(2 * SECOND), Admission::Permitted);
        assert_eq!(at(2 * SECOND + 1), Admission::Refused { told: true });
    }

    #[test]
    fn another_limit_is_in_force_at_once_and_none_permits_all() {
        let limiter = Limiter::new(Some(1));
        assert_eq!(permitted(&limiter, (0..5).map(|_| SECOND)), 1);
        limiter.set(None);
        assert!(!limiter.is_on());
        assert_eq!(permitted(&limiter, (0..5).map(|_| SECOND)), 5);
        limiter.set(Some(2));
        assert_eq!(permitted(&limiter, (0..5).map(|_| SECOND)), 2);
    }

    #[test]
    fn threads_together_get_no_more_than_one() {
        let limiter = Limiter::new(Some(1000));
        let all: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| permitted(&limiter, (0..1000).map(|_| SECOND)))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(all, 1000);
    }
}
