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

pub(super) struct FoundEffect<'e> {
    effect: &'e Effect,
    simulated: Option<f64>,
    measured: f64,
    interval: Option<(f64, f64)>,
    pairs: usize,
}

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
    pub(super) fn found(
        &self,
        contrast: &Contrast,
        predictions: Option<&mut Predictions>,
    ) -> Result<Option<FoundEffect<'_>>, LabError> {
        let [first, other] = &contrast.sides;
        let mut changes: Vec<f64> =
            first.each.iter().zip(&other.each).filter_map(|(first, other)| self.between(first, other)).collect();
        if changes.is_empty() {
            return Ok(None);
        }
        changes.sort_by(f64::total_cmp);
        Ok(Some(FoundEffect {
            effect: self,
            simulated: predictions.map(|predictions| self.simulated(contrast, predictions)).transpose()?.flatten(),
            measured: median(&changes),
            interval: interval(&changes),
            pairs: changes.len(),
        }))
    }

    fn simulated(&self, contrast: &Contrast, predictions: &mut Predictions) -> Result<Option<f64>, LabError> {
        let [first, other] = contrast.rows("");
        let both = predictions.of(&first)?.zip(predictions.of(&other)?);
        Ok(both.and_then(|(first, other)| self.between(&first, &other)))
    }
}

impl FoundEffect<'_> {
    pub(super) fn row(&self, scenario: &str, contrast: &Contrast) -> Row {
        let [first, other] = [&contrast.sides[0], &contrast.sides[1]].map(|side| &side.link.name);
        let source = self.effect.published.as_ref().map(|published| published.source.as_str());
        Row::new(scenario, &self.effect.name)
            .with(column::CLIENTS, contrast.connections())
            .with(columns::PUBLISHED, self.effect.published())
            .with(columns::PUBLISHED_IN, source)
            .with(columns::SIMULATED, self.simulated)
            .with(columns::MEASURED, self.measured)
            .with(columns::MEASURED_LOW, self.interval.map(|(low, _)| low))
            .with(columns::MEASURED_HIGH, self.interval.map(|(_, high)| high))
            .with(columns::EFFECT_UNIT, if self.effect.is_difference { "us" } else { "x" })
            .with(columns::AGREES, self.agrees())
            .with(column::BASELINE, format!("{other} against {first}"))
            .with(column::REPEATS, self.pairs)
    }

    /// Whether its direction is the published one. `None`: none was published.
    fn agrees(&self) -> Option<&'static str> {
        let (published, nothing) = (self.effect.published()?, self.effect.nothing());
        let (low, high) = self.interval.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let is_none = low <= nothing && nothing <= high;
        let up = self.measured > nothing;
        Some(match published.total_cmp(&nothing) {
            Ordering::Equal if is_none => "none seen",
            Ordering::Equal => "no",
            _ if is_none => "within noise",
            way if way.is_gt() == up => "yes",
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

/// The order of effects by size, published and measured, in words. `None`: fewer than two are comparable.
pub(super) fn order(effects: &[FoundEffect<'_>]) -> Option<String> {
    let known: Vec<_> = effects
        .iter()
        .filter(|found| !found.effect.is_difference)
        .filter_map(|found| Some((found.effect.name.as_str(), found.effect.published()?, found.measured)))
        .collect();
    let by = |of: fn(&(&str, f64, f64)) -> f64| {
        let mut sorted = known.clone();
        sorted.sort_by(|one, other| of(other).total_cmp(&of(one)));
        sorted.iter().map(|found| found.0).collect::<Vec<_>>().join(" > ")
    };
    let (published, measured) = (by(|found| found.1), by(|found| found.2));
    (known.len() > 1).then(|| {
        if published == measured {
            format!("by size, as published: {measured}")
        } else {
            format!("by size, published: {published}; measured: {measured}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::papers::file::{Formula, Published};

    fn effect(name: &str, published: Option<f64>, is_difference: bool) -> Effect {
        let first = if is_difference { 0.0 } else { 1.0 };
        let published = published.map(|other| Published { first, other, source: "text".to_owned() });
        let metric = Formula::try_from("latency_us".to_owned()).unwrap();
        Effect { name: name.to_owned(), metric, is_difference, published }
    }

    fn found(effect: &Effect, measured: f64, interval: Option<(f64, f64)>) -> FoundEffect<'_> {
        FoundEffect { effect, simulated: None, measured, interval, pairs: 5 }
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
            let effect = effect("effect", published, is_difference);
            assert_eq!(found(&effect, measured, interval).agrees(), word, "{published:?} {measured} {interval:?}");
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

    #[test]
    fn the_order_is_of_ratios_that_were_published() {
        let [large, small, other] = [("large", Some(2.0)), ("small", Some(1.5)), ("other", None)]
            .map(|(name, published)| effect(name, published, false));
        let all = |of_large, of_small| {
            order(&[found(&small, of_small, None), found(&other, 9.0, None), found(&large, of_large, None)])
        };
        assert_eq!(all(1.3, 1.1).as_deref(), Some("by size, as published: large > small"));
        let words = "by size, published: large > small; measured: small > large";
        assert_eq!(all(1.1, 1.3).as_deref(), Some(words));
        assert_eq!(order(&[found(&large, 2.0, None)]), None);
    }
}
