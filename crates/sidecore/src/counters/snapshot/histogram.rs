//! A histogram as it was read.

use crate::counters::layout::HISTOGRAM;
use sidecore_core::histogram::{BUCKETS, Summary};
use sidecore_core::time::Nanos;

/// Counts of durations in the buckets of [`sidecore_core::histogram`], and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram(Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; HISTOGRAM])
    }
}

impl Histogram {
    /// The words of the file.
    pub(super) fn from_words(words: &[u64]) -> Self {
        debug_assert_eq!(words.len(), HISTOGRAM);
        Self(words.to_vec())
    }

    /// Count of each bucket, in order.
    pub fn counts(&self) -> &[u64] {
        &self.0[..BUCKETS]
    }

    /// Sum of all durations, ns.
    pub fn sum(&self) -> Nanos {
        self.0[BUCKETS]
    }

    /// Count, mean and quantiles.
    pub fn summary(&self) -> Summary {
        Summary::new(self.counts().iter().copied(), self.sum())
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = own.saturating_add(*other));
    }

    /// What was added since an earlier one.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self(self.0.iter().zip(&earlier.0).map(|(now, then)| now.saturating_sub(*then)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_is_earlier_and_what_came_since() {
        let mut words = vec![0; HISTOGRAM];
        (words[7], words[BUCKETS]) = (3, 12);
        let earlier = Histogram::from_words(&words);
        (words[9], words[BUCKETS]) = (2, 22);
        let later = Histogram::from_words(&words);
        let mut since = later.since(&earlier);
        assert_eq!((since.summary().count, since.sum()), (2, 10));
        since.merge(&earlier);
        assert_eq!(since, later);
        assert_eq!(earlier.since(&later).summary().count, 0);
    }
}
