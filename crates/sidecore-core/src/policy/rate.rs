//! How often something is told: a token bucket for each origin, in a table of fixed size.
//!
//! An origin (a reason and a user, say) may be told [`Pace::burst`] times at once and once each [`Pace::every`] from then on; what
//! is told less often than it happens is counted, and the count is told. Where the table is full and nobody in it is idle,
//! further origins share one bucket. So however many origins there are, and whatever they do, no more than
//! `(origins + 1) * (burst + time / every)` are told. The buckets are kept as the time at which each would be full again: the
//! virtual scheduling of the generic cell rate algorithm (ITU-T I.371).

use crate::time::Nanos;
use alloc::vec::Vec;

/// How much is told.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Of one origin at once; at least 1.
    pub burst: u32,
    /// One more of it each, ns.
    pub every: Nanos,
    /// Origins that have buckets of their own.
    pub origins: usize,
}

/// Something was told, or is to be told, with what was kept quiet before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet<K> {
    /// Whose it was; `None`: of origins that share a bucket.
    pub of: Option<K>,
    /// How many were not told.
    pub count: u64,
}

/// Decides what is told. `K` is an origin.
#[derive(Debug)]
pub struct RateLimit<K> {
    pace: Pace,
    own: Vec<Bucket<K>>,
    shared: Bucket<K>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket<K> {
    of: Option<K>,
    /// When it would be full again, ns.
    full_at: Nanos,
    /// Not told since the last that was.
    quiet: u64,
}

impl<K: Copy + Eq> RateLimit<K> {
    /// Nothing was told yet. All memory is taken here.
    pub fn new(pace: Pace) -> Self {
        let shared = Bucket { of: None, full_at: 0, quiet: 0 };
        Self { pace, own: Vec::with_capacity(pace.origins), shared }
    }

    /// Something of this origin happens. `Some`: it is to be told, and with it that so many before it were not. `None`: it is
    /// counted.
    pub fn tell(&mut self, now: Nanos, of: K) -> Option<u64> {
        let pace = self.pace;
        let bucket = self.bucket(now, of);
        if bucket.take(now, pace) {
            return Some(core::mem::take(&mut bucket.quiet));
        }
        bucket.quiet += 1;
        None
    }

    /// What was counted and may be told by now: called from time to time, until it has nothing more to say.
    pub fn overdue(&mut self, now: Nanos) -> Option<Quiet<K>> {
        let pace = self.pace;
        self.buckets().find_map(|bucket| (bucket.quiet > 0 && bucket.take(now, pace)).then(|| bucket.empty()))
    }

    /// What was counted, whether or not it may be told by now: for the end, until it has nothing more to say.
    pub fn rest(&mut self) -> Option<Quiet<K>> {
        self.buckets().find_map(|bucket| (bucket.quiet > 0).then(|| bucket.empty()))
    }

    /// Whether something was counted and not told.
    pub fn is_behind(&self) -> bool {
        self.own.iter().chain(core::iter::once(&self.shared)).any(|bucket| bucket.quiet > 0)
    }

    fn buckets(&mut self) -> impl Iterator<Item = &mut Bucket<K>> {
        self.own.iter_mut().chain(core::iter::once(&mut self.shared))
    }

    fn bucket(&mut self, now: Nanos, of: K) -> &mut Bucket<K> {
        let known = self.own.iter().position(|bucket| bucket.of == Some(of));
        // One that is full and has nothing to say is as good as new.
        let place = known.or_else(|| {
            let room = self.own.len() < self.pace.origins;
            let new = Bucket { of: Some(of), full_at: now, quiet: 0 };
            if room {
                self.own.push(new);
                return Some(self.own.len() - 1);
            }
            let idle = self.own.iter().position(|bucket| bucket.full_at <= now && bucket.quiet == 0)?;
            self.own[idle] = new;
            Some(idle)
        });
        match place {
            Some(place) => &mut self.own[place],
            None => &mut self.shared,
        }
    }
}

impl<K: Copy> Bucket<K> {
    /// Takes a token, if there is one.
    fn take(&mut self, now: Nanos, pace: Pace) -> bool {
        let burst = Nanos::from(pace.burst.max(1) - 1).saturating_mul(pace.every);
        let is_there = self.full_at <= now.saturating_add(burst);
        if is_there {
            self.full_at = self.full_at.max(now).saturating_add(pace.every);
        }
        is_there
    }

    fn empty(&mut self) -> Quiet<K> {
        Quiet { of: self.of, count: core::mem::take(&mut self.quiet) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACE: Pace = Pace { burst: 3, every: 1000, origins: 2 };

    #[test]
    fn a_burst_is_told_and_then_one_each_period_with_the_count_of_the_others() {
        let mut limit = RateLimit::new(PACE);
        let told: Vec<Option<u64>> = (0..5).map(|now| limit.tell(now, 'a')).collect();
        assert_eq!(told, [Some(0), Some(0), Some(0), None, None]);
        assert_eq!(limit.tell(999, 'a'), None);
        assert_eq!(limit.tell(1000, 'a'), Some(3));
        assert_eq!(limit.tell(1001, 'a'), None);
        assert_eq!(limit.tell(10_000, 'a'), Some(1), "a pause fills the bucket");
    }

    #[test]
    fn what_was_counted_is_told_once_nothing_more_happens() {
        let mut limit = RateLimit::new(PACE);
        for _ in 0..10 {
            limit.tell(0, 'a');
        }
        assert_eq!(limit.overdue(999), None);
        assert_eq!(limit.overdue(1000), Some(Quiet { of: Some('a'), count: 7 }));
        assert_eq!(limit.overdue(1000), None);
        assert_eq!(limit.tell(1001, 'a'), None, "telling the count took the token");
        assert_eq!(limit.rest(), Some(Quiet { of: Some('a'), count: 1 }));
        assert_eq!(limit.rest(), None);
    }

    #[test]
    fn origins_beyond_the_table_share_a_bucket_until_one_in_it_is_idle() {
        let mut limit = RateLimit::new(PACE);
        assert_eq!((limit.tell(0, 1), limit.tell(0, 2)), (Some(0), Some(0)));
        let told = (3..100).filter(|origin| limit.tell(0, *origin).is_some()).count();
        assert_eq!(told, 3, "97 origins have one burst");
        assert_eq!(limit.tell(0, 1), Some(0), "and take none of the others'");
        assert_eq!(limit.rest(), Some(Quiet { of: None, count: 94 }));
        assert_eq!(limit.tell(10_000, 7), Some(0), "the place of one that is idle");
        assert_eq!(limit.tell(10_000, 7), Some(0));
    }

    proptest! {
        /// Whoever asks how often: what is told is bounded by time, and nothing is lost.
        #[test]
        fn never_more_than_its_rate_is_told_and_each_is_told_or_counted(
            steps in proptest::collection::vec((0_u64..700, 0_u8..6), 0..400),
        ) {
            let mut limit = RateLimit::new(PACE);
            let (mut now, mut told, mut counted) = (0, 0_u64, 0);
            for (wait, origin) in &steps {
                now += wait;
                if let Some(quiet) = limit.tell(now, *origin) {
                    told += 1;
                    counted += quiet;
                }
                if let Some(quiet) = limit.overdue(now) {
                    counted += quiet.count;
                }
            }
            while let Some(quiet) = limit.rest() {
                counted += quiet.count;
            }
            prop_assert_eq!(told + counted, steps.len() as u64);
            let buckets = PACE.origins as u64 + 1;
            prop_assert!(told <= buckets * u64::from(PACE.burst) + buckets * (now / PACE.every));
        }
    }
}
