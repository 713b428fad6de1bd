//! What the rows or columns of a table go over.

use super::Changes;
use crate::settings::Settings;
use crate::system::{Metric, System};

/// What a table goes over and shows.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Rows.
    pub rows: Axis,
    /// Columns.
    pub columns: Axis,
    /// The metric in each cell, where no axis goes over metrics.
    pub cell: Option<usize>,
}

impl Shape {
    /// The cases that must be run: each value of each axis that is a parameter.
    pub(crate) fn cases(&self) -> Vec<Changes> {
        let (rows, columns) = (self.rows.cases(), self.columns.cases());
        rows.iter().flat_map(|row| columns.iter().map(|column| [&row[..], column].concat())).collect()
    }
}

/// The rows or the columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Metrics, by their numbers.
    Metrics(Vec<usize>),
    /// Values of a parameter.
    Parameter {
        /// Its full name.
        name: String,
        /// Its values, as they are written.
        values: Vec<String>,
    },
}

impl Axis {
    /// The axis of a published table whose heading cell says `name`: `metric`, or a parameter of these settings.
    pub(crate) fn named(name: &str, labels: &[String], system: &System, settings: &Settings) -> Result<Self, String> {
        if name == "metric" {
            let metrics = labels.iter().map(|label| metric(system, label));
            return Ok(Self::Metrics(metrics.collect::<Result<_, _>>()?));
        }
        let name = settings.parameter(settings.find(name)?).name.clone();
        Ok(Self::Parameter { name, values: labels.to_vec() })
    }

    /// The settings along it; over metrics there is one case without any.
    fn cases(&self) -> Vec<Changes> {
        match self {
            Self::Metrics(_) => vec![Changes::new()],
            Self::Parameter { name, values } => {
                values.iter().map(|value| vec![(name.clone(), value.clone())]).collect()
            }
        }
    }

    /// Whether it goes over metrics.
    pub fn is_metrics(&self) -> bool {
        matches!(self, Self::Metrics(_))
    }

    /// Rows or columns.
    pub fn len(&self) -> usize {
        match self {
            Self::Metrics(metrics) => metrics.len(),
            Self::Parameter { values, .. } => values.len(),
        }
    }

    /// Whether it has no row or column.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its rows or columns in words.
    pub fn labels(&self, system: &System) -> Vec<String> {
        match self {
            Self::Metrics(metrics) => metrics.iter().map(|metric| system.metrics()[*metric].name.to_owned()).collect(),
            Self::Parameter { values, .. } => values.clone(),
        }
    }

    /// What stands at the head of the axis.
    pub fn title(&self) -> &str {
        match self {
            Self::Metrics(_) => "metric",
            Self::Parameter { name, .. } => name.rsplit('.').next().unwrap_or(name),
        }
    }
}

/// Number of the metric of that name, or of the one whose name begins with it.
pub(crate) fn metric(system: &System, name: &str) -> Result<usize, String> {
    let metrics = system.metrics();
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
        _ => Err(crate::names::unknown("metric", name, metrics.iter().map(|metric| metric.name))),
    }
}
