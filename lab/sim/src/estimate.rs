//! Certainty of results: a case runs again with other seeds until its mean is known well enough.
//!
//! Each run begins anew, so its value is one independent observation. Student's distribution gives the interval around
//! the mean. Source: Law, "Simulation Modeling and Analysis", section 9.5.2
//! (replication and deletion) and 9.5.1 for stopping at a relative precision. Values in two distant groups are
//! reported as two regimes, because their mean is no run's value.

use crate::outcome::Outcome;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Least number of runs before a case can be sure: with fewer, an interval is too often too narrow.
const MIN_RUNS: u32 = 6;
/// Limit of runs of a case.
pub const MAX_RUNS: u32 = 1_000;
/// Probability that the interval contains the mean.
pub const CONFIDENCE: f64 = 0.95;
/// Two groups of values are two regimes if their distance is this multiple of the wider one's width, and this fraction
/// of the mean.
const APART: f64 = 2.0;
const FAR: f64 = 0.03;
const FEWEST: usize = 2;

/// Number of runs of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Seed of the first run; the others use the following seeds.
    pub seed: u64,
    /// Limit of runs of a case, 1 to [`MAX_RUNS`].
    pub runs: u32,
    /// Sufficient half-width of the interval, as a fraction of the mean.
    pub precision: f64,
}

impl Effort {
    /// One run, whose values have no interval.
    pub fn once(seed: u64) -> Self {
        Self { seed, runs: 1, precision: 0.0 }
    }
}

/// A mean over runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half-width of the interval that contains the mean with probability [`CONFIDENCE`]; not a number after one run.
    pub within: f64,
    /// Number of runs with a value.
    pub runs: u32,
    /// The two groups of values, if there are two.
    pub regimes: Option<[Regime; 2]>,
}

/// Runs with similar values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regime {
    /// Their mean.
    pub mean: f64,
    /// Number of runs.
    pub runs: u32,
}

impl Regime {
    fn of(figures: &[f64]) -> Self {
        Self { mean: mean(figures), runs: figures.len() as u32 }
    }
}

impl Estimate {
    /// From one value per run; values that are not finite are omitted.
    pub fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut known: Vec<f64> = figures.filter(|figure| figure.is_finite()).collect();
        known.sort_by(f64::total_cmp);
        let (mean, count) = (mean(&known), known.len());
        let squares: f64 = known.iter().map(|figure| (figure - mean).powi(2)).sum();
        let freedom = count.saturating_sub(1) as f64;
        let student =
            StudentsT::new(0.0, 1.0, freedom).map(|student| student.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)));
        let factor = student.unwrap_or(f64::NAN) * (squares / freedom).sqrt();
        Self { mean, within: factor / (count as f64).sqrt(), runs: count as u32, regimes: regimes(&known, mean) }
    }

    /// Half-width of the interval as a fraction of the mean; infinite without an interval.
    pub fn relative(&self) -> f64 {
        match (self.within / self.mean).abs() {
            _ if self.within == 0.0 => 0.0,
            part if part.is_finite() => part,
            _ => f64::INFINITY,
        }
    }
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

fn regimes(sorted: &[f64], mean: f64) -> Option<[Regime; 2]> {
    let gap = |at: &usize| sorted[*at] - sorted[*at - 1];
    let last = sorted.len().checked_sub(FEWEST)?;
    let at = (FEWEST..=last).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let (low, high) = sorted.split_at(at);
    let width = |group: &[f64]| group[group.len() - 1] - group[0];
    let is_apart = gap(&at) > APART * width(low).max(width(high)) && gap(&at) > FAR * mean.abs();
    is_apart.then(|| [Regime::of(low), Regime::of(high)])
}

/// Runs a case until these metrics are sure enough, or up to the effort's limit. Returns the means of all metrics, the
/// limit in the first run, and a hash over all runs; and an estimate for each metric.
pub(crate) fn estimate(run: impl Fn(u64) -> Outcome, wanted: &[usize], effort: &Effort) -> (Outcome, Vec<Estimate>) {
    estimate_while(run, wanted, effort, &mut || true).expect("nothing stops it")
}

/// As [`estimate`], for as long as `go_on` says so, which is called between two runs. `None`: it was stopped.
pub(crate) fn estimate_while(
    run: impl Fn(u64) -> Outcome,
    wanted: &[usize],
    effort: &Effort,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<(Outcome, Vec<Estimate>)> {
    let mut outcomes = vec![run(effort.seed)];
    let of = |outcomes: &[Outcome], metric: usize| Estimate::of(outcomes.iter().map(|outcome| outcome.values[metric]));
    while (outcomes.len() as u32) < effort.runs {
        let is_sure = |metric: &usize| of(&outcomes, *metric).relative() <= effort.precision;
        if outcomes.len() as u32 >= MIN_RUNS && wanted.iter().all(is_sure) {
            break;
        }
        if !go_on() {
            return None;
        }
        outcomes.push(run(effort.seed.wrapping_add(outcomes.len() as u64)));
    }
    let estimates: Vec<Estimate> = (0..outcomes[0].values.len()).map(|metric| of(&outcomes, metric)).collect();
    let values = estimates.iter().map(|estimate| estimate.mean).collect();
    let trace = outcomes.iter().skip(1).fold(outcomes[0].trace, |all, outcome| all.rotate_left(5) ^ outcome.trace);
    let limit = outcomes.swap_remove(0).limit;
    Some((Outcome { values, limit, trace }, estimates))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn close(found: f64, wanted: f64) -> bool {
        (found / wanted - 1.0).abs() < 1e-3
    }

    /// Student's factor at 95 % and 4 degrees of freedom is 2.776 in every table of it.
    #[test]
    fn intervals_are_students() {
        let found = Estimate::of([9.0, 10.0, 11.0, 10.0, 10.0].into_iter());
        assert!(close(found.mean, 10.0) && close(found.within, 2.776 * (0.5_f64 / 5.0).sqrt()), "{found:?}");
        assert!(close(found.relative(), found.within / 10.0));
        let one = Estimate::of([3.0, f64::NAN].into_iter());
        assert!(one.within.is_nan() && one.relative().is_infinite() && one.runs == 1, "{one:?}");
        assert!(Estimate::of([7.0; 3].into_iter()).relative() < 1e-12);
    }

    #[test]
    fn two_regimes_are_told_from_one_that_is_wide() {
        let two = Estimate::of([100.0, 116.0, 101.0, 115.0, 99.0, 117.0].into_iter()).regimes.unwrap();
        assert_eq!(two, [Regime { mean: 100.0, runs: 3 }, Regime { mean: 116.0, runs: 3 }]);
        for one in [[100.0, 104.0, 108.0, 112.0, 116.0, 120.0], [100.0, 100.0, 100.0, 101.0, 101.0, 101.0]] {
            assert_eq!(Estimate::of(one.into_iter()).regimes, None, "{one:?}");
        }
        // One distant value is an outlier, not a regime.
        assert_eq!(Estimate::of([100.0, 101.0, 100.0, 101.0, 100.0, 150.0].into_iter()).regimes, None);
    }

    fn straying(by: f64, runs: &Cell<u32>) -> impl Fn(u64) -> Outcome {
        move |seed| {
            runs.set(runs.get() + 1);
            Outcome { values: vec![100.0 + by * (seed % 3) as f64, seed as f64], limit: seed.to_string(), trace: seed }
        }
    }

    #[test]
    fn a_case_is_run_until_it_is_sure_and_no_longer() {
        let count = |by, runs, precision| {
            let done = Cell::new(0);
            let (outcome, estimates) = estimate(straying(by, &done), &[0], &Effort { seed: 3, runs, precision });
            assert_eq!((outcome.limit.as_str(), estimates[0].runs), ("3", done.get()));
            done.get()
        };
        assert_eq!([count(0.0, 50, 0.01), count(5.0, 1, 0.01)], [MIN_RUNS, 1]);
        assert!(count(5.0, 500, 0.01) > MIN_RUNS && count(5.0, 500, 0.01) < 500);
        assert_eq!(count(50.0, 20, 0.001), 20);
    }
}
