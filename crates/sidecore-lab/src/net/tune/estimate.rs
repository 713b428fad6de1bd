//! What repeated comparisons say together.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with its interval, of logarithms: 0 is no difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Of how many pairs.
    pub(super) pairs: usize,
}

impl Estimate {
    /// The interval outside of which the mean is wrong with a probability of `error` at most, both sides together: Student's
    /// ("The probable error of a mean", 1908) over the differences within pairs, which cancels what befalls both of a pair.
    /// Whoever makes several claims divides his error by their number (Bonferroni).
    pub(super) fn of(differences: &[f64], error: f64) -> Self {
        let pairs = differences.len();
        let mean = differences.iter().sum::<f64>() / pairs.max(1) as f64;
        let wide = Self { mean, low: f64::NEG_INFINITY, high: f64::INFINITY, pairs };
        if pairs < 2 {
            return wide;
        }
        let free = (pairs - 1) as f64;
        let variance = differences.iter().map(|difference| (difference - mean).powi(2)).sum::<f64>() / free;
        let Ok(student) = StudentsT::new(0.0, 1.0, free) else { return wide };
        let half = student.inverse_cdf(1.0 - error / 2.0) * (variance / pairs as f64).sqrt();
        Self { low: mean - half, high: mean + half, ..wide }
    }

    /// Better beyond the noise.
    pub(super) fn helps(&self) -> bool {
        self.low > 0.0
    }

    /// Worse beyond the noise.
    pub(super) fn harms(&self) -> bool {
        self.high < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Of 1, 2, 3, 4, 5: mean 3, deviation 1.5811; t(0.975, 4) = 2.7764.
        let found = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05);
        assert!((found.mean - 3.0).abs() < 1e-12);
        assert!((found.high - 3.0 - 2.7764 * 1.58114 / 5.0_f64.sqrt()).abs() < 1e-3, "{found:?}");
        assert!(found.helps() && !found.harms());
    }

    #[test]
    fn one_pair_says_nothing() {
        let found = Estimate::of(&[7.0], 0.05);
        assert!(!found.helps() && !found.harms() && found.mean > 6.0);
        assert_eq!(Estimate::of(&[], 0.05).pairs, 0);
    }
}
