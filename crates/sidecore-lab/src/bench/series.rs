//! Repeats of one measurement, and their median.

use super::task::{Counts, Measured};
use crate::report::Times;
use hdrhistogram::Histogram;

/// Histogram of times up to a minute, ns.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constants that the library allows")
}

/// The median; 0 if there are no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// Largest less smallest, divided by the median.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(*v), m.max(*v)));
    if values.is_empty() || median(values) == 0.0 { 0.0 } else { (most - least) / median(values) }
}

/// Median of pairwise quotients of two series that were measured in turn.
pub(crate) fn ratio(values: &[f64], baseline: &[f64]) -> Option<f64> {
    ratio_of(&quotients(values, baseline))
}

pub(crate) fn quotients(values: &[f64], baseline: &[f64]) -> Vec<f64> {
    values.iter().zip(baseline).filter(|(_, b)| **b > 0.0).map(|(a, b)| a / b).collect()
}

/// `None`: there are no quotients.
pub(crate) fn ratio_of(quotients: &[f64]) -> Option<f64> {
    (!quotients.is_empty()).then(|| median(quotients))
}

/// Operations a second of simultaneous clients, from the first beginning to the last end: clients that share a core may
/// have run one after the other.
pub(crate) fn total_per_s(measured: &[Measured]) -> f64 {
    let began = measured.iter().map(|m| m.began).min().unwrap_or(0);
    let ended = measured.iter().map(|m| m.began + m.ns).max().unwrap_or(0);
    let ops: u64 = measured.iter().map(|m| m.ops).sum();
    ops as f64 * 1e9 / ended.saturating_sub(began).max(1) as f64
}

/// Mean and percentiles over several clients or repeats, us. `None`: nothing was sampled.
pub(crate) fn times<'c>(counts: impl IntoIterator<Item = &'c Counts>) -> Option<Times> {
    let mut histogram = histogram();
    for (value, count) in counts.into_iter().flatten() {
        histogram.saturating_record_n((*value).max(1), *count);
    }
    let us = |ns: f64| ns / 1000.0;
    (!histogram.is_empty()).then(|| Times {
        mean: us(histogram.mean()),
        p50: us(histogram.value_at_quantile(0.5) as f64),
        p99: us(histogram.value_at_quantile(0.99) as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[1.0, 2.0]) - 1.5).abs() < 1e-12);
        assert!((spread(&[1.0, 2.0, 3.0]) - 1.0).abs() < 1e-12);
        assert_eq!(ratio(&[2.0, 9.0, 4.0], &[1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }

    #[test]
    fn clients_that_ran_one_after_the_other_do_not_add_up() {
        let client = |began| Measured { ops: 1000, ns: 1_000_000, began, ..Measured::default() };
        assert!((total_per_s(&[client(5), client(5)]) - 2e6).abs() < 1.0);
        assert!((total_per_s(&[client(0), client(1_000_000)]) - 1e6).abs() < 1.0);
    }

    #[test]
    fn times_are_in_microseconds() {
        let times = times([&vec![(1000, 98), (50_000, 2)]]).unwrap();
        assert!((times.p50 - 1.0).abs() < 0.01 && (times.p99 - 50.0).abs() < 0.1 && (times.mean - 1.98).abs() < 0.01);
        assert!(super::times([&vec![]]).is_none());
    }
}
