//! Systems: parts put together, with their software.

mod farm;
mod lane;
mod lhcb;
mod ocf;
mod pool;
mod zvm;

use crate::estimate::{Effort, Estimate, estimate, estimate_while};
use crate::names;
use crate::outcome::Outcome;
use crate::settings::{Parameter, Settings};
pub use lane::PARTS;
use serde::de::DeserializeOwned;
use serde::de::value::Error;
use sidecore_core::time::Nanos;
use std::collections::BTreeSet;

/// A modelled system. It has no state: a run depends only on its settings and its seed.
#[derive(Debug)]
pub struct System {
    /// Name in plans.
    pub name: &'static str,
    /// Metrics of a run, in the order of [`Outcome::values`].
    pub metrics: &'static [Metric],
    /// Parts within that the plan names its own.
    pub(crate) open_parts: &'static [&'static str],
    /// Of a plan with these parts.
    parameters: fn(&BTreeSet<String>) -> Vec<Parameter>,
    settings: fn(Vec<Parameter>) -> Settings,
    model: fn(&Settings) -> Result<Box<dyn Model>, Error>,
}

/// Whether a rule is broken, the parameter to change, and a text with error and remedy.
type Rule = (bool, &'static str, String);

pub(crate) trait Model {
    fn rules(&self) -> Vec<Rule> {
        Vec::new()
    }

    /// All contradictions of the settings.
    fn broken(&self) -> Vec<Impossible> {
        let rules = self.rules().into_iter().filter(|(is_broken, ..)| *is_broken);
        let impossible = |(_, parameter, why): Rule| Impossible {
            parameter: parameter.to_owned(),
            message: format!("{parameter}: {why}"),
        };
        rules.map(impossible).collect()
    }

    fn run(&self, seed: u64) -> Outcome;

    /// Reason to doubt its results, in one line.
    fn note(&self) -> Option<String> {
        None
    }
}

impl System {
    const fn new<M: Model + DeserializeOwned + 'static>(name: &'static str, metrics: &'static [Metric]) -> Self {
        let settings = |parameters| Settings::new(parameters, |settings| settings.read::<M>().map(drop));
        let model = |settings: &Settings| Ok(Box::new(settings.read::<M>()?) as Box<dyn Model>);
        Self { name, metrics, open_parts: &[], parameters: |_| Parameter::all_of::<M>(), settings, model }
    }

    /// A system whose parts the plan names.
    const fn pool() -> Self {
        let model = |settings: &Settings| Ok(Box::new(pool::Pool::read(settings)) as Box<dyn Model>);
        let (parameters, settings) = (pool::parameters, pool::settings);
        Self { name: "pool", metrics: pool::METRICS, open_parts: &["device", "work"], parameters, settings, model }
    }

    /// All of its parameters, in a plan with these parts. Only `pool` has parts that the plan names.
    pub fn parameters(&self, parts: &BTreeSet<String>) -> Vec<Parameter> {
        (self.parameters)(parts)
    }

    /// Its settings, with none set, in a plan with these parts.
    pub fn settings(&self, parts: &BTreeSet<String>) -> Settings {
        (self.settings)(self.parameters(parts))
    }

    pub(crate) fn check(&self, settings: &Settings) -> Result<(), Impossible> {
        self.broken(settings).into_iter().next().map_or(Ok(()), Err)
    }

    pub(crate) fn broken(&self, settings: &Settings) -> Vec<Impossible> {
        (self.model)(settings).expect("settings hold values only").broken()
    }

    /// Reason to doubt results of these settings, in one line.
    ///
    /// # Panics
    ///
    /// If the settings belong to another system.
    pub fn note(&self, settings: &Settings) -> Option<String> {
        (self.model)(settings).expect("settings hold values only").note()
    }

    /// Runs once.
    ///
    /// # Panics
    ///
    /// If the settings belong to another system.
    pub fn run(&self, settings: &Settings, seed: u64) -> Outcome {
        (self.model)(settings).expect("settings hold values only").run(seed)
    }

    /// Runs until these metrics, by number, are sure. Returns the means, and an estimate for each metric.
    ///
    /// # Panics
    ///
    /// If the settings belong to another system.
    pub fn estimate(&self, settings: &Settings, wanted: &[usize], effort: &Effort) -> (Outcome, Vec<Estimate>) {
        let model = (self.model)(settings).expect("settings hold values only");
        estimate(|seed| model.run(seed), wanted, effort)
    }

    /// As [`System::estimate`], for as long as `go_on` says so, which is called between two runs.
    pub(crate) fn estimate_while(
        &self,
        settings: &Settings,
        wanted: &[usize],
        effort: &Effort,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<(Outcome, Vec<Estimate>)> {
        let model = (self.model)(settings).expect("settings hold values only");
        estimate_while(|seed| model.run(seed), wanted, effort, go_on)
    }
}

/// A result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in tables.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Its meaning, in words.
    pub meaning: &'static str,
}

const fn metric(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit, meaning }
}

/// Settings that contradict each other or physics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The parameter that must change.
    pub parameter: String,
    /// Its name, the error, and the remedy.
    pub message: String,
}

fn percentile(times: &mut [Nanos], part: f64) -> f64 {
    times.sort_unstable();
    times.get((times.len() as f64 * part) as usize).map_or(f64::NAN, |time| *time as f64)
}

fn fullest<'a>(parts: &[(&'a str, f64)]) -> (&'a str, f64) {
    parts.iter().fold(parts[0], |most, part| if part.1 > most.1 { *part } else { most })
}

/// All systems.
pub static ALL: [System; 6] = [
    System::pool(),
    System::new::<lane::LaneModel>("machine", lane::METRICS),
    System::new::<ocf::Ocf>("ocf", ocf::METRICS),
    System::new::<zvm::Zvm>("zvm", zvm::METRICS),
    System::new::<lhcb::Lhcb>("pair", lhcb::METRICS),
    System::new::<farm::Farm>("farm", farm::METRICS),
];

const REMOVED: [(&str, &str); 3] = [
    ("nic", "measured by sidecore net link"),
    ("streams", "measured by sidecore bench sockets"),
    ("queue", "a device of the system `pool` is one"),
];

pub(crate) fn unknown(name: &str) -> String {
    match REMOVED.iter().find(|(removed, _)| *removed == name) {
        Some((_, instead)) => format!("there is no system `{name}` any more: {instead}"),
        None => names::unknown("system", name, ALL.iter().map(|system| system.name)).to_string(),
    }
}

/// The system of that name.
pub fn find(name: &str) -> Option<&'static System> {
    ALL.iter().find(|system| system.name == name)
}
