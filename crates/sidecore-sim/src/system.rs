//! Systems: parts put together, with the software that runs on them.

mod machine;
mod nic;
mod ocf;
mod queue;
mod zvm;

use crate::settings::{Parameter, Settings};
use std::fmt::Debug;

/// A modelled system. It has no state: everything about a run is in its settings and its seed.
pub trait System: Debug + Sync {
    /// Name in plans.
    fn name(&self) -> &'static str;

    /// Everything about it that can be set.
    fn parameters(&self) -> &'static [Parameter];

    /// What a run of it yields, in the order of [`Outcome::values`].
    fn metrics(&self) -> &'static [Metric];

    /// Whether these settings can be built, before any run.
    ///
    /// # Errors
    ///
    /// What cannot be, by the parameter that must change.
    fn check(&self, settings: &Settings) -> Result<(), Impossible>;

    /// One run. The settings were checked.
    fn run(&self, settings: &Settings, seed: u64) -> Outcome;
}

/// Something that a run yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in tables.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// What it is, in words.
    pub meaning: &'static str,
}

/// Settings that contradict each other or physics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The parameter that must change.
    pub parameter: &'static str,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// One value for each metric; not a number where nothing was measured.
    pub values: Vec<f64>,
    /// The part that limited it, with its utilisation: `cpu 98 %`.
    pub limit: String,
    /// Events handled.
    pub events: u64,
    /// Hash of the run.
    pub trace: u64,
}

/// All systems.
pub const ALL: [&dyn System; 5] = [&queue::Queue, &machine::Machine, &ocf::Ocf, &zvm::Zvm, &nic::NetworkInterface];

/// The system of that name.
pub fn find(name: &str) -> Option<&'static dyn System> {
    ALL.into_iter().find(|system| system.name() == name)
}
