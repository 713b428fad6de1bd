//! The tables of a plan: its own, and one for each variant.

use super::stop::Steps;
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::Settings;
use sidecore_sim::table::{self, Table};

/// Name of a plan's own table beside its variants.
pub(super) const OWN: &str = "as published";

/// A table with what it is a table of.
pub(super) struct Sheet {
    pub(super) variant: String,
    pub(super) table: Table,
}

/// The plan's own table and those of its variants.
pub(super) fn sheets(plan: &Plan, seed: u64) -> Result<Vec<Sheet>, String> {
    let shape = &plan.shape;
    let mut all: Vec<(String, Settings)> = vec![(OWN.to_owned(), plan.settings.clone())];
    for variant in &plan.variants {
        all.push((variant.name.clone(), plan.with(&variant.set).map_err(|error| error.to_string())?));
    }
    let each = shape.cases().len();
    let mut steps = Steps::new("sim", all.len() * each)?;
    let mut sheets = Vec::new();
    for (variant, settings) in all {
        let before = sheets.len() * each;
        let table = table::run(plan, &settings, shape, seed, &mut |done, _| steps.done(before + done));
        let table = table.map_err(|error| error.to_string())?;
        let stopped = table.stopped;
        sheets.push(Sheet { variant, table });
        if stopped {
            break;
        }
    }
    Ok(sheets)
}
