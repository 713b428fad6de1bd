//! Parameters and metrics of a plan or a system.

use super::tables;
use crate::args::Explain;
use crate::error::LabError;
use crate::report::Grid;
use sidecore_measure::export::print;
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::Source;
use sidecore_sim::system::{self, System};
use std::collections::BTreeSet;

/// Stand for the names of a plan.
const PARTS: [&str; 3] = ["work.NAME", "device.KIND", "device.KIND.NAME"];

pub(super) fn run(args: &Explain) -> Result<bool, LabError> {
    let word = args.plan.to_str().filter(|word| !args.plan.exists() && !word.contains(['.', '/']));
    let mut grids = match (word.and_then(system::find), word) {
        (Some(system), _) if args.set.is_empty() => of_system(system),
        (Some(_), _) => return Err(LabError::usage("--set needs a plan: a system has defaults only")),
        (None, Some(word)) => {
            let known: Vec<&str> = system::ALL.iter().map(|system| system.name).collect();
            let message = format!("{word} is neither a file nor a system: systems are {}", known.join(", "));
            return Err(LabError::Usage(message));
        }
        (None, None) => of_plan(&tables::read(std::slice::from_ref(&args.plan), &args.set)?[0]),
    };
    if let Some(name) = &args.name {
        for grid in &mut grids {
            grid.rows.retain(|row| is_named(&row[0], name));
        }
        grids.retain(|grid| !grid.rows.is_empty());
        if grids.is_empty() {
            let place = args.plan.display();
            let message = format!("{place} has no `{name}`: sidecore sim explain {place} lists what it has");
            return Err(LabError::Usage(message));
        }
    }
    let text: String = grids.iter().map(|grid| grid.to_text() + "\n").collect();
    Ok(print(&text).map(|()| true)?)
}

/// A full name, its last part, or a part that contains it.
fn is_named(full: &str, name: &str) -> bool {
    let within = full.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    within || full.rsplit('.').next() == Some(name)
}

fn of_plan(plan: &Plan) -> Vec<Grid> {
    let mut grid = Grid::new(&plan.title, &["parameter", "value", "unit", "origin", "meaning"]);
    for (parameter, value) in plan.settings.iter() {
        let Some((value, source)) = value else { continue };
        let (origin, meaning) = match source {
            Source::Documented(origin, meaning) => (origin.to_string(), meaning.clone()),
            Source::Default => ("default".to_owned(), parameter.meaning.to_owned()),
            Source::Plan => ("plan".to_owned(), parameter.meaning.to_owned()),
            Source::CommandLine => ("command line".to_owned(), parameter.meaning.to_owned()),
        };
        grid.push([parameter.name.clone(), value.clone(), parameter.unit.to_owned(), origin, meaning]);
    }
    vec![grid, metrics(plan.system)]
}

fn of_system(system: &System) -> Vec<Grid> {
    let parts: BTreeSet<String> = PARTS.map(str::to_owned).into();
    let title = format!("{}: NAME and KIND stand for names of the plan's own", system.name);
    let title = if system.name == "pool" { title } else { system.name.to_owned() };
    let mut grid = Grid::new(title, &["parameter", "default", "unit", "meaning"]);
    for parameter in system.parameters(&parts) {
        let default = parameter.default.unwrap_or("none: the plan has it").to_owned();
        grid.push([parameter.name, default, parameter.unit.to_owned(), parameter.meaning.to_owned()]);
    }
    vec![grid, metrics(system)]
}

fn metrics(system: &System) -> Grid {
    let mut grid = Grid::new(format!("Metrics of {}", system.name), &["metric", "unit", "meaning"]);
    for metric in system.metrics {
        grid.push([metric.name, metric.unit, metric.meaning].map(str::to_owned));
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_full_or_a_part_of_it() {
        for name in ["device.card.ring", "device.card", "device", "ring"] {
            assert!(is_named("device.card.ring", name), "{name}");
        }
        assert!(!is_named("device.card.ring", "device.car") && !is_named("device.card.ring", "card"));
    }
}
