//! Estimates from repeated comparisons.

use sidecore_report::statistics::median;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Share of pairs trimmed at each end of the sorted pairs; it removes none of fewer than seven.
const TRIMMED: f64 = 0.15;

/// A mean of logarithms with its interval; 0: no difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::net) struct Estimate {
    pub(in crate::net) mean: f64,
    pub(in crate::net) low: f64,
    pub(in crate::net) high: f64,
    pub(in crate::net) pairs: usize,
}

impl Estimate {
    /// An interval that misses the true mean with probability `error` at most, both sides together: Student's ("The
    /// probable error of a mean", 1908) over the differences within pairs, which cancel common disturbances. With many
    /// pairs the mean and the interval are trimmed, because other programs make a few runs much worse: Yuen's ("The
    /// two-sample trimmed t for unequal population variances", 1974, of one sample). For several claims divide `error`
    /// by their number (Bonferroni).
    pub(in crate::net) fn of(differences: &[f64], error: f64) -> Self {
        let pairs = differences.len();
        let mut sorted = differences.to_vec();
        sorted.sort_by(f64::total_cmp);
        let cut = (pairs as f64 * TRIMMED) as usize;
        let kept = &sorted[cut..pairs - cut];
        let mean = kept.iter().sum::<f64>() / kept.len().max(1) as f64;
        let wide = Self { mean, low: f64::NEG_INFINITY, high: f64::INFINITY, pairs };
        let (Some(least), Some(most)) = (kept.first(), kept.last()) else { return wide };
        if kept.len() < 2 {
            return wide;
        }
        let drawn_in: Vec<_> = sorted.iter().map(|difference| difference.clamp(*least, *most)).collect();
        let centre = drawn_in.iter().sum::<f64>() / pairs as f64;
        let squares: f64 = drawn_in.iter().map(|difference| (difference - centre).powi(2)).sum();
        let deviation = (squares / (pairs - 1) as f64).sqrt() * (pairs as f64).sqrt() / kept.len() as f64;
        let Ok(student) = StudentsT::new(0.0, 1.0, (kept.len() - 1) as f64) else { return wide };
        let half = student.inverse_cdf(1.0 - error / 2.0) * deviation;
        Self { low: mean - half, high: mean + half, ..wide }
    }

    pub(in crate::net) fn helps(&self) -> bool {
        self.low > 0.0
    }

    pub(in crate::net) fn harms(&self) -> bool {
        self.high < 0.0
    }
}

/// Standard deviation estimated from the median distance to the median: a single bad run has no effect.
pub(super) fn deviation(costs: &[f64]) -> f64 {
    if costs.is_empty() {
        return 0.0;
    }
    let middle = median(costs);
    median(&costs.iter().map(|cost| (cost - middle).abs()).collect::<Vec<_>>()) * 1.4826
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Values 1, 2, 3, 4, 5: mean 3, deviation 1.5811; t(0.975, 4) = 2.7764.
        let found = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05);
        assert!((found.mean - 3.0).abs() < 1e-12);
        assert!((found.high - 3.0 - 2.7764 * 1.58114 / 5.0_f64.sqrt()).abs() < 1e-3, "{found:?}");
        assert!(found.helps() && !found.harms());
    }

    #[test]
    fn one_run_that_was_disturbed_hides_nothing() {
        let mut gains = vec![0.3, 0.25, 0.35, 0.28, 0.32, 0.31, 0.29, 0.3];
        assert!((Estimate::of(&gains, 0.01).mean - 0.3).abs() < 0.01);
        gains[3] = -4.0;
        let found = Estimate::of(&gains, 0.01);
        assert!(found.helps() && (found.mean - 0.3).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_deviation_does_not_count_one_bad_run() {
        assert!((deviation(&[1.0, 1.1, 0.9, 1.2, 0.8, 9.0]) - 0.2).abs() < 0.05);
        assert!(deviation(&[]).abs() < 1e-9 && deviation(&[3.0]).abs() < 1e-9);
    }

    #[test]
    fn one_pair_says_nothing() {
        let found = Estimate::of(&[7.0], 0.05);
        assert!(!found.helps() && !found.harms() && found.mean > 6.0);
        assert_eq!(Estimate::of(&[], 0.05).pairs, 0);
    }
}
