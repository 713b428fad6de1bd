//! Errors of prediction: each table, and each column, is predicted by a fit to the others.

use super::problem::Problem;
use super::{Fit, Fitted, Free, Progress, Target, least};
use crate::compare::Published;
use crate::estimate::Effort;
use crate::plan::PlanError;
use std::collections::BTreeSet;

/// Effects below this part of a cell, for a tenth more of a parameter, do not determine the parameter.
const HARDLY: f64 = 0.005;

/// Cells that were left out of a fit.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// Name of the table, or of the column.
    pub name: String,
    /// Names of the cells.
    pub cells: Vec<String>,
    /// Absolute errors of their predictions, as fractions of the published values. Empty if there are none.
    pub errors: Vec<f64>,
    /// The parameters that only these cells determine. Such cells cannot be predicted from the others.
    pub alone: Vec<String>,
}

enum Part {
    Table(String),
    Column(String),
}

/// Fits without each table, if there are several, and without each column of all tables; and predicts the cells that were
/// left out. The fits begin near the values of `found`, at random by the effort's seed, and not at them: these are known
/// from the fit to all. `starts`: the number of these beginnings.
///
/// # Errors
///
/// As [`fit`](super::fit()). Stopped: with the parts that are done.
pub fn leave_out(
    targets: &[Target<'_>],
    found: &Fit,
    effort: &Effort,
    starts: u32,
    progress: Progress<'_>,
) -> Result<Vec<LeftOut>, PlanError> {
    let tables: BTreeSet<String> = targets.iter().map(|target| target.published.name()).collect();
    let columns: BTreeSet<String> = targets.iter().flat_map(|target| target.published.columns.clone()).collect();
    let tables = Some(tables).filter(|tables| tables.len() > 1).into_iter().flatten().map(Part::Table);
    let columns = Some(columns).filter(|columns| columns.len() > 1).into_iter().flatten().map(Part::Column);
    let mut parts = Vec::new();
    for part in tables.chain(columns) {
        let has = |cell: &str| match &part {
            Part::Table(table) => cell.starts_with(&format!("{table}: ")),
            Part::Column(column) => cell.ends_with(&format!(" {column}")),
        };
        let left_out: BTreeSet<usize> = (0..found.cells.len()).filter(|cell| has(&found.cells[*cell])).collect();
        if left_out.is_empty() {
            continue;
        }
        let is_known = found.cells.len() - left_out.len() > found.parameters.len();
        let is_alone = |it: &&Fitted| !is_known || is_alone(it, &left_out);
        let alone: Vec<String> = found.parameters.iter().filter(is_alone).map(|it| it.free.name.clone()).collect();
        let mut errors = Vec::new();
        if alone.is_empty() {
            let Some(all) = predicted(targets, &part, found, (effort, starts, progress))? else { break };
            errors = left_out.iter().map(|cell| all[*cell]).collect();
        }
        let cells = left_out.iter().map(|cell| found.cells[*cell].clone()).collect();
        parts.push(LeftOut { name: part.name(), cells, errors, alone });
    }
    Ok(parts)
}

/// Absolute errors of all cells after a fit without this part. `None`: it was stopped.
fn predicted(
    targets: &[Target<'_>],
    part: &Part,
    found: &Fit,
    (effort, starts, progress): (&Effort, u32, Progress<'_>),
) -> Result<Option<Vec<f64>>, PlanError> {
    let rest = targets.iter().enumerate().filter_map(|(number, target)| Some((number, part.rest(target.published)?)));
    let rest: Vec<(usize, Published)> = rest.collect();
    let without: Vec<Target<'_>> =
        rest.iter().map(|(number, published)| Target { plan: targets[*number].plan, published }).collect();
    let begin = |it: &Fitted| Free { value: it.value, ..it.free.clone() };
    let all: Vec<Free> = found.parameters.iter().map(begin).collect();
    let kept = |free: &Free| {
        let targets = (0..rest.len()).filter(|at| free.is_of(rest[*at].0)).collect();
        Free { targets, ..free.clone() }
    };
    let problem = Problem::new(&without, all.iter().map(kept).collect(), effort, progress)?;
    let (problem, ends) = least(problem, 1..starts + 1);
    let Some(best) = ends.first().filter(|_| !problem.is_stopped()) else { return Ok(None) };
    let values: Vec<f64> = best.at.iter().map(|value| value.exp()).collect();
    Ok(Problem::new(targets, all, effort, progress)?.sizes(&values))
}

/// Whether only these cells determine the parameter.
fn is_alone(fitted: &Fitted, left_out: &BTreeSet<usize>) -> bool {
    let most = |is_left_out: bool| {
        let cells = fitted.effects.iter().enumerate().filter(|(cell, _)| left_out.contains(cell) == is_left_out);
        cells.map(|(_, effect)| effect.abs()).fold(0.0, f64::max)
    };
    most(false) < HARDLY && most(true) >= HARDLY
}

impl Part {
    fn name(&self) -> String {
        match self {
            Self::Table(table) => format!("table {table}"),
            Self::Column(column) => format!("column {column}"),
        }
    }

    /// The table without this part; `None`: nothing of it is left.
    fn rest(&self, published: &Published) -> Option<Published> {
        let column = match self {
            Self::Table(table) => return (published.name() != *table).then(|| published.clone()),
            Self::Column(column) => column,
        };
        let kept: Vec<usize> = (0..published.columns.len()).filter(|at| published.columns[*at] != *column).collect();
        let row = |(label, values): &(String, Vec<Option<f64>>)| {
            (label.clone(), kept.iter().map(|at| values[*at]).collect::<Vec<_>>())
        };
        let columns: Vec<String> = kept.iter().map(|at| published.columns[*at].clone()).collect();
        let rows: Vec<_> =
            published.rows.iter().map(row).filter(|(_, values)| values.iter().any(Option::is_some)).collect();
        (!columns.is_empty() && !rows.is_empty()).then(|| Published { rows, columns, ..published.clone() })
    }
}
