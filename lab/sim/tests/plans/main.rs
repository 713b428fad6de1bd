//! The plans of this project, compared with published measurements and with invariants.

mod choose;
mod lhcb;
mod zvm;

use sidecore_sim::plan::Plan;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn plan_of(name: &str, settings: &[&str]) -> Plan {
    let mut plan = Plan::read(&root().join(format!("plans/{name}.toml"))).unwrap();
    plan.set_all(settings).unwrap();
    plan
}

fn values_of<const N: usize>(plan: &Plan, metrics: [&str; N]) -> [f64; N] {
    let outcome = plan.system.run(&plan.settings, 1);
    metrics.map(|name| outcome.values[plan.system.metrics.iter().position(|known| known.name == name).unwrap()])
}
