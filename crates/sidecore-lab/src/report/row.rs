//! One row of results: the case, its settings, and its figures, as a map from columns to values.

use super::column::{COLUMNS, Key};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Mean and percentiles of a time, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Times {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// A row, by names in JSON. Missing values and numbers that are not finite are left out.
///
/// Example: `Row::new("crypto", "sidecore").with(Key::Op, "sha-256").with(Key::Size, 64)`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row(BTreeMap<&'static str, Value>);

impl Row {
    pub(crate) fn new(scenario: &str, variant: &str) -> Self {
        Self::default().with(Key::Scenario, scenario).with(Key::Variant, variant)
    }

    /// `None` leaves the row as it is.
    #[must_use]
    pub(crate) fn with(mut self, key: Key, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            let (name, part) = key.column().place();
            let own = self.0.entry(name).or_default();
            match part {
                Some(part) => own[part] = value,
                None => *own = value,
            }
        }
        self
    }

    /// Adds all percentiles next to the column `mean`.
    #[must_use]
    pub(crate) fn with_times(mut self, mean: Key, times: Option<Times>) -> Self {
        self.0.extend(times.map(|times| (mean.column().place().0, json!(times))));
        self
    }

    /// Adds the values of the other row.
    #[must_use]
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.0.extend(other.0.clone());
        self
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Value> {
        let (name, part) = key.column().place();
        let value = self.0.get(name)?;
        part.map_or(Some(value), |part| value.get(part))
    }

    pub(crate) fn number(&self, key: Key) -> Option<f64> {
        self.get(key)?.as_f64()
    }

    pub(crate) fn text(&self, key: Key) -> Option<&str> {
        self.get(key)?.as_str()
    }

    pub(crate) fn scenario(&self) -> &str {
        self.text(Key::Scenario).unwrap_or_default()
    }

    pub(crate) fn variant(&self) -> &str {
        self.text(Key::Variant).unwrap_or_default()
    }

    /// The number in that column or a substitute: payload by rate and size, CPU time of both sides together, or the
    /// number of devices.
    pub(crate) fn figure(&self, key: Key) -> Option<f64> {
        let payload = || Some(self.number(Key::OpsPerS)? * self.number(Key::Size)? * 8.0 / 1e6);
        match key {
            Key::MbitPerS => self.number(key).or_else(payload),
            Key::ClientCpu => Some(self.number(key)? + self.number(Key::ServiceCpu)?),
            Key::Devices => self.text(key)?.split(' ').next()?.parse().ok(),
            _ => self.number(key),
        }
    }

    /// The least and the greatest value of the repeats in that column; for a ratio its interval, if there is one.
    pub(crate) fn range(&self, key: Key) -> Option<(f64, f64)> {
        let of = |name: &str| {
            let range = self.get(Key::Ranges)?.get(name)?;
            Some((range.get(0)?.as_f64()?, range.get(1)?.as_f64()?))
        };
        match key {
            Key::Ratio => self.number(Key::RatioLow).zip(self.number(Key::RatioHigh)).or_else(|| of(key.column().name)),
            // Computed from the rate and size.
            Key::MbitPerS => {
                let each = self.figure(key)? / self.number(Key::OpsPerS)?;
                of(Key::OpsPerS.column().name).map(|(least, most)| (least * each, most * each))
            }
            _ => of(key.column().name),
        }
    }

    /// Reads a row from a line of JSON and ignores unknown fields.
    ///
    /// # Errors
    /// It is not an object with a row's names, or a field has a value of another type.
    pub(crate) fn from_json_line(line: &str) -> Result<Self, String> {
        let object: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let known = names().into_iter().filter_map(|name| Some((name, object.get(name)?.clone())));
        let row = Self(known.filter(|(_, value)| !value.is_null()).collect());
        for column in &COLUMNS {
            match row.get(column.key) {
                Some(value) if !column.takes(value) => return Err(format!("{} is {value}", column.name)),
                None if [Key::Scenario, Key::Variant].contains(&column.key) => {
                    return Err(format!("it has no {}", column.name));
                }
                _ => {}
            }
        }
        Ok(row)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(names().into_iter().filter_map(|name| Some((name, self.0.get(name)?))))
    }
}

/// The names in JSON, in the order of the columns.
fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = COLUMNS.iter().map(|column| column.place().0).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_the_documented_order_and_the_missing_are_left_out() {
        let row = Row::new("crypto", "sidecore")
            .with(Key::Spread, 0.02)
            .with(Key::Ratio, f64::NAN)
            .with(Key::ClientCpu, 0.5)
            .with(Key::ServiceCpu, 1.0)
            .with_times(Key::TotalMean, Some(Times { mean: 1.5, p50: 1.0, p99: 4.0 }))
            .with(Key::Size, 1024)
            .with(Key::Library, None::<String>)
            .with(Key::Op, "aes-256-gcm");
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
        assert_eq!(row, Row::new("lane", "ring").with(Key::Clients, 2));
        for line in [r#"{"variant":"ring"}"#, "not json", r#"{"scenario":"lane","variant":"ring","clients":"two"}"#] {
            assert!(Row::from_json_line(line).is_err(), "{line}");
        }
    }

    #[test]
    fn ranges_are_of_columns_and_follow_what_is_computed_from_them() {
        let ranges = json!({ "ops_per_s": [5e5, 2e6], "ratio": [0.5, 1.5] });
        let row = Row::new("ocf", "a").with(Key::OpsPerS, 1e6).with(Key::Size, 1000).with(Key::Ranges, ranges);
        assert_eq!(row.range(Key::OpsPerS), Some((5e5, 2e6)));
        assert_eq!((row.range(Key::MbitPerS), row.range(Key::TotalP50)), (Some((4_000.0, 16_000.0)), None));
        assert_eq!(row.range(Key::Ratio), Some((0.5, 1.5)));
        assert_eq!(row.with(Key::RatioLow, 0.9).with(Key::RatioHigh, 1.1).range(Key::Ratio), Some((0.9, 1.1)));
    }

    #[test]
    fn throughput_follows_from_rate_and_size() {
        let row = Row::new("ocf", "a").with(Key::OpsPerS, 1e6).with(Key::Size, 1000);
        assert_eq!(row.figure(Key::MbitPerS), Some(8000.0));
        assert_eq!(row.with(Key::MbitPerS, 5.0).figure(Key::MbitPerS), Some(5.0));
        assert_eq!(Row::new("ocf", "a").figure(Key::MbitPerS), None);
    }
}
