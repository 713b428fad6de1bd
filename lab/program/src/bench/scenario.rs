//! Description of a scenario for the command line and for runs; settings of a run.

use super::error::BenchError;
use crate::report::{Outcome, Section};
use sidecore_measure::progress::Progress;
use std::path::PathBuf;

pub(super) const WAITS: &str = "it changes how its service waits";
pub(super) const DEVICES: &str = "it gives its service devices and changes their balance";
pub(super) const SERVICES: &str = "it places services of its own on cores";
pub(super) const NO_SERVICE: &str = "it is not about a service of keys";

type Measure = fn(&Settings, &Progress) -> Result<Outcome, BenchError>;

#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) word: &'static str,
    pub(super) about: &'static str,
    pub(super) is_default: bool,
    pub(super) measure: Measure,
    /// Names that `--op` accepts; empty: the scenario is always measured as a whole.
    pub(super) ops: fn() -> Vec<&'static str>,
    pub(super) alone: Option<&'static str>,
    pub(super) sections: &'static [Section],
}

impl Scenario {
    /// Outside the default scenarios; measured as a whole.
    pub(super) const fn new(
        word: &'static str,
        about: &'static str,
        measure: Measure,
        sections: &'static [Section],
    ) -> Self {
        Self { word, about, is_default: false, measure, ops: Vec::new, alone: None, sections }
    }

    pub(super) const fn by_default(self) -> Self {
        Self { is_default: true, ..self }
    }

    pub(super) const fn ops(self, ops: fn() -> Vec<&'static str>) -> Self {
        Self { ops, ..self }
    }

    pub(super) const fn alone(self, why: &'static str) -> Self {
        Self { alone: Some(why), ..self }
    }

    /// The settings with those named operations that the scenario has. `None`: none of them is one of its operations.
    pub(super) fn settings(&self, all: &Settings) -> Option<Settings> {
        let known = (self.ops)();
        let ops: Vec<_> = all.ops.iter().filter(|op| known.contains(&op.as_str())).cloned().collect();
        let is_left_out = !all.ops.is_empty() && !known.is_empty() && ops.is_empty();
        (!is_left_out).then(|| Settings { ops, ..all.clone() })
    }
}

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) quick: bool,
    pub(super) seed: u64,
    pub(super) ops: Vec<String>,
    pub(super) check: bool,
    pub(super) mix: bool,
    pub(super) socket: Option<PathBuf>,
}

impl Settings {
    #[cfg(test)]
    pub(super) fn short() -> Self {
        Self { quick: true, seed: 1, ops: Vec::new(), check: false, mix: false, socket: None }
    }

    pub(super) fn wants(&self, op: &str) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|named| named == op)
    }

    pub(super) fn pick<T>(&self, quick: T, long: T) -> T {
        if self.quick { quick } else { long }
    }
}
