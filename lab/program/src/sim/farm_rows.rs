//! Compares the rows of `sidecore farm bench` with predictions of the farm's plan.

use super::compare::percent;
use super::output::{predict, read_rows, show_cells};
use crate::args::Plans;
use crate::error::LabError;
use crate::report::{Grid, digits};
use serde::Deserialize;
use sidecore_sim::compare::Cell;
use sidecore_sim::plan::{Changes, MAX_CELLS, Plan, PlanError};
use std::path::Path;

/// Settings of the plan for each scenario: the bench's own times, and room for all its events at a node.
const SHARE: [(&str, &str); 5] =
    [("load", "0"), ("warm_ms", "2000"), ("measured_ms", "6000"), ("in_flight", "16384"), ("depth", "16384")];
const TAIL: [(&str, &str); 2] = [("load", "0.8"), ("warm_ms", "4000")];
/// Largest accepted error of predictions: throughput, the median, and the tail.
const WITHIN: [(&str, f64); 3] = [("share", 0.05), ("p50_us", 0.10), ("p99_us", 0.20)];
const PULL: &str = "pull ";

#[derive(Deserialize)]
struct Measured {
    scenario: String,
    variant: String,
    balance: Option<String>,
    share: Option<f64>,
    total_us: Option<Times>,
}

#[derive(Deserialize)]
struct Times {
    p50: f64,
    p99: f64,
}

impl Measured {
    fn settings(&self) -> Option<Changes> {
        let scenario: &[(&str, &str)] = match self.scenario.as_str() {
            "share" => &SHARE,
            "tail" => &TAIL,
            _ => return None,
        };
        let hand = match (self.variant.strip_prefix(PULL), &self.balance) {
            (Some(number), None) => ("pull", number),
            (None, Some(balance)) => ("balance", balance.as_str()),
            _ => return None,
        };
        Some(scenario.iter().chain([&hand]).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn figures(&self) -> [(&'static str, Option<f64>); 3] {
        let total = |of: fn(&Times) -> f64| self.total_us.as_ref().map(of);
        [("share", self.share), ("p50_us", total(|times| times.p50)), ("p99_us", total(|times| times.p99))]
    }
}

pub(super) fn compare(plan: &Plan, path: &Path, args: &Plans) -> Result<bool, LabError> {
    let rows = read(path)?;
    let (mut cells, mut left_out) = (Vec::new(), 0);
    predict(&rows, |row| {
        match row.settings() {
            Some(settings) => cells.extend(predicted(plan, row, &settings, args.effort.seed)?),
            None => left_out += 1,
        }
        Ok(())
    })?;
    if cells.is_empty() {
        let file = path.display();
        return Err(LabError::Usage(format!(
            "{file}: has no row to compare: make some by `sidecore farm bench share tail --json FILE`"
        )));
    }
    show_cells(&args.output, &cells, &grid(&cells, left_out))
}

fn read(path: &Path) -> Result<Vec<Measured>, LabError> {
    let rows = read_rows(path, "`farm bench`", |line| serde_json::from_str(line))?;
    match rows.len() {
        ..=MAX_CELLS => Ok(rows),
        count => {
            let file = path.display();
            Err(LabError::Usage(format!("{file}: has {count} rows, at most {MAX_CELLS} are compared")))
        }
    }
}

fn predicted(plan: &Plan, row: &Measured, set: &Changes, seed: u64) -> Result<Vec<Cell>, PlanError> {
    let outcome = plan.system.run(&plan.with(set)?, seed);
    let cell = |(name, measured): (&str, Option<f64>)| {
        let published = measured?;
        let at = plan.system.metrics.iter().position(|known| known.name == name)?;
        let predicted = outcome.values[at];
        let cell = Cell::new(&format!("{}: {}", row.scenario, row.variant), name, published, predicted);
        cell.error.is_finite().then_some(cell)
    };
    Ok(row.figures().into_iter().filter_map(cell).collect())
}

fn grid(cells: &[Cell], left_out: usize) -> Grid {
    let headings = ["case", "metric", "measured", "predicted", "error", ""];
    let mut grid = Grid::new("The farm, measured and predicted", &headings);
    let within = |cell: &Cell| {
        let bound = WITHIN.iter().find(|(name, _)| *name == cell.column).map_or(0.0, |(_, bound)| *bound);
        cell.error.abs() <= bound
    };
    for cell in cells {
        let mark = if within(cell) { "" } else { "miss" }.to_owned();
        let figures = [digits(cell.published), digits(cell.predicted), percent(cell.error), mark];
        grid.push([cell.row.clone(), cell.column.clone()].into_iter().chain(figures));
    }
    for (name, bound) in WITHIN {
        let of: Vec<&Cell> = cells.iter().filter(|cell| cell.column == name).collect();
        let met = of.iter().filter(|cell| within(cell)).count();
        grid.notes.push(format!("{name}: {met} of {} within {:.0} %", of.len(), bound * 100.0));
    }
    if left_out > 0 {
        grid.notes.push(format!("{left_out} rows are left out: only `share` and `tail` are predicted."));
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> Measured {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn a_row_says_how_the_plan_runs_it() {
        let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/farm.toml");
        let plan = Plan::read(&plan).unwrap();
        for (line, hand) in [
            (r#"{"scenario":"share","variant":"tokens","balance":"tokens","share":0.98}"#, ("balance", "tokens")),
            (r#"{"scenario":"tail","variant":"pull 4","total_us":{"mean":1,"p50":1.0,"p99":2.0}}"#, ("pull", "4")),
        ] {
            let set = row(line).settings().unwrap();
            assert!(set.contains(&(hand.0.to_owned(), hand.1.to_owned())), "{set:?}");
            plan.with(&set).unwrap();
        }
        assert!(row(r#"{"scenario":"kills","variant":"tokens","balance":"tokens"}"#).settings().is_none());
        assert!(row(r#"{"scenario":"share","variant":"by hand"}"#).settings().is_none());
    }

    #[test]
    fn what_is_measured_stands_beside_what_is_predicted() {
        let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/farm.toml");
        let plan = Plan::read(&plan).unwrap();
        let row = row(r#"{"scenario":"share","variant":"pull 2","share":0.5}"#);
        let cells = predicted(&plan, &row, &row.settings().unwrap(), 1).unwrap();
        let [cell] = &cells[..] else { panic!("{} cells", cells.len()) };
        assert!(cell.predicted > 0.9 && cell.error > 0.8);
        let shown = grid(&cells, 3);
        assert!(shown.rows[0].contains(&"miss".to_owned()) && shown.notes.last().unwrap().starts_with("3 rows"));
    }
}
