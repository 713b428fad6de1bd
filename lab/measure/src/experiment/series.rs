//! Rate and times of several clients together.

use super::measured::{Counts, Measured};
use sidecore_report::Times;
use sidecore_report::statistics::histogram;

/// Operations a second of simultaneous clients, from the first beginning to the last end: clients that share a core may
/// have run one after the other.
pub fn total_per_s(measured: &[Measured]) -> f64 {
    let began = measured.iter().map(|m| m.began).min().unwrap_or(0);
    let ended = measured.iter().map(|m| m.began + m.ns).max().unwrap_or(0);
    let ops: u64 = measured.iter().map(|m| m.ops).sum();
    ops as f64 * 1e9 / ended.saturating_sub(began).max(1) as f64
}

/// Mean and percentiles over several clients or repeats, us. `None`: nothing was sampled.
pub fn times<'c>(counts: impl IntoIterator<Item = &'c Counts>) -> Option<Times> {
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
