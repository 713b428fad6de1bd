//! Axes: their ranges and the format of marks. plotters computes the positions of values and marks.

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::Ranged;
use std::ops::Range;

/// Division of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero on.
    Linear,
    /// Each doubling takes the same room.
    Log2,
    /// Each decade takes the same room; evenly if the values are within one decade.
    Log10,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Text along the axis.
    pub name: String,
    scale: Scale,
    format: fn(f64) -> String,
}

pub(crate) enum Span {
    Even(RangedCoordf64),
    Log(LogCoord<f64>),
}

/// Distance of points from the end of an even axis, as a factor, and from both ends of a doubling one.
const MARGIN: f64 = 1.03;
const MARGIN_OF_DOUBLINGS: f64 = 1.2;

impl Axis {
    /// An axis with this format of its marks.
    pub fn new(name: impl Into<String>, scale: Scale, format: fn(f64) -> String) -> Self {
        Self { name: name.into(), scale, format }
    }

    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || (self.scale == Scale::Linear && value == 0.0))
    }

    pub(crate) fn label(&self, value: f64) -> String {
        without_zeros(&(self.format)(value))
    }

    pub(crate) fn span(&self, values: impl Iterator<Item = f64>) -> Span {
        let (low, high) = values
            .filter(|value| self.shows(*value))
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let decade = |value: f64| 10_f64.powf(value);
        match self.scale {
            Scale::Log2 if high > 0.0 => Span::log(low / MARGIN_OF_DOUBLINGS..high * MARGIN_OF_DOUBLINGS, 2.0),
            Scale::Log10 if high >= 10.0 * low => {
                Span::log(decade(low.log10().floor())..decade(high.log10().ceil()), 10.0)
            }
            _ => Span::Even((0.0..if high > 0.0 { high * MARGIN } else { 1.0 }).into()),
        }
    }
}

impl Span {
    fn log(range: Range<f64>, base: f64) -> Self {
        Self::Log(range.log_scale().base(base).into())
    }
}

impl Ranged for Span {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        match self {
            Self::Even(even) => even.map(value, pixels),
            Self::Log(log) => log.map(value, pixels),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Self::Even(even) => even.key_points(hint),
            Self::Log(log) => log.key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Self::Even(even) => even.range(),
            Self::Log(log) => log.range(),
        }
    }
}

/// Removes trailing zeros of a fraction, with or without a unit: marks are round numbers, not measurements.
fn without_zeros(text: &str) -> String {
    let (number, unit) = text.split_at(text.find(' ').unwrap_or(text.len()));
    let short = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{short}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::BoldPoints;

    const MAX_TICKS: usize = 7;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = Axis::new("a", scale, |value| format!("{value:.0}"));
        let marks = axis.span(values.iter().copied()).key_points(BoldPoints(MAX_TICKS));
        marks.into_iter().map(|mark| axis.label(mark)).collect()
    }

    #[test]
    fn marks_are_round_and_as_many_as_there_is_room_for() {
        assert_eq!(labels(Scale::Linear, &[17.0, 230.0]), ["0", "50", "100", "150", "200"]);
        assert_eq!(labels(Scale::Linear, &[0.0]).first().map(String::as_str), Some("0"));
        assert_eq!(labels(Scale::Log2, &[16.0, 64.0]), ["16", "32", "64"]);
        let many = labels(Scale::Log2, &[16.0, 65536.0]);
        assert_eq!(many, ["16", "64", "256", "1024", "4096", "16384", "65536"]);
        assert_eq!(labels(Scale::Log10, &[3.0, 70_000.0]), ["1", "10", "100", "1000", "10000", "100000"]);
        assert_eq!(labels(Scale::Log10, &[12.0, 70.0]), ["0", "20", "40", "60"]);
        let words = ["10.0 M/s", "0.50 x", "200 us"].map(without_zeros);
        assert_eq!(words, ["10 M/s", "0.5 x", "200 us"]);
    }

    #[test]
    fn every_value_lies_within_the_span() {
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            for values in [[1.0, 1.0], [0.02, 3e9], [7.0, 8.0]] {
                let range = Axis::new("a", scale, |value| value.to_string()).span(values.into_iter()).range();
                assert!(values.iter().all(|value| range.contains(value)), "{range:?} {values:?}");
            }
        }
    }

    #[test]
    fn zero_has_a_place_on_a_linear_axis_only() {
        let shows = |scale, value| Axis::new("a", scale, |value| value.to_string()).shows(value);
        assert!(shows(Scale::Linear, 0.0) && !shows(Scale::Log2, 0.0));
        assert!(!shows(Scale::Linear, f64::INFINITY) && !shows(Scale::Log10, f64::NAN));
    }
}
