//! One row of results: the case, its settings, and its figures.

use super::column::{self, Column, TimeColumns};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// Mean and percentiles of a time, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// A line that is no row.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum RowError {
    /// Not JSON; has the parser's words.
    #[error("{0}")]
    Json(String),
    /// A value of another type than the column's.
    #[error("{name} is {value}")]
    Value {
        /// Column of the value.
        name: &'static str,
        /// The value as it is.
        value: Value,
    },
    /// A column that each row has.
    #[error("it has no {0}")]
    Missing(&'static str),
}

/// Columns with their values, in the order of columns. Missing values and numbers that are not finite are left out.
///
/// Example: `Row::new("crypto", "sidecore").with(column::OP, "sha-256").with(column::SIZE, 64)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row(Vec<(&'static Column, Value)>);

impl Row {
    /// A row of that scenario. `variant` distinguishes its set-up.
    pub fn new(scenario: &str, variant: &str) -> Self {
        Self::default().with(column::SCENARIO, scenario).with(column::VARIANT, variant)
    }

    /// `None` leaves the row as it is.
    #[must_use]
    pub fn with(mut self, column: &'static Column, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            if let Some((_, own)) = self.0.iter_mut().find(|(known, _)| *known == column) {
                *own = value;
            } else {
                let place = self.0.partition_point(|(known, _)| known.order <= column.order);
                self.0.insert(place, (column, value));
            }
        }
        self
    }

    /// Sets mean and percentiles.
    #[must_use]
    pub fn with_times(self, columns: TimeColumns, times: Option<Times>) -> Self {
        let Some(Times { mean, p50, p99 }) = times else { return self };
        columns.into_iter().zip([mean, p50, p99]).fold(self, |row, (column, time)| row.with(column, time))
    }

    /// Adds the values of the other row.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        other.0.iter().fold(self, |row, (column, value)| row.with(column, value.clone()))
    }

    /// The columns with a value.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> {
        self.0.iter().map(|(column, _)| *column)
    }

    /// The value in that column.
    pub fn get(&self, column: &Column) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == column).map(|(_, value)| value)
    }

    /// The number in that column.
    pub fn number(&self, column: &Column) -> Option<f64> {
        self.get(column)?.as_f64()
    }

    /// The text in that column.
    pub fn text(&self, column: &Column) -> Option<&str> {
        self.get(column)?.as_str()
    }

    /// The scenario; empty: it has none.
    pub fn scenario(&self) -> &str {
        self.text(column::SCENARIO).unwrap_or_default()
    }

    /// The variant; empty: it has none.
    pub fn variant(&self) -> &str {
        self.text(column::VARIANT).unwrap_or_default()
    }

    /// The number for plots: that in the column, or a substitute: payload by rate and size, CPU time of both sides
    /// together, or the number of devices.
    pub fn figure(&self, column: &Column) -> Option<f64> {
        column.drawn.map_or_else(|| self.number(column), |drawn| drawn(self))
    }

    /// The least and the greatest value of the repeats in that column; for a ratio its interval, if there is one.
    pub fn range(&self, column: &Column) -> Option<(f64, f64)> {
        column.range.map_or_else(|| self.stated_range(column), |range| range(self))
    }

    pub(crate) fn stated_range(&self, column: &Column) -> Option<(f64, f64)> {
        let range = self.get(column::RANGES)?.get(column.name)?;
        Some((range.get(0)?.as_f64()?, range.get(1)?.as_f64()?))
    }

    /// Reads the columns of [`column::ALL`] from a line of JSON and ignores other fields.
    ///
    /// # Errors
    /// It is not an object with a row's names, or a field has a value of another type.
    pub fn from_json_line(line: &str) -> Result<Self, RowError> {
        let object: Value = serde_json::from_str(line).map_err(|error| RowError::Json(error.to_string()))?;
        let mut row = Self::default();
        for column in column::ALL {
            let (name, part) = column.place();
            let own = object.get(name).and_then(|value| part.map_or(Some(value), |part| value.get(part)));
            match own.filter(|value| !value.is_null()) {
                Some(value) if !column.takes(value) => {
                    return Err(RowError::Value { name: column.name, value: value.clone() });
                }
                Some(value) => row = row.with(column, value.clone()),
                None if [column::SCENARIO, column::VARIANT].contains(&column) => {
                    return Err(RowError::Missing(column.name));
                }
                None => {}
            }
        }
        Ok(row)
    }
}

/// Parts of an object stand together.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for group in self.0.chunk_by(|(a, _), (b, _)| a.place().0 == b.place().0) {
            let name = group[0].0.place().0;
            match group {
                [(column, value)] if column.place().1.is_none() => map.serialize_entry(name, value)?,
                parts => {
                    let part = |(column, value): &(&Column, Value)| Some((column.place().1?.to_owned(), value.clone()));
                    map.serialize_entry(name, &parts.iter().filter_map(part).collect::<Map<_, _>>())?;
                }
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_stand_in_the_documented_order_and_the_missing_are_left_out() {
        let row = Row::new("crypto", "sidecore")
            .with(column::SPREAD, 0.02)
            .with(column::RATIO, f64::NAN)
            .with(column::CLIENT_CPU, 0.5)
            .with(column::SERVICE_CPU, 1.0)
            .with_times(column::TOTAL, Some(Times { mean: 1.5, p50: 1.0, p99: 4.0 }))
            .with(column::SIZE, 1024)
            .with(column::LIBRARY, None::<String>)
            .with(column::OP, "aes-256-gcm");
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(
            json,
            r#"{"scenario":"crypto","variant":"sidecore","op":"aes-256-gcm","size":1024,"#.to_owned()
                + r#""total_us":{"mean":1.5,"p50":1.0,"p99":4.0},"#
                + r#""cpu_us_per_op":{"client":0.5,"service":1.0},"spread":0.02}"#
        );
        assert_eq!(Row::from_json_line(&json), Ok(row));
    }

    #[test]
    fn unknown_fields_are_passed_over_and_broken_lines_refused() {
        let row = Row::from_json_line(r#"{"scenario":"lane","variant":"ring","colour":"red","clients":2}"#).unwrap();
        assert_eq!(row, Row::new("lane", "ring").with(column::CLIENTS, 2));
        for line in [r#"{"variant":"ring"}"#, "not json", r#"{"scenario":"lane","variant":"ring","clients":"two"}"#] {
            assert!(Row::from_json_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn ranges_are_of_columns_and_follow_what_is_computed_from_them() {
        let ranges = json!({ "ops_per_s": [5e5, 2e6], "ratio": [0.5, 1.5] });
        let row =
            Row::new("ocf", "a").with(column::OPS_PER_S, 1e6).with(column::SIZE, 1000).with(column::RANGES, ranges);
        assert_eq!(row.range(column::OPS_PER_S), Some((5e5, 2e6)));
        assert_eq!((row.range(column::MBIT_PER_S), row.range(column::TOTAL_P50)), (Some((4_000.0, 16_000.0)), None));
        assert_eq!(row.range(column::RATIO), Some((0.5, 1.5)));
        assert_eq!(
            row.with(column::RATIO_LOW, 0.9).with(column::RATIO_HIGH, 1.1).range(column::RATIO),
            Some((0.9, 1.1))
        );
    }

    #[test]
    fn throughput_follows_from_rate_and_size() {
        let row = Row::new("ocf", "a").with(column::OPS_PER_S, 1e6).with(column::SIZE, 1000);
        assert_eq!(row.figure(column::MBIT_PER_S), Some(8000.0));
        assert_eq!(row.with(column::MBIT_PER_S, 5.0).figure(column::MBIT_PER_S), Some(5.0));
        assert_eq!(Row::new("ocf", "a").figure(column::MBIT_PER_S), None);
    }
}
