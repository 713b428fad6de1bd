//! Repeats of one measurement: median, spread, ratio to a baseline, histogram of times.

use hdrhistogram::Histogram;

/// Histogram of times up to a minute, ns.
///
/// # Panics
/// Never: the bounds are constants that the library allows.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constants that the library allows")
}

/// The median; 0 if there are no values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// Largest less smallest, divided by the median. `None`: one value has none, nor has a median of 0.
#[must_use]
pub fn spread(values: &[f64]) -> Option<f64> {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(*v), m.max(*v)));
    let middle = median(values);
    (values.len() > 1 && middle != 0.0).then(|| (most - least) / middle)
}

/// Median of pairwise quotients of two series that were measured in turn.
#[must_use]
pub fn ratio(values: &[f64], baseline: &[f64]) -> Option<f64> {
    ratio_of(&quotients(values, baseline))
}

/// Pairwise quotients of two series that were measured in turn, without those of a baseline of 0.
#[must_use]
pub fn quotients(values: &[f64], baseline: &[f64]) -> Vec<f64> {
    values.iter().zip(baseline).filter(|(_, b)| **b > 0.0).map(|(a, b)| a / b).collect()
}

/// The median of `quotients`. `None`: there are none.
#[must_use]
pub fn ratio_of(quotients: &[f64]) -> Option<f64> {
    (!quotients.is_empty()).then(|| median(quotients))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[1.0, 2.0]) - 1.5).abs() < 1e-12);
        assert_eq!((spread(&[1.0, 2.0, 3.0]), spread(&[7.0]), spread(&[0.0, 0.0])), (Some(1.0), None, None));
        assert_eq!(ratio(&[2.0, 9.0, 4.0], &[1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }
}
