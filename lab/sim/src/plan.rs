//! Plans: a system, the values of its parameters, and the table to compute.
//!
//! A plan is a TOML file. It names a system, includes parameter files, sets parameters in sections named by part, and
//! defines the rows and columns of its table:
//!
//! ```toml
//! system = "ocf"
//! title = "Four cards on one bus"
//! include = ["parameters/host.toml"]
//!
//! [card]
//! per_byte_ns = { value = 96.4, unit = "ns/B", origin = "datasheet", meaning = "time of one byte on a card" }
//!
//! [table]
//! cell = "mbit_per_s"
//! rows = { "client.threads" = [1, 2, 32] }
//! columns = { "client.size" = { from = 16, to = 16384, factor = 4 } }
//!
//! [[variant]]
//! name = "balanced by eft"
//! set = { "service.balance" = "eft" }
//!
//! [[heading]]
//! says = "{} threads each"
//! set = { "client.threads" = "{}" }
//! ```
//!
//! For cases that differ in several parameters, an axis lists `[[case]]`s by name: `rows = { case = ["small"] }`. A
//! name may be shortened to the part after its last dot, if that is unique.

mod axis;
mod errors;
mod file;
mod read;
mod written;

pub use axis::{Axis, Shape};
pub(crate) use axis::{CASE, metric};
pub(crate) use file::read_text;
pub use written::range;

use crate::settings::{SettingError, Settings, Source};
use crate::system::System;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Limit of cells in a plan's table.
pub const MAX_CELLS: usize = 4096;
/// Limit of values of an axis or a range.
pub const MAX_AXIS: usize = 1024;

/// Names of parameters and their values, as written.
pub type Changes = Vec<(String, String)>;

/// A plan that was read and checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its file.
    pub path: PathBuf,
    /// Its subject, in words.
    pub title: String,
    /// A paragraph of description, possibly empty.
    pub about: String,
    /// The system.
    pub system: &'static System,
    /// Value of each parameter.
    pub settings: Settings,
    /// Its table.
    pub shape: Shape,
    /// Metrics drawn as bars, if an axis lists metrics.
    pub plot: Vec<usize>,
    /// The same hardware with other software.
    pub variants: Vec<Variant>,
    /// The cases for axes over cases.
    pub cases: Vec<Variant>,
    /// The settings for headings of published tables.
    pub headings: Vec<Heading>,
    /// The choices of the plan, if any.
    pub choice: Option<Choice>,
}

/// Choices for a plan's system, and their costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Full name of the parameter for the load, which has its unit.
    pub load: String,
    /// Number of the metric to bound, in most plans the 99th percentile of a request's time.
    pub latency: usize,
    /// Number of the metric for the carried load, in most plans requests completed per second.
    pub rate: usize,
    /// Full names of parameters with their possible values.
    pub over: Vec<(String, Vec<String>)>,
    /// Names of parameters or metrics, with the price of one unit.
    pub cost: Vec<(String, f64)>,
    /// The worst relative error of known predictions, if any is known.
    pub error: Option<f64>,
}

/// Named settings: a second table of the plan, or a case along an axis.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Settings that differ.
    pub set: Changes,
}

/// Words in the heading of a published table, and the corresponding settings.
#[derive(Clone, Debug)]
pub struct Heading {
    /// Words, compared without case. `{}` stands for a number.
    pub says: String,
    /// Settings; a value of `{}` is that number.
    pub set: Changes,
}

pub(crate) const NUMBER: &str = "{}";

impl Heading {
    pub(crate) fn found_in(&self, heading: &str) -> Changes {
        let says = self.says.to_lowercase();
        let Some((before, after)) = says.split_once(NUMBER) else {
            return if heading.contains(&says) { self.set.clone() } else { Changes::new() };
        };
        let number = heading.match_indices(before).find_map(|(at, _)| {
            let rest = &heading[at + before.len()..];
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            (end > 0 && rest[end..].starts_with(after)).then(|| &rest[..end])
        });
        let Some(number) = number else { return Changes::new() };
        let value = |value: &String| if value == NUMBER { number.to_owned() } else { value.clone() };
        self.set.iter().map(|(name, given)| (name.clone(), value(given))).collect()
    }
}

impl Plan {
    /// Sets each `name=value` as on the command line, and checks the resulting plan.
    ///
    /// # Errors
    ///
    /// If a parameter does not exist, a value is invalid for it, or the plan becomes impossible.
    pub fn set_all<S: AsRef<str>>(&mut self, settings: &[S]) -> Result<(), PlanError> {
        for setting in settings.iter().map(AsRef::as_ref) {
            let missing = || PlanError::of_setting(setting, "write NAME=VALUE");
            let (name, value) = setting.split_once('=').ok_or_else(missing)?;
            let set = self.settings.set(name.trim(), value.trim(), Source::CommandLine);
            set.map_err(|error| PlanError::of_setting(setting, error))?;
        }
        let all = settings.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" --set ");
        self.system.check(&self.settings).map_err(|wrong| PlanError::of_setting(&all, wrong.message))
    }

    /// The full name of a parameter, which may be shortened to the part after its last dot.
    ///
    /// # Errors
    ///
    /// If no parameter has this name.
    pub fn full_name(&self, name: &str) -> Result<String, SettingError> {
        self.settings.find(name).map(|index| self.settings.parameter(index).name.clone())
    }

    /// Full names of the parameters set by the command line: headings of published tables do not change these.
    pub fn set_by_hand(&self) -> Vec<&str> {
        let by_hand = self.settings.iter().filter(|(_, set)| matches!(set, Some((_, Source::CommandLine))));
        by_hand.map(|(known, _)| known.name.as_str()).collect()
    }

    /// Checks that this text is a value for the parameter with this full name.
    ///
    /// # Errors
    ///
    /// If it is not: a text with the accepted values.
    pub fn accepts(&self, name: &str, text: &str) -> Result<(), SettingError> {
        self.settings.accepts(name, text)
    }

    /// The settings of a variant.
    ///
    /// # Errors
    ///
    /// If one of them is wrong, or their combination is impossible.
    pub fn with(&self, set: &[(String, String)]) -> Result<Settings, PlanError> {
        let mut settings = self.settings.clone();
        for (name, value) in set {
            let wrong = |error| PlanError::of_setting(&format!("{name}={value}"), error);
            settings.set(name, value, Source::Plan).map_err(wrong)?;
        }
        self.system.check(&settings).map_err(|wrong| PlanError::in_file(&self.path, None, wrong.message))?;
        Ok(settings)
    }
}

/// A range that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// It does not end.
    #[error("a range has either a `step` above 0 or a `factor` above 1 and `from` above 0")]
    Shape,
    /// It has more than [`MAX_AXIS`] values.
    #[error("the range has more than {MAX_AXIS} values: widen its step")]
    TooMany,
}

/// An error in a plan: place, error and remedy, in one line for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// At a place in a file.
    #[error("{}{}: {message}", .path.display(), .line.map_or(String::new(), |line| format!(":{line}")))]
    File {
        /// The plan, an included file or a published table.
        path: PathBuf,
        /// The line, from 1 on, if one is known.
        line: Option<usize>,
        /// Error and remedy.
        message: String,
    },
    /// In settings from the command line or of a variant.
    #[error("--set {setting}: {message}")]
    Setting {
        /// `name=value`.
        setting: String,
        /// Error and remedy.
        message: String,
    },
    /// Several errors, one a line.
    #[error("{}{}", lines(.first), if *.more > 0 { format!("\nand {} more errors", .more) } else { String::new() })]
    Several {
        /// The first ones.
        first: Vec<Self>,
        /// Number of the others.
        more: usize,
    },
}

fn lines(errors: &[PlanError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl PlanError {
    pub(crate) fn in_file(path: &Path, line: Option<usize>, message: impl Display) -> Self {
        Self::File { path: path.to_owned(), line, message: message.to_string() }
    }

    fn of_setting(setting: &str, message: impl Display) -> Self {
        Self::Setting { setting: setting.to_owned(), message: message.to_string() }
    }
}
