//! A plan beside a published table, cell by cell.

use super::output::{STOPPED, progress, show};
use crate::args::Plans;
use crate::report::{Grid, digits};
use sidecore_sim::compare::{Comparison, Published, compare};
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::Source;
use std::path::Path;

/// Runs the plan at the cells of the table and shows both.
pub(super) fn run(plan: &Plan, path: &Path, args: &Plans) -> Result<bool, String> {
    let published = Published::read(path).map_err(|error| error.to_string())?;
    let by_hand = plan.settings.iter().filter(|(_, set)| matches!(set, Some((_, Source::CommandLine))));
    let kept: Vec<&str> = by_hand.map(|(known, _)| known.name.as_str()).collect();
    let mut progress = progress("sim")?;
    let found = compare(plan, &published, &kept, args.seed, &mut progress);
    drop(progress);
    let comparison = found.map_err(|error| error.to_string())?;
    let title = format!("{}, beside published figures", plan.title);
    let command = format!("{} --compare {} --seed {}", args.files[0].display(), path.display(), args.seed);
    show(&args.output, &comparison.cells, (&title, &command), &[grid(plan, &comparison)])
}

/// A signed share, without a sign before nothing.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:+.1} %", share * 100.0);
    if text == "-0.0 %" { "+0.0 %".to_owned() } else { text }
}

fn grid(plan: &Plan, comparison: &Comparison) -> Grid {
    let Comparison { cells, understood, left_out, table } = comparison;
    let titles = (table.shape.rows.title(), table.shape.columns.title());
    let mut grid = Grid::new(&plan.title, &[titles.0, titles.1, "published", "predicted", "error"]);
    for cell in cells {
        let figures = [digits(cell.published), digits(cell.predicted), percent(cell.error)];
        grid.push([cell.row.clone(), cell.column.clone()].into_iter().chain(figures));
    }
    grid.notes.extend(comparison.worst().map(|worst| {
        let (median, most) = (comparison.median_error() * 100.0, worst.error.abs() * 100.0);
        let (cells, row, column) = (cells.len(), &worst.row, &worst.column);
        format!("{cells} cells: median error {median:.1} %, worst {most:.1} % at {row} {column}")
    }));
    for (what, said) in
        [("Left out, for the plan has no such metric", left_out), ("From the table's heading", understood)]
    {
        grid.notes.extend((!said.is_empty()).then(|| format!("{what}: {}", said.join(", "))));
    }
    grid.notes.extend(table.stopped.then(|| STOPPED.to_owned()));
    grid
}
