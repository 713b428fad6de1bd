//! What is wrong with a plan: where, what, and the remedy.

use std::error::Error;
use std::fmt;
use std::path::Path;

/// One line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(String);

impl PlanError {
    pub(crate) fn in_file(path: &Path, line: Option<usize>, message: &str) -> Self {
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        Self(format!("{}{line}: {message}", path.display()))
    }

    pub(crate) fn of_setting(setting: &str, message: &str) -> Self {
        Self(format!("--set {setting}: {message}"))
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for PlanError {}
