//! Change of a figure from one link to the other: published, simulated, and measured.

use super::contrast::{Contrast, Metrics};
use super::file::Effect;
use crate::error::LabError;
use crate::net::columns;
use crate::report::{Row, column};
use crate::sim::Predictions;
use crate::sim::value;
use sidecore_report::statistics::median;
use statrs::distribution::{Binomial, DiscreteCDF};
use std::cmp::Ordering;

impl Effect {
    fn change(&self, first: f64, other: f64) -> f64 {
        if self.is_difference { other - first } else { other / first }
    }

    fn nothing(&self) -> f64 {
        if self.is_difference { 0.0 } else { 1.0 }
    }

    fn published(&self) -> Option<f64> {
        self.published.as_ref().map(|published| self.change(published.first, published.other))
    }

    fn between(&self, first: &Metrics, other: &Metrics) -> Option<f64> {
        let of = |metrics| value(metrics, &self.metric.text);
        Some(self.change(of(first)?, of(other)?)).filter(|change| change.is_finite())
    }

    /// `None`: no run has the figure on both links.
    pub(super) fn row(
        &self,
        scenario: &str,
        contrast: &Contrast,
        predictions: Option<&mut Predictions>,
    ) -> Result<Option<Row>, LabError> {
        let [first, other] = &contrast.sides;
        let pairs = first.each.iter().zip(&other.each);
        let mut changes: Vec<f64> = pairs.filter_map(|(first, other)| self.between(first, other)).collect();
        if changes.is_empty() {
            return Ok(None);
        }
        changes.sort_by(f64::total_cmp);
        let (measured, interval) = (median(&changes), interval(&changes));
        let simulated = predictions.map(|predictions| self.simulated(contrast, predictions)).transpose()?.flatten();
        let row = Row::new(scenario, &self.name)
            .with(column::CLIENTS, contrast.connections())
            .with(columns::PUBLISHED, self.published())
            .with(columns::PUBLISHED_IN, self.published.as_ref().map(|published| published.source.as_str()))
            .with(columns::SIMULATED, simulated)
            .with(columns::MEASURED, measured)
            .with(columns::MEASURED_LOW, interval.map(|(low, _)| low))
            .with(columns::MEASURED_HIGH, interval.map(|(_, high)| high))
            .with(columns::EFFECT_UNIT, if self.is_difference { "us" } else { "x" })
            .with(columns::AGREES, self.agrees(measured, interval))
            .with(column::BASELINE, format!("{} against {}", other.link.name, first.link.name))
            .with(column::REPEATS, changes.len());
        Ok(Some(row))
    }

    fn simulated(&self, contrast: &Contrast, predictions: &mut Predictions) -> Result<Option<f64>, LabError> {
        let [first, other] = contrast.rows("");
        let both = predictions.of(&first)?.zip(predictions.of(&other)?);
        Ok(both.and_then(|(first, other)| self.between(&first, &other)))
    }

    /// Whether its direction is the published one. `None`: none was published.
    fn agrees(&self, measured: f64, interval: Option<(f64, f64)>) -> Option<&'static str> {
        let (published, nothing) = (self.published()?, self.nothing());
        let (low, high) = interval.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let is_none = low <= nothing && nothing <= high;
        Some(match published.total_cmp(&nothing) {
            Ordering::Equal if is_none => "none seen",
            Ordering::Equal => "no",
            _ if is_none => "within noise",
            way if way.is_gt() == (measured > nothing) => "yes",
            _ => "no",
        })
    }
}

/// The bounds of a 95 % confidence interval of the median, both from the sorted values. The number of values above the
/// median is binomial, and each side has half of the error. Outliers do not widen the interval. `None`: fewer than six
/// values.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let below = Binomial::new(0.5, sorted.len() as u64).ok()?;
    let is_sure = |left_out: &usize| below.cdf(*left_out as u64) <= 0.025;
    let left_out = (0..sorted.len() / 2).take_while(is_sure).last()?;
    Some((sorted[left_out], sorted[sorted.len() - 1 - left_out]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::papers::file::{Formula, Published};

    fn effect(published: Option<f64>, is_difference: bool) -> Effect {
        let first = if is_difference { 0.0 } else { 1.0 };
        let published = published.map(|other| Published { first, other, source: "text".to_owned() });
        let metric = Formula::try_from("latency_us".to_owned()).unwrap();
        Effect { name: "effect".to_owned(), metric, is_difference, published }
    }

    #[test]
    fn an_effect_agrees_if_it_goes_the_published_way_beyond_the_noise() {
        for (published, is_difference, measured, interval, word) in [
            (Some(1.8), false, 1.2, Some((1.1, 1.3)), Some("yes")),
            (Some(0.9), false, 0.5, Some((0.3, 0.8)), Some("yes")),
            (Some(1.8), false, 0.8, Some((0.7, 0.9)), Some("no")),
            (Some(1.8), false, 1.2, Some((0.9, 1.6)), Some("within noise")),
            (Some(1.8), false, 1.2, None, Some("within noise")),
            (Some(1.0), false, 1.1, Some((0.9, 1.3)), Some("none seen")),
            (Some(1.0), false, 1.1, Some((1.05, 1.2)), Some("no")),
            (Some(6.0), true, 0.5, Some((0.2, 0.8)), Some("yes")),
            (Some(6.0), true, -0.5, Some((-0.8, -0.2)), Some("no")),
            (None, false, 1.2, Some((1.1, 1.3)), None),
        ] {
            let effect = effect(published, is_difference);
            assert_eq!(effect.agrees(measured, interval), word, "{published:?} {measured} {interval:?}");
        }
    }

    #[test]
    fn the_interval_of_a_median_leaves_out_what_chance_allows() {
        let up_to = |most: u32| (1..=most).map(f64::from).collect::<Vec<_>>();
        // Six values are on one side of their median once in 64 times; of twelve, two or fewer once in 52.
        let cases = [(0, None), (1, None), (5, None), (6, Some((1.0, 6.0))), (12, Some((3.0, 10.0)))];
        for (count, expected) in cases {
            assert_eq!(interval(&up_to(count)), expected, "{count}");
        }
    }
}
