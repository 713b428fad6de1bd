//! Plans: a system, the values of its parameters, and the table that is wanted of it.
//!
//! A plan is a TOML file. It names a system, includes parameter files, gives parameters in sections named by part, and
//! says what the rows and columns of its table are:
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
//! Where cases differ in several parameters, an axis goes over `[[case]]`s by their names: `rows = { case = ["small"] }`.
//! A name may be shortened to what follows its last point where that is unique.

mod axis;
mod read;

pub use axis::{Axis, Shape};
pub(crate) use axis::{CASE, metric};
pub(crate) use read::read_text;

use crate::settings::{Settings, Source};
use crate::system::System;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// Most cells that a plan's table may have.
pub const MAX_CELLS: usize = 4096;

/// Names of parameters and their values, as they are written.
pub type Changes = Vec<(String, String)>;

/// A plan that was read and checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its file.
    pub path: PathBuf,
    /// What it is about, in words.
    pub title: String,
    /// A paragraph about it; perhaps empty.
    pub about: String,
    /// The system.
    pub system: &'static System,
    /// Value of each parameter.
    pub settings: Settings,
    /// Its table.
    pub shape: Shape,
    /// Metrics that are drawn as bars, where an axis goes over metrics.
    pub plot: Vec<usize>,
    /// The same hardware with other software.
    pub variants: Vec<Variant>,
    /// What an axis over cases goes over.
    pub cases: Vec<Variant>,
    /// What headings of published tables mean in this plan.
    pub headings: Vec<Heading>,
    /// What may be chosen of it, if the plan says so.
    pub choice: Option<Choice>,
}

/// What may be chosen of a plan's system, and what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Full name of the parameter that is the load, requests a second.
    pub load: String,
    /// Number of the metric that is the 99th percentile of a request's time, us.
    pub latency: usize,
    /// Number of the metric that counts requests done in a second.
    pub rate: usize,
    /// Full names of parameters with the values that they may have.
    pub over: Vec<(String, Vec<String>)>,
    /// Names of parameters or metrics, and the price of one of each.
    pub cost: Vec<(String, f64)>,
    /// The worst error of what was predicted and is known, as a part of it, where some is known.
    pub error: Option<f64>,
}

/// Settings under a name: a second table of the plan, or a case along an axis.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Settings that differ.
    pub set: Changes,
}

/// Words in the heading of a published table, and the settings that they stand for.
#[derive(Clone, Debug)]
pub struct Heading {
    /// Words, compared without case. `{}` stands for a number.
    pub says: String,
    /// Settings; a value of `{}` is that number.
    pub set: Changes,
}

/// What stands for a number in a [`Heading`].
pub(crate) const NUMBER: &str = "{}";

impl Heading {
    /// The settings that a heading in lower case stands for; none if it does not say so.
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
    /// Sets each `name=value` as on the command line, and checks the plan that comes of them all.
    ///
    /// # Errors
    ///
    /// If there is no such parameter, the value is none for it or the plan becomes impossible.
    pub fn set_all<S: AsRef<str>>(&mut self, settings: &[S]) -> Result<(), PlanError> {
        for setting in settings.iter().map(AsRef::as_ref) {
            let wrong = |message: String| PlanError::of_setting(setting, &message);
            let (name, value) = setting.split_once('=').ok_or_else(|| wrong("write NAME=VALUE".to_owned()))?;
            self.settings.set(name.trim(), value.trim(), Source::CommandLine).map_err(wrong)?;
        }
        let all = settings.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" --set ");
        self.system.check(&self.settings).map_err(|wrong| PlanError::of_setting(&all, &wrong.message))
    }

    /// The full name of a parameter, which may be shortened to what follows its last point.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn full_name(&self, name: &str) -> Result<String, String> {
        self.settings.find(name).map(|index| self.settings.parameter(index).name.clone())
    }

    /// Full names of the parameters that the command line set: headings of published tables do not change these.
    pub fn set_by_hand(&self) -> Vec<&str> {
        let by_hand = self.settings.iter().filter(|(_, set)| matches!(set, Some((_, Source::CommandLine))));
        by_hand.map(|(known, _)| known.name.as_str()).collect()
    }

    /// Whether this text would be a value for the parameter of that full name.
    ///
    /// # Errors
    ///
    /// If it would not: what is accepted.
    pub fn accepts(&self, name: &str, text: &str) -> Result<(), String> {
        self.settings.accepts(name, text)
    }

    /// The settings of a variant.
    ///
    /// # Errors
    ///
    /// If one of them is wrong or they are impossible together.
    pub fn with(&self, set: &[(String, String)]) -> Result<Settings, PlanError> {
        let mut settings = self.settings.clone();
        for (name, value) in set {
            let wrong = |message: String| PlanError::of_setting(&format!("{name}={value}"), &message);
            settings.set(name, value, Source::Plan).map_err(wrong)?;
        }
        self.system.check(&settings).map_err(|wrong| PlanError::in_file(&self.path, None, &wrong.message))?;
        Ok(settings)
    }
}

/// What is wrong with a plan: where, what, and the remedy, in one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(String);

impl PlanError {
    pub(crate) fn in_file(path: &Path, line: Option<usize>, message: &str) -> Self {
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        Self(format!("{}{line}: {message}", path.display()))
    }

    fn of_setting(setting: &str, message: &str) -> Self {
        Self(format!("--set {setting}: {message}"))
    }
}

impl Display for PlanError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for PlanError {}
