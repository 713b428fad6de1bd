//! Rows and columns of a table.

use super::{Changes, Variant};
use crate::names::{UnknownName, unknown};
use crate::settings::{SettingError, Settings};
use crate::system::{Metric, System};

pub(crate) const CASE: &str = "case";

/// The shape of a table.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Rows.
    pub rows: Axis,
    /// Columns.
    pub columns: Axis,
    /// The metric in each cell, if no axis lists metrics.
    pub cell: Option<usize>,
}

impl Shape {
    /// The cases to run: each value of each axis over a parameter.
    pub fn cases(&self) -> Vec<Changes> {
        let (rows, columns) = (self.rows.cases(), self.columns.cases());
        rows.iter().flat_map(|row| columns.iter().map(|column| [&row[..], column].concat())).collect()
    }
}

/// The rows or the columns of a table: values of a parameter, cases, or metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Full name of the parameter, `case`, or `metric`.
    pub name: String,
    /// Values, as written, or names of cases or metrics.
    pub labels: Vec<String>,
    /// Numbers of the metrics; empty for other axes.
    pub metrics: Vec<usize>,
}

impl Axis {
    pub(crate) fn named(
        name: &str,
        labels: &[String],
        system: &System,
        (settings, cases): (&Settings, &[Variant]),
    ) -> Result<Self, SettingError> {
        if name == "metric" {
            let metrics: Vec<usize> = labels.iter().map(|label| metric(system, label)).collect::<Result<_, _>>()?;
            let labels = metrics.iter().map(|metric| system.metrics[*metric].name.to_owned()).collect();
            return Ok(Self { name: name.to_owned(), labels, metrics });
        }
        if name == CASE {
            let known = || cases.iter().map(|case| case.name.as_str());
            let other = labels.iter().find(|label| !known().any(|name| name == *label));
            other.map_or(Ok(()), |label| Err(unknown(CASE, label, known())))?;
            return Ok(Self { name: name.to_owned(), labels: labels.to_vec(), metrics: Vec::new() });
        }
        let name = settings.parameter(settings.find(name)?).name.clone();
        Ok(Self { name, labels: labels.to_vec(), metrics: Vec::new() })
    }

    fn cases(&self) -> Vec<Changes> {
        if self.is_metrics() {
            return vec![Changes::new()];
        }
        self.labels.iter().map(|value| vec![(self.name.clone(), value.clone())]).collect()
    }

    /// Whether it lists metrics.
    pub fn is_metrics(&self) -> bool {
        !self.metrics.is_empty()
    }

    pub(crate) fn is_parameter(&self) -> bool {
        !self.is_metrics() && self.name != CASE
    }

    /// Text at the head of the axis.
    pub fn title(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// Number of the metric with this name, or with a name that begins so.
pub(crate) fn metric(system: &System, name: &str) -> Result<usize, UnknownName> {
    let metrics = system.metrics;
    if let Some(index) = metrics.iter().position(|metric| metric.name.eq_ignore_ascii_case(name)) {
        return Ok(index);
    }
    let begins = |metric: &Metric| {
        let head = metric.name.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
        head && metric.name[name.len()..].starts_with('_')
    };
    let mut found = (0..metrics.len()).filter(|index| begins(&metrics[*index]));
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        _ => Err(unknown("metric", name, metrics.iter().map(|metric| metric.name))),
    }
}
