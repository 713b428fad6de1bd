//! Axes: where a value lies on a scale, and which round values are marked.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::Ranged;

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Evenly, from zero on.
    Linear,
    /// Each doubling takes the same room.
    Log2,
    /// Each decade takes the same room.
    Log10,
}

/// An axis with its name and its numbers' format.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// Written along it.
    pub(crate) name: String,
    scale: Scale,
    format: fn(f64) -> String,
}

/// The part of an axis that is shown, in positions, and the positions that are marked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    /// Start.
    pub(crate) from: f64,
    /// End.
    pub(crate) to: f64,
    /// Marks within it, in ascending order.
    pub(crate) ticks: Vec<f64>,
}

/// Points keep this share of an axis's length off its end.
const MARGIN: f64 = 0.03;
/// Positions of 1, 2 and 5 within a decade.
const ONE_TWO_FIVE: [f64; 3] = [0.0, std::f64::consts::LOG10_2, 1.0 - std::f64::consts::LOG10_2];
const ROUNDING: f64 = 1e-9;

impl Axis {
    /// An axis of that name and scale.
    pub(crate) fn new(name: impl Into<String>, scale: Scale, format: fn(f64) -> String) -> Self {
        Self { name: name.into(), scale, format }
    }

    /// Whether the axis has a place for that value.
    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || (self.scale == Scale::Linear && value == 0.0))
    }

    /// Where that value lies.
    pub(crate) fn position(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log2 => value.log2(),
            Scale::Log10 => value.log10(),
        }
    }

    /// The words for a mark at that position.
    pub(crate) fn label(&self, position: f64) -> String {
        without_zeros(&(self.format)(match self.scale {
            Scale::Linear => position,
            Scale::Log2 => position.exp2(),
            Scale::Log10 => 10f64.powf(position),
        }))
    }

    /// What to show so that all of those values are in it, with at most so many marks.
    pub(crate) fn span(&self, values: impl Iterator<Item = f64>, most_ticks: usize) -> Span {
        let positions = values.filter(|&value| self.shows(value)).map(|value| self.position(value));
        let (low, high) = positions
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), position| (low.min(position), high.max(position)));
        match self.scale {
            _ if low > high => Span { from: 0.0, to: 1.0, ticks: Vec::new() },
            Scale::Linear => from_zero(high, most_ticks),
            Scale::Log2 => doublings(low, high, most_ticks),
            Scale::Log10 => decades(low, high, most_ticks),
        }
    }
}

impl Ranged for Span {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, position: &f64, pixels: (i32, i32)) -> i32 {
        let share = (position - self.from) / (self.to - self.from);
        pixels.0 + (share * f64::from(pixels.1 - pixels.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

/// A number, with or without a unit, without the zeros that end its fraction: marks are round, not measured.
fn without_zeros(text: &str) -> String {
    let (number, unit) = text.split_at(text.find(' ').unwrap_or(text.len()));
    let short = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{short}{unit}")
}

fn from_zero(high: f64, most_ticks: usize) -> Span {
    let high = if high > 0.0 { high } else { 1.0 };
    let rough = (high / most_ticks.saturating_sub(1).max(1) as f64).log10();
    let part = ONE_TWO_FIVE.iter().copied().find(|part| rough.floor() + part >= rough - ROUNDING).unwrap_or(1.0);
    let step = 10f64.powf(rough.floor() + part);
    let steps = (high / step + ROUNDING).floor() as u32;
    Span { from: 0.0, to: high * (1.0 + MARGIN), ticks: (0..=steps).map(|tick| f64::from(tick) * step).collect() }
}

fn doublings(low: f64, high: f64, most_ticks: usize) -> Span {
    let (first, last) = (low.ceil() as i32, high.floor() as i32);
    let count = usize::try_from(last - first + 1).unwrap_or(0);
    let stride = count.div_ceil(most_ticks.max(1)).max(1);
    let ticks = (first..=last).step_by(stride).map(f64::from).collect();
    let margin = ((high - low) * MARGIN).max(if high > low { 0.0 } else { 1.0 });
    Span { from: low - margin, to: high + margin, ticks }
}

fn decades(low: f64, high: f64, most_ticks: usize) -> Span {
    let (first, last) = (low.floor() as i32, high.ceil() as i32);
    let marks: Vec<_> = (first..=last).flat_map(|decade| ONE_TWO_FIVE.map(|part| f64::from(decade) + part)).collect();
    let below = marks.iter().copied().rfind(|&mark| mark <= low + ROUNDING).unwrap_or(low);
    let above = marks.iter().copied().find(|&mark| mark >= high - ROUNDING && mark > below).unwrap_or(high + 1.0);
    let within: Vec<_> = marks.into_iter().filter(|mark| (below..=above).contains(mark)).collect();
    let whole: Vec<_> = within.iter().copied().filter(|mark| mark.fract().abs() < ROUNDING).collect();
    let ticks = if within.len() <= most_ticks { within } else { whole };
    let stride = ticks.len().div_ceil(most_ticks.max(1)).max(1);
    Span { from: below, to: above, ticks: ticks.into_iter().step_by(stride).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_TICKS: usize = 7;

    fn axis(scale: Scale) -> Axis {
        Axis::new("a", scale, |value| format!("{value:.0}"))
    }

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.span(values.iter().copied(), MOST_TICKS).ticks.iter().map(|&tick| axis.label(tick)).collect()
    }

    #[test]
    fn linear_axes_start_at_zero_and_have_round_marks() {
        let span = axis(Scale::Linear).span([0.3, 0.93].into_iter(), MOST_TICKS);
        assert!(span.from == 0.0 && (0.93..1.0).contains(&span.to), "{span:?}");
        assert_eq!(labels(&axis(Scale::Linear), &[17.0, 230.0]), ["0", "50", "100", "150", "200"]);
        assert_eq!(
            without_zeros("10.0 M/s") + &without_zeros("0.50 x") + &without_zeros("200 us"),
            "10 M/s0.5 x200 us"
        );
        assert_eq!(labels(&axis(Scale::Linear), &[0.0]).first().map(String::as_str), Some("0"));
    }

    #[test]
    fn doublings_are_thinned_until_they_fit() {
        assert_eq!(labels(&axis(Scale::Log2), &[16.0, 64.0]), ["16", "32", "64"]);
        let many = labels(&axis(Scale::Log2), &[16.0, 65536.0]);
        assert_eq!(many, ["16", "64", "256", "1024", "4096", "16384", "65536"]);
    }

    #[test]
    fn decades_are_marked_in_between_only_where_there_is_room() {
        assert_eq!(labels(&axis(Scale::Log10), &[12.0, 70.0]), ["10", "20", "50", "100"]);
        assert_eq!(labels(&axis(Scale::Log10), &[3.0, 70_000.0]), ["10", "100", "1000", "10000", "100000"]);
    }

    #[test]
    fn every_value_lies_within_the_span() {
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            for values in [[1.0, 1.0], [0.02, 3e9], [7.0, 8.0]] {
                let axis = axis(scale);
                let span = axis.span(values.into_iter(), MOST_TICKS);
                for value in values {
                    let position = axis.position(value);
                    assert!(span.from <= position + ROUNDING && position <= span.to + ROUNDING, "{span:?} {value}");
                }
                assert!(span.from < span.to && span.ticks.len() <= MOST_TICKS, "{span:?}");
            }
        }
    }

    #[test]
    fn zero_has_a_place_on_a_linear_axis_only() {
        assert!(axis(Scale::Linear).shows(0.0) && !axis(Scale::Log2).shows(0.0));
        assert!(!axis(Scale::Linear).shows(f64::INFINITY) && !axis(Scale::Log10).shows(f64::NAN));
    }
}
