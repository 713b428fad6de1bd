//! `cargo xtask faults`: core under random schedules with faults, as tests of the simulator's crate.

use std::path::Path;

use crate::Result;
use crate::built::cargo;

pub(crate) const VARIABLE: &str = "SIDECORE_FAULT_SEEDS";

/// Runs the test program. `false`: an invariant was broken, or a deliberate defect was not found.
pub(crate) fn run(root: &Path, seeds: Option<&str>) -> Result<bool> {
    let mut command = cargo(root);
    command.args(["test", "-p", "sidecore-sim", "--test", "faults", "--", "--show-output"]);
    if let Some(seeds) = seeds {
        if !seeds.parse().is_ok_and(|seeds: u64| seeds > 0) {
            return Err(format!("--seeds {seeds}: write a whole number from 1 on").into());
        }
        command.env(VARIABLE, seeds);
    }
    Ok(command.status()?.success())
}
