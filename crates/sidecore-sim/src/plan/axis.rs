//! What the rows or columns of a table go over.

use crate::settings::Settings;
use crate::system::{Metric, System};

/// The rows or the columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Metrics, by their numbers.
    Metrics(Vec<usize>),
    /// Values of a parameter.
    Parameter {
        /// Its full name.
        name: &'static str,
        /// Its values, as they are written.
        values: Vec<String>,
    },
}

/// What one row or column stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// A metric, by its number.
    Metric(usize),
    /// A value of this parameter.
    Setting(&'static str, String),
}

impl Axis {
    /// The axis of a published table whose heading cell says `name`: `metric`, or a parameter of these settings.
    pub(crate) fn named(
        name: &str,
        labels: &[String],
        system: &dyn System,
        settings: &Settings,
    ) -> Result<Self, String> {
        if name == "metric" {
            let metrics = labels.iter().map(|label| metric(system, label));
            return Ok(Self::Metrics(metrics.collect::<Result<_, _>>()?));
        }
        let name = settings.parameter(settings.find(name)?).name;
        Ok(Self::Parameter { name, values: labels.to_vec() })
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

    /// What its rows or columns stand for.
    pub fn labels(&self) -> Vec<Label> {
        match self {
            Self::Metrics(metrics) => metrics.iter().map(|metric| Label::Metric(*metric)).collect(),
            Self::Parameter { name, values } => {
                values.iter().map(|value| Label::Setting(name, value.clone())).collect()
            }
        }
    }

    /// What stands at the head of the axis.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Metrics(_) => "metric",
            Self::Parameter { name, .. } => name.rsplit('.').next().unwrap_or(name),
        }
    }
}

impl Label {
    /// The label in words.
    pub fn text(&self, system: &dyn System) -> String {
        match self {
            Self::Metric(metric) => system.metrics()[*metric].name.to_owned(),
            Self::Setting(_, value) => value.clone(),
        }
    }
}

/// Number of the metric of that name, or of the one whose name begins with it.
pub(crate) fn metric(system: &dyn System, name: &str) -> Result<usize, String> {
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
