//! Runs a plan's table: one case per row and column, each repeated until it is sure.

use crate::estimate::{Effort, Estimate};
use crate::outcome::Outcome;
use crate::plan::{Axis, CASE, Changes, Plan, PlanError, Shape};
use crate::settings::{Settings, Source};
use std::fmt::Display;
use std::ops::ControlFlow;

/// Called after each case with the cases done and the total; `Break` stops the table.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize) -> ControlFlow<()>;

/// One case of a table.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its changes to the table's settings: parameter and value, or `case` and its name.
    pub case: Changes,
    /// Its result: means over several runs.
    pub outcome: Outcome,
    /// An estimate for each metric.
    pub estimates: Vec<Estimate>,
}

/// A table with results.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its rows and columns.
    pub shape: Shape,
    /// The cases, rows first. Fewer than planned if it was stopped.
    pub runs: Vec<Run>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Runs the system for each case. All cases are checked before the first run.
///
/// # Errors
///
/// If a value of an axis is none for its parameter or a case is impossible.
pub fn run(
    plan: &Plan,
    settings: &Settings,
    shape: &Shape,
    effort: &Effort,
    progress: Progress<'_>,
) -> Result<Table, PlanError> {
    let cases = shape.cases();
    let wrong = |message: &dyn Display| PlanError::in_file(&plan.path, None, message);
    let prepare = |case: &Changes| {
        let mut settings = settings.clone();
        for (name, value) in case {
            let one = [(name.clone(), value.clone())];
            let named = plan.cases.iter().find(|known| name == CASE && known.name == *value);
            for (name, value) in named.map_or(&one[..], |named| &named.set) {
                settings.set(name, value, Source::Plan).map_err(|error| wrong(&error))?;
            }
        }
        plan.system.check(&settings).map_err(|impossible| {
            let described: Vec<String> = case.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            wrong(&format!("with {}: {}", described.join(", "), impossible.message))
        })?;
        Ok(settings)
    };
    let prepared = cases.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
    let wanted: Vec<usize> = [&shape.rows.metrics[..], &shape.columns.metrics, shape.cell.as_slice()].concat();
    let mut table = Table { shape: shape.clone(), runs: Vec::new(), stopped: false };
    for (case, settings) in cases.into_iter().zip(&prepared) {
        let (outcome, estimates) = plan.system.estimate(settings, &wanted, effort);
        table.runs.push(Run { case, outcome, estimates });
        if progress(table.runs.len(), prepared.len()).is_break() && table.runs.len() < prepared.len() {
            table.stopped = true;
            break;
        }
    }
    Ok(table)
}

impl Table {
    /// The run of this row and column, if it was done.
    pub fn run_of(&self, row: usize, column: usize) -> Option<&Run> {
        let Shape { rows, columns, .. } = &self.shape;
        let along = |axis: &Axis, at| if axis.is_metrics() { (0, 1) } else { (at, axis.labels.len()) };
        let ((row, _), (column, of)) = (along(rows, row), along(columns, column));
        self.runs.get(row * of + column)
    }

    /// The value of this cell, if it was run and measured.
    pub fn value(&self, row: usize, column: usize) -> Option<f64> {
        self.estimate(row, column).map(|estimate| estimate.mean)
    }

    /// As [`Table::value`], with its estimate.
    pub fn estimate(&self, row: usize, column: usize) -> Option<Estimate> {
        let Shape { rows, columns, cell } = &self.shape;
        let metric = rows.metrics.get(row).or(columns.metrics.get(column)).or(cell.as_ref())?;
        self.run_of(row, column)?.estimates.get(*metric).copied().filter(|estimate| estimate.mean.is_finite())
    }
}
