//! A limit on the rate of reports: a token bucket for each origin, in a table of fixed size.
//!
//! An origin (a reason and a user, say) may be reported [`Pace::burst`] times in a row and once each [`Pace::every`]
//! from then on. Further occurrences are counted, and the count is reported. Origins that one party can make in large
//! numbers form one [group](Origin::group). Beyond [`Pace::of_group`] they share one bucket under the group's name,
//! so that a party hides its own refusals only. Where the table is full and nothing in it is idle, further origins
//! share one bucket without a name. The last [`Pace::reserved`] places are for [trusted](Origin::is_trusted) origins.
//! So for any origins at most `(origins + 1) * (burst + time / every)` reports are made. The buckets are kept as the
//! time when each would be full again: the virtual scheduling of the generic cell rate algorithm (ITU-T I.371).

use crate::time::Nanos;
use alloc::vec::Vec;

/// Limits of the rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Reports of one origin in a row; at least 1.
    pub burst: u32,
    /// Time for one more report of it, ns.
    pub every: Nanos,
    /// Buckets in the table.
    pub origins: usize,
    /// Buckets of one group's origins, without the group's shared bucket.
    pub of_group: usize,
    /// Buckets that only trusted origins may have.
    pub reserved: usize,
}

/// The origin of a report.
pub trait Origin: Copy + Eq {
    /// All origins that one party can make.
    type Group: Copy + Eq + core::fmt::Debug;

    /// Its group.
    fn group(self) -> Self::Group;

    /// No other party can make such an origin.
    fn is_trusted(self) -> bool;
}

/// The owner of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<K, G> {
    /// One origin's.
    One(K),
    /// Further origins of this group share it.
    Group(G),
    /// All origins without a place in the table share it.
    Others,
}

/// Number of reports that a bucket suppressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet<K, G> {
    /// The owner of its bucket.
    pub of: Owner<K, G>,
    /// Suppressed reports.
    pub count: u64,
}

/// Decides which occurrences are reported. `K` is an origin.
#[derive(Debug)]
pub struct RateLimit<K: Origin> {
    pace: Pace,
    own: Vec<Bucket<K>>,
    shared: Bucket<K>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket<K: Origin> {
    of: Owner<K, K::Group>,
    /// When it would be full again, ns.
    full_at: Nanos,
    quiet: u64,
}

impl<K: Origin> RateLimit<K> {
    /// An empty table. All memory is taken here.
    pub fn new(pace: Pace) -> Self {
        let shared = Bucket { of: Owner::Others, full_at: 0, quiet: 0 };
        Self { pace, own: Vec::with_capacity(pace.origins), shared }
    }

    /// Something of this origin happens. `Some`: report it, and the number of suppressed reports before it. `None`:
    /// it is counted.
    pub fn tell(&mut self, now: Nanos, of: K) -> Option<u64> {
        let pace = self.pace;
        let bucket = self.bucket(now, of);
        if bucket.take(now, pace) {
            return Some(core::mem::take(&mut bucket.quiet));
        }
        bucket.quiet += 1;
        None
    }

    /// A suppressed count that may be reported by now. Call it from time to time, until `None`.
    pub fn overdue(&mut self, now: Nanos) -> Option<Quiet<K, K::Group>> {
        let pace = self.pace;
        self.buckets().find_map(|bucket| (bucket.quiet > 0 && bucket.take(now, pace)).then(|| bucket.empty()))
    }

    /// Any suppressed count, also one that may not be reported yet. Call it at the end, until `None`.
    pub fn rest(&mut self) -> Option<Quiet<K, K::Group>> {
        self.buckets().find_map(|bucket| (bucket.quiet > 0).then(|| bucket.empty()))
    }

    /// Whether some count was not reported.
    pub fn is_behind(&self) -> bool {
        self.own.iter().chain(core::iter::once(&self.shared)).any(|bucket| bucket.quiet > 0)
    }

    fn buckets(&mut self) -> impl Iterator<Item = &mut Bucket<K>> {
        self.own.iter_mut().chain(core::iter::once(&mut self.shared))
    }

    fn bucket(&mut self, now: Nanos, of: K) -> &mut Bucket<K> {
        let mut owner = Owner::One(of);
        if !self.own.iter().any(|bucket| bucket.of == owner) {
            let is_of = |bucket: &Bucket<K>| matches!(bucket.of, Owner::One(one) if one.group() == of.group());
            if self.own.iter().filter(|bucket| is_of(bucket)).count() >= self.pace.of_group {
                // A group never gets more places, even if it takes them slowly.
                match self.own.iter().position(|bucket| is_of(bucket) && bucket.is_idle(now)) {
                    Some(idle) => self.own[idle].of = owner,
                    None => owner = Owner::Group(of.group()),
                }
            }
        }
        match self.place(now, owner, of.is_trusted()) {
            Some(place) => &mut self.own[place],
            None => &mut self.shared,
        }
    }

    fn place(&mut self, now: Nanos, owner: Owner<K, K::Group>, trusted: bool) -> Option<usize> {
        if let Some(known) = self.own.iter().position(|bucket| bucket.of == owner) {
            return Some(known);
        }
        let new = Bucket { of: owner, full_at: now, quiet: 0 };
        let reserved = if trusted { 0 } else { self.pace.reserved };
        if self.own.len() + reserved < self.pace.origins {
            self.own.push(new);
            return Some(self.own.len() - 1);
        }
        let idle = self.own.iter().position(|bucket| bucket.is_idle(now))?;
        self.own[idle] = new;
        Some(idle)
    }
}

impl<K: Origin> Bucket<K> {
    fn is_idle(&self, now: Nanos) -> bool {
        self.full_at <= now && self.quiet == 0
    }

    fn take(&mut self, now: Nanos, pace: Pace) -> bool {
        let burst = Nanos::from(pace.burst.max(1) - 1).saturating_mul(pace.every);
        let is_there = self.full_at <= now.saturating_add(burst);
        if is_there {
            self.full_at = self.full_at.max(now).saturating_add(pace.every);
        }
        is_there
    }

    fn empty(&mut self) -> Quiet<K, K::Group> {
        Quiet { of: self.of, count: core::mem::take(&mut self.quiet) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PACE: Pace = Pace { burst: 3, every: 1000, origins: 2, of_group: 2, reserved: 0 };

    /// Letters stand alone.
    impl Origin for char {
        type Group = Self;

        fn group(self) -> Self {
            self
        }

        fn is_trusted(self) -> bool {
            false
        }
    }

    /// Numbers from 100 on are of groups of a hundred.
    impl Origin for u32 {
        type Group = Self;

        fn group(self) -> Self {
            if self < 100 { self } else { self / 100 * 100 }
        }

        fn is_trusted(self) -> bool {
            self == 0
        }
    }

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
        assert_eq!(limit.overdue(1000), Some(Quiet { of: Owner::One('a'), count: 7 }));
        assert_eq!(limit.overdue(1000), None);
        assert_eq!(limit.tell(1001, 'a'), None, "telling the count took the token");
        assert_eq!(limit.rest(), Some(Quiet { of: Owner::One('a'), count: 1 }));
        assert_eq!(limit.rest(), None);
    }

    #[test]
    fn origins_beyond_the_table_share_a_bucket_until_one_in_it_is_idle() {
        let mut limit = RateLimit::new(PACE);
        assert_eq!((limit.tell(0, 1), limit.tell(0, 2)), (Some(0), Some(0)));
        let told = (3..100).filter(|origin| limit.tell(0, *origin).is_some()).count();
        assert_eq!(told, 3, "97 origins have one burst");
        assert_eq!(limit.tell(0, 1), Some(0), "and take none of the others'");
        assert_eq!(limit.rest(), Some(Quiet { of: Owner::Others, count: 94 }));
        assert_eq!(limit.tell(10_000, 7), Some(0), "the place of one that is idle");
        assert_eq!(limit.tell(10_000, 7), Some(0));
    }

    #[test]
    fn a_party_with_many_origins_hides_its_own_and_no_other() {
        let pace = Pace { origins: 64, of_group: 4, reserved: 2, ..PACE };
        let mut limit = RateLimit::new(pace);
        // First a few at a time, as slowly as it takes for their buckets to be full again.
        for round in 0..100 {
            assert!(
                (0..pace.of_group as u32)
                    .all(|one| limit.tell(u64::from(round) * 10_000, 100 + (round * 7 + one) % 100).is_some())
            );
        }
        let now = 1_000_000;
        for origin in (100..200).cycle().take(10_000) {
            limit.tell(now, origin);
        }
        assert_eq!(limit.own.len(), 5);
        assert!((1..50).all(|origin| limit.tell(now, origin) == Some(0)), "each other one is told by itself");
        let mut counted = 0;
        while let Some(quiet) = limit.rest() {
            let of_group = match quiet.of {
                Owner::One(origin) => origin.group() == 100,
                Owner::Group(group) => group == 100,
                Owner::Others => false,
            };
            assert!(of_group, "{quiet:?}");
            counted += quiet.count;
        }
        assert_eq!(counted, 10_000 - 5 * u64::from(pace.burst), "and each is told or counted, by name");
    }

    #[test]
    fn a_trusted_origin_has_its_place_in_a_table_that_others_filled() {
        let mut limit = RateLimit::new(Pace { origins: 8, reserved: 1, ..PACE });
        (1..90).for_each(|origin| assert!(limit.tell(0, origin).is_some() || origin > 0));
        for _ in 0..10 {
            limit.tell(0, 0);
        }
        assert!(limit.own.iter().any(|bucket| bucket.of == Owner::One(0) && bucket.quiet == 7));
    }

    proptest! {
        /// For any sequence of calls the reports are bounded by time, and each occurrence is reported or counted.
        #[test]
        fn never_more_than_its_rate_is_told_and_each_is_told_or_counted(
            steps in proptest::collection::vec((0_u64..700, 97_u32..104), 0..400),
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
