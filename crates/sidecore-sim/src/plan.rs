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
//! says = "one thread each"
//! set = { "client.threads" = 1 }
//! ```
//!
//! A name may be shortened to what follows its last point where that is unique.

mod axis;
mod error;
mod read;
mod settings;

pub use axis::{Axis, Label};
pub use error::PlanError;
pub(crate) use read::read_text;
pub use settings::{Kind, Origin, Parameter, Settings, Source, Value};

use crate::system::System;
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
    pub system: &'static dyn System,
    /// Value of each parameter.
    pub settings: Settings,
    /// Rows of its table.
    pub rows: Axis,
    /// Columns of its table.
    pub columns: Axis,
    /// The metric in each cell, where no axis goes over metrics.
    pub cell: Option<usize>,
    /// Metrics that are drawn as bars, where an axis goes over metrics.
    pub plot: Vec<usize>,
    /// The same hardware with other software.
    pub variants: Vec<Variant>,
    /// What headings of published tables mean in this plan.
    pub headings: Vec<Heading>,
}

/// A second table of the plan.
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
    /// Words, compared without case.
    pub says: String,
    /// Settings.
    pub set: Changes,
}

impl Plan {
    /// Reads a plan and everything that it includes, and checks that it can be run.
    ///
    /// # Errors
    ///
    /// With file, line and remedy, if it cannot be read, names something unknown, has a wrong unit or is impossible.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        read::read(path)
    }

    /// Understands the text of a plan that stands, or would stand, at that path.
    ///
    /// # Errors
    ///
    /// As [`Plan::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, PlanError> {
        read::parse(path, text)
    }

    /// Sets `name=value` as on the command line.
    ///
    /// # Errors
    ///
    /// If there is no such parameter, the value is none for it or the plan becomes impossible.
    pub fn set(&mut self, setting: &str) -> Result<(), PlanError> {
        let wrong = |message: String| PlanError::of_setting(setting, &message);
        let (name, value) = setting.split_once('=').ok_or_else(|| wrong("write NAME=VALUE".to_owned()))?;
        self.settings.set(name.trim(), value.trim(), Source::CommandLine).map_err(&wrong)?;
        self.check(&self.settings).map_err(wrong)
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
        self.check(&settings).map_err(|message| PlanError::in_file(&self.path, None, &message))?;
        Ok(settings)
    }

    /// Whether the system can be built so.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), String> {
        self.system.check(settings).map_err(|wrong| format!("{}: {}", wrong.parameter, wrong.message))
    }
}
