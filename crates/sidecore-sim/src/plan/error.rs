//! What is wrong with a plan: where, what, and the remedy.

use std::error::Error;
use std::fmt;
use std::path::Path;

/// A name nearer than this is suggested (Jaro and Winkler's measure, 0 to 1).
const NEAR: f64 = 0.7;

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

/// `name` is none of those: says so, with the nearest one.
pub(crate) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.collect();
    known.dedup();
    let short = |candidate: &'a str| candidate.rsplit('.').next().unwrap_or(candidate);
    let near =
        |candidate: &'a str| strsim::jaro_winkler(candidate, name).max(strsim::jaro_winkler(short(candidate), name));
    let nearest = known.iter().max_by(|a, b| near(a).total_cmp(&near(b))).filter(|nearest| near(nearest) > NEAR);
    match nearest {
        Some(nearest) => format!("unknown {what} `{name}`; did you mean `{nearest}`?"),
        None => format!("unknown {what} `{name}`; there are {}", known.join(", ")),
    }
}
