//! A plan compared with a published table, cell by cell.

use super::output::{STOPPED, progress, show};
use crate::args::Plans;
use crate::error::LabError;
use crate::report::{Grid, digits};
use sidecore_sim::compare::{Comparison, Published, compare};
use sidecore_sim::plan::Plan;
use sidecore_sim::table::Run;
use std::path::Path;

pub(super) fn run(plan: &Plan, path: &Path, args: &Plans) -> Result<bool, LabError> {
    let published = Published::read(path)?;
    let mut progress = progress("sim")?;
    let found = compare(plan, &published, &plan.set_by_hand(), &args.effort.effort(), &mut progress);
    drop(progress);
    let comparison = found?;
    let title = format!("{}, beside published figures", plan.title);
    let command = format!("{} --compare {} {}", args.files[0].display(), path.display(), args.effort.arguments());
    show(&args.output, &comparison.cells, (&title, &command), &[grid(plan, &comparison)])
}

/// A signed share. Zero has no minus sign.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:+.1} %", share * 100.0);
    if text == "-0.0 %" { "+0.0 %".to_owned() } else { text }
}

/// Half of an interval as a part of its mean; empty after one run.
fn half(within: Option<f64>, mean: f64) -> String {
    within.map_or(String::new(), |within| format!("{:.1} %", (within / mean).abs() * 100.0))
}

fn grid(plan: &Plan, comparison: &Comparison) -> Grid {
    let Comparison { cells, understood, left_out, table } = comparison;
    let titles = (table.shape.rows.title(), table.shape.columns.title());
    let headings = [titles.0, titles.1, "published", "predicted", "+-", "error", "simplest rule", ""];
    let mut grid = Grid::new(headed(&plan.title, understood), &headings);
    for cell in cells {
        let rule = cell.rule_error().map_or(String::new(), percent);
        let half = half(cell.within, cell.predicted);
        let nearer = if cell.is_beaten() { "rule nearer" } else { "" }.to_owned();
        let figures = [digits(cell.published), digits(cell.predicted), half, percent(cell.error), rule, nearer];
        grid.push([cell.row.clone(), cell.column.clone()].into_iter().chain(figures));
    }
    grid.notes.extend(comparison.worst().map(|worst| {
        let (median, most) = (comparison.median_error() * 100.0, worst.error.abs() * 100.0);
        let (cells, row, column) = (cells.len(), &worst.row, &worst.column);
        format!("{cells} cells: median error {median:.1} %, worst {most:.1} % at {row} {column}")
    }));
    grid.notes.extend(comparison.rule_errors().map(|(median, worst)| {
        let (median, worst) = (median * 100.0, worst * 100.0);
        let beaten = cells.iter().filter(|cell| cell.is_beaten()).count();
        format!(
            "The simplest rule, which knows nothing but the other published cells of the same figure: median error \
             {median:.1} %, worst {worst:.1} %; nearer than the plan in {beaten} cells"
        )
    }));
    grid.notes.extend(sureness(comparison));
    let left_out = (!left_out.is_empty()).then(|| left_out.join(", "));
    grid.notes.extend(left_out.map(|rows| format!("Left out, for the plan has no such metric: {rows}")));
    grid.notes.extend(table.stopped.then(|| STOPPED.to_owned()));
    grid
}

fn headed(title: &str, understood: &[String]) -> String {
    match understood {
        [] => title.to_owned(),
        set => format!("{title}; set by the heading: {}", set.join(", ").replace('=', " = ")),
    }
}

fn sureness(comparison: &Comparison) -> Vec<String> {
    let runs = |run: &Run| run.estimates.iter().map(|estimate| estimate.runs).max().unwrap_or(0);
    let (least, most) = comparison
        .table
        .runs
        .iter()
        .map(runs)
        .fold((u32::MAX, 0), |(least, most), runs| (least.min(runs), most.max(runs)));
    let count = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let mut notes = Vec::new();
    if most > 1 {
        notes.push(format!(
            "+-: noise of the simulation, not the error of the prediction: half of the 95 % interval around the mean of \
             {count} runs, each with a seed of its own"
        ));
    }
    for cell in &comparison.cells {
        let Some([low, high]) = cell.regimes else { continue };
        let [low, high] = [low, high].map(|mean| percent((mean - cell.published) / cell.published));
        notes.push(format!("Two regimes by seed at {} {}: an error of {low} or of {high}", cell.row, cell.column));
    }
    notes
}
