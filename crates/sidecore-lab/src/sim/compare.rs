//! A plan beside a published table, cell by cell.

use super::output;
use super::stop::{STOPPED, Steps};
use crate::args::Plans;
use crate::report::{Grid, digits};
use serde::Serialize;
use sidecore_sim::compare::{Cell, Comparison, Published, compare};
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::Source;
use std::path::Path;

/// Runs the plan at the cells of the table and shows both.
pub(super) fn run(plan: &Plan, path: &Path, args: &Plans) -> Result<bool, String> {
    let published = Published::read(path).map_err(|error| error.to_string())?;
    let kept: Vec<&str> =
        plan.settings.iter().filter(|(_, set)| by_hand(*set)).map(|(known, _)| known.name.as_str()).collect();
    let mut steps = Steps::new("sim", published.rows.len() * published.columns.len())?;
    let found = compare(plan, &published, &kept, args.seed, &mut |done, _| steps.done(done));
    drop(steps);
    let comparison = found.map_err(|error| error.to_string())?;
    let grid = comparison_grid(plan, &comparison);
    let lines: Vec<CellLine> = comparison.cells.iter().map(CellLine::of).collect();
    output::show(&grid.to_text(), &args.output, &lines, || comparison_page(path, args, &grid), &[])?;
    Ok(true)
}

fn comparison_page(path: &Path, args: &Plans, grid: &Grid) -> String {
    let plan = args.files[0].display();
    let command = format!("sidecore sim {plan} --compare {} --seed {}", path.display(), args.seed);
    format!("# {}, beside published figures\n\nSimulated by `{command}`.\n\n{}", grid.title, grid.to_markdown())
}

fn by_hand(set: Option<&(String, Source)>) -> bool {
    matches!(set, Some((_, Source::CommandLine)))
}

/// A cell of a comparison as one line of JSON.
#[derive(Serialize)]
pub(super) struct CellLine<'a> {
    row: &'a str,
    column: &'a str,
    published: f64,
    predicted: f64,
    error: f64,
}

impl<'a> CellLine<'a> {
    pub(super) fn of(cell: &'a Cell) -> Self {
        let Cell { row, column, published, predicted, error } = cell;
        Self { row, column, published: *published, predicted: *predicted, error: *error }
    }
}

/// A signed share, without a sign before nothing.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:+.1} %", share * 100.0);
    if text == "-0.0 %" { "+0.0 %".to_owned() } else { text }
}

fn comparison_grid(plan: &Plan, comparison: &Comparison) -> Grid {
    let titles = (comparison.table.shape.rows.title(), comparison.table.shape.columns.title());
    let mut grid = Grid::new(&plan.title, &[titles.0, titles.1, "published", "predicted", "error"]);
    for cell in &comparison.cells {
        let error = percent(cell.error);
        let fields = [cell.row.clone(), cell.column.clone(), digits(cell.published), digits(cell.predicted), error];
        grid.rows.push(fields.to_vec());
    }
    if let Some(worst) = comparison.worst() {
        grid.notes.push(format!(
            "{} cells: median error {:.1} %, worst {:.1} % at {} {}",
            comparison.cells.len(),
            comparison.median_error() * 100.0,
            worst.error.abs() * 100.0,
            worst.row,
            worst.column
        ));
    }
    if !comparison.left_out.is_empty() {
        grid.notes.push(format!("Left out, for the plan has no such metric: {}", comparison.left_out.join(", ")));
    }
    if !comparison.understood.is_empty() {
        grid.notes.push(format!("From the table's heading: {}", comparison.understood.join(", ")));
    }
    if comparison.table.stopped {
        grid.notes.push(STOPPED.to_owned());
    }
    grid
}
