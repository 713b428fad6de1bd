//! Histogram of durations as a calculation of indices, so that the counts can lie anywhere: in an array or in shared
//! atomics.
//!
//! Each octave from 1 ns to 2^36 ns, which is 69 seconds, has four buckets of equal ratio: but for rounding to whole
//! numbers a bucket is 19 % wide (2^¼ − 1). Below 4 ns there are fewer numbers than buckets, and some stay empty. The
//! first bucket also counts 0, and the last one all longer durations.

use crate::time::Nanos;

/// Number of buckets.
pub const BUCKETS: usize = PER_OCTAVE * OCTAVES as usize;

const OCTAVES: u32 = 36;
const PER_OCTAVE: usize = 4;
/// 2^0, 2^¼, 2^½ and 2^¾ with `FRACTION` binary places.
const STEPS: [u64; PER_OCTAVE] = [16_777_216, 19_951_585, 23_726_566, 28_215_802];
const FRACTION: u32 = 24;

/// The bucket of a value in ns.
#[inline]
pub fn bucket(value: Nanos) -> usize {
    let value = value.clamp(1, (1 << OCTAVES) - 1);
    let octave = value.ilog2();
    // Exact: places cut off below a step's last one never change how it compares.
    let mantissa = (value << FRACTION) >> octave;
    let above = |step: usize| usize::from(mantissa >= STEPS[step]);
    octave as usize * PER_OCTAVE + above(1) + above(2) + above(3)
}

/// Least value of a bucket, ns.
pub fn lower_bound(bucket: usize) -> Nanos {
    match bucket {
        0 => 0,
        1..BUCKETS => (STEPS[bucket % PER_OCTAVE] << (bucket / PER_OCTAVE)).div_ceil(1 << FRACTION),
        _ => 1 << OCTAVES,
    }
}

/// Least value above a bucket, ns.
pub fn upper_bound(bucket: usize) -> Nanos {
    lower_bound(bucket.saturating_add(1))
}

/// Summary of a histogram, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// Arithmetic mean, exact.
    pub mean: f64,
    /// Median, interpolated within its bucket.
    pub p50: f64,
    /// 99th percentile, interpolated within its bucket.
    pub p99: f64,
}

impl Summary {
    /// Summarises the counts of the buckets in order and the sum of all values (ns). Without values all is 0.
    pub fn new(counts: impl IntoIterator<Item = u64>, sum: u64) -> Self {
        // A copy, because other threads may raise the counts between total and quantile.
        let mut kept = [0; BUCKETS];
        kept.iter_mut().zip(counts).for_each(|(slot, count)| *slot = count);
        let count = kept.iter().fold(0, |total: u64, count| total.saturating_add(*count));
        if count == 0 {
            return Self::default();
        }
        let quantile = |part: f64| quantile(&kept, count as f64 * part);
        Self { count, mean: sum as f64 / count as f64, p50: quantile(0.5), p99: quantile(0.99) }
    }
}

fn quantile(counts: &[u64; BUCKETS], rank: f64) -> f64 {
    let mut before = 0.0;
    for (bucket, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (lower, upper) = (lower_bound(bucket) as f64, upper_bound(bucket) as f64);
        let inside = (rank - before) / count as f64;
        if inside <= 1.0 {
            return lower + (upper - lower) * inside;
        }
        before += count as f64;
    }
    lower_bound(BUCKETS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_narrow() {
        assert_eq!((lower_bound(0), upper_bound(BUCKETS - 1)), (0, 1 << OCTAVES));
        for bucket in 0..BUCKETS {
            assert!(lower_bound(bucket) <= upper_bound(bucket));
            let (lower, upper) = (lower_bound(bucket) as f64, upper_bound(bucket) as f64);
            assert!(bucket < 40 || (upper - lower) / lower < 0.191, "{bucket}");
        }
    }

    #[test]
    fn ends_of_buckets_belong_where_they_say() {
        for bucket in (0..BUCKETS).filter(|&bucket| lower_bound(bucket) < upper_bound(bucket)) {
            assert_eq!(super::bucket(lower_bound(bucket)), bucket);
            assert_eq!(super::bucket(upper_bound(bucket) - 1), bucket);
        }
        assert_eq!((bucket(0), bucket(1), bucket(1 << 36), bucket(u64::MAX)), (0, 0, BUCKETS - 1, BUCKETS - 1));
        assert_eq!((upper_bound(usize::MAX), lower_bound(BUCKETS)), (1 << 36, 1 << 36));
    }

    #[test]
    fn an_even_spread_is_summarised() {
        let mut counts = [0; BUCKETS];
        (0..8_192).for_each(|value| counts[bucket(value)] += 1);
        let summary = Summary::new(counts, (0..8_192).sum());
        assert_eq!(summary.count, 8_192);
        assert!((summary.mean - 4_095.5).abs() < 1e-6);
        assert!((summary.p50 - 4_096.0).abs() < 5.0, "{summary:?}");
        assert!((summary.p99 - 8_110.0).abs() < 5.0, "{summary:?}");
    }

    #[test]
    fn no_counts_and_hostile_counts() {
        assert_eq!(Summary::new([], 7), Summary::default());
        let summary = Summary::new([u64::MAX; BUCKETS + 5], u64::MAX);
        assert_eq!(summary.count, u64::MAX);
        assert!(summary.p50 <= summary.p99 && summary.p99 <= lower_bound(BUCKETS) as f64);
    }
}
