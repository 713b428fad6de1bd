//! The tables of a plan as typed structs, by serde. Each entry is read by itself, so that all errors are found.

use super::errors::Errors;
use super::file::File;
use super::{MAX_AXIS, RangeError};
use crate::settings::Origin;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The entries of a plan's own, without those that cannot be read.
pub(super) struct Written {
    pub(super) system: Option<Spanned<String>>,
    pub(super) title: Option<String>,
    pub(super) about: Option<String>,
    pub(super) include: Vec<Spanned<String>>,
    pub(super) plot: Vec<Spanned<String>>,
    pub(super) table: Option<Spanned<Table>>,
    pub(super) variant: Vec<WrittenVariant>,
    pub(super) case: Vec<WrittenVariant>,
    pub(super) heading: Vec<WrittenHeading>,
    pub(super) choose: Option<Spanned<WrittenChoice>>,
}

impl Written {
    /// Takes the plan's own entries out of its root, and leaves the parts.
    pub(super) fn take(file: &File, root: &mut Spanned<DeTable<'_>>, errors: &mut Errors) -> Self {
        let line = file.line(root.span().start);
        let mut taking = Taking { file, root: root.get_mut(), line, errors };
        Self {
            system: taking.needed("system"),
            title: taking.needed("title"),
            about: taking.one("about"),
            include: taking.each("include"),
            plot: taking.each("plot"),
            table: taking.needed("table"),
            variant: taking.each("variant"),
            case: taking.each("case"),
            heading: taking.each("heading"),
            choose: taking.one("choose"),
        }
    }
}

struct Taking<'a, 'i> {
    file: &'a File,
    root: &'a mut DeTable<'i>,
    line: usize,
    errors: &'a mut Errors,
}

impl<'i> Taking<'_, 'i> {
    fn one<T: Deserialize<'i>>(&mut self, key: &str) -> Option<T> {
        let value = self.root.remove(key)?;
        self.errors.note(self.file.read(value, ""))
    }

    fn needed<T: Deserialize<'i>>(&mut self, key: &str) -> Option<T> {
        if !self.root.contains_key(key) {
            self.errors.push(self.file.error(Some(self.line), format!("has no `{key}`: add it")));
        }
        self.one(key)
    }

    fn each<T: Deserialize<'i>>(&mut self, key: &str) -> Vec<T> {
        let Some(value) = self.root.remove(key) else { return Vec::new() };
        let span = value.span();
        match value.into_inner() {
            DeValue::Array(values) => {
                values.into_iter().filter_map(|value| self.errors.note(self.file.read(value, ""))).collect()
            }
            other => self.errors.note(self.file.read(Spanned::new(span, other), "")).unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenChoice {
    pub(super) load: Spanned<String>,
    pub(super) latency: Spanned<String>,
    pub(super) rate: Spanned<String>,
    #[serde(default)]
    pub(super) over: BTreeMap<Spanned<String>, Spanned<Values>>,
    #[serde(default)]
    pub(super) cost: BTreeMap<String, f64>,
    pub(super) error: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) rows: Spanned<Over>,
    pub(super) columns: Spanned<Over>,
    pub(super) cell: Option<Spanned<String>>,
}

pub(super) type Over = BTreeMap<Spanned<String>, Spanned<Values>>;

#[derive(Deserialize)]
#[serde(untagged, expecting = "write a list, or { from = 1, to = 64, factor = 2 }")]
pub(super) enum Values {
    List(Vec<Scalar>),
    Range(Range),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) step: Option<f64>,
    pub(super) factor: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenVariant {
    pub(super) name: String,
    pub(super) set: Set,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenHeading {
    pub(super) says: Spanned<String>,
    pub(super) set: Set,
}

pub(super) type Set = BTreeMap<Spanned<String>, Spanned<Scalar>>;

#[derive(Deserialize)]
#[serde(untagged, expecting = "write a number or a text in quotes")]
pub(super) enum Scalar {
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Display for Scalar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => Display::fmt(number, f),
            Self::Number(number) => Display::fmt(number, f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Documented {
    pub(super) value: Spanned<Scalar>,
    pub(super) unit: Spanned<String>,
    pub(super) origin: Origin,
    pub(super) meaning: String,
}

impl Values {
    pub(super) fn labels(&self) -> Result<Vec<String>, RangeError> {
        match self {
            Self::List(list) => Ok(list.iter().map(Scalar::to_string).collect()),
            Self::Range(range) => range.labels(),
        }
    }
}

impl Range {
    fn labels(&self) -> Result<Vec<String>, RangeError> {
        let at = |i: f64| match (self.step, self.factor) {
            (Some(step), None) if step > 0.0 => Some(self.from + step * i),
            (None, Some(factor)) if factor > 1.0 && self.from > 0.0 => Some(self.from * factor.powf(i)),
            _ => None,
        };
        if at(0.0).is_none() {
            return Err(RangeError::Shape);
        }
        let all = (0..=MAX_AXIS).filter_map(|i| at(i as f64)).map(tidy).take_while(|value| *value <= self.to);
        let values: Vec<String> = all.map(|value| value.to_string()).collect();
        match values.len() {
            ..=MAX_AXIS => Ok(values),
            _ => Err(RangeError::TooMany),
        }
    }
}

/// Drops the last digits, which sums of steps get wrong.
fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

/// The values from `from` to `to`, as an axis has them.
///
/// # Errors
///
/// If the step is not above 0, or there are more than [`MAX_AXIS`] values.
pub fn range(from: f64, to: f64, step: f64) -> Result<Vec<String>, RangeError> {
    Range { from, to, step: Some(step), factor: None }.labels()
}
