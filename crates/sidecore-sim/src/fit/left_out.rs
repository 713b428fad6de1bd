//! Errors of prediction: each table, and each column, is predicted by a fit to the others.

use super::problem::Problem;
use super::{Free, Progress, Target, least};
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

/// Fits without each table, if there are several, and without each column of all tables; and predicts the cells that were
/// left out.
///
/// # Errors
///
/// As [`fit`](super::fit()). Stopped: with the parts that are done.
pub fn leave_out(
    targets: &[Target<'_>],
    free: &[Free],
    effort: &Effort,
    starts: u32,
    progress: Progress<'_>,
) -> Result<Vec<LeftOut>, PlanError> {
    let all = Problem::new(targets, free.to_vec(), effort, progress)?.names();
    let of = |is_it: &dyn Fn(&str) -> bool| (0..all.len()).filter(|cell| is_it(&all[*cell])).collect::<BTreeSet<_>>();
    let tables: BTreeSet<&str> = all.iter().filter_map(|cell| Some(cell.split_once(": ")?.0)).collect();
    let columns: BTreeSet<&str> =
        targets.iter().flat_map(|target| &target.published.columns).map(String::as_str).collect();
    let table = |table: &&str| (format!("table {table}"), of(&|cell| cell.starts_with(&format!("{table}: "))));
    let column = |column: &&str| (format!("column {column}"), of(&|cell| cell.ends_with(&format!(" {column}"))));
    let several = |parts: &BTreeSet<&str>| parts.len() > 1;
    let tables: Vec<_> = Some(&tables).filter(|it| several(it)).into_iter().flatten().map(table).collect();
    let columns: Vec<_> = Some(&columns).filter(|it| several(it)).into_iter().flatten().map(column).collect();
    let mut found = Vec::new();
    for (name, cells) in tables.into_iter().chain(columns) {
        let problem = Problem::new(targets, free.to_vec(), effort, progress)?.without(cells.clone());
        match one(problem, (name, cells), (&all, free), starts) {
            Some(part) => found.push(part),
            None => break,
        }
    }
    Ok(found)
}

/// `None`: the fit was stopped.
fn one(
    problem: Problem<'_>,
    (name, left_out): (String, BTreeSet<usize>),
    (all, free): (&[String], &[Free]),
    starts: u32,
) -> Option<LeftOut> {
    let cells = left_out.iter().map(|cell| all[*cell].clone()).collect();
    if all.len() - left_out.len() <= free.len() {
        let alone = free.iter().map(|free| free.name.clone()).collect();
        return Some(LeftOut { name, cells, errors: Vec::new(), alone });
    }
    let (mut problem, ends) = least(problem, starts);
    problem.move_to(&ends);
    let errors = &ends.first()?.errors;
    let derivatives = problem.derivatives(errors)?;
    let most = |parameter: usize, is_left_out: bool| {
        let column = derivatives.column(parameter);
        let cells = column.iter().enumerate().filter(|(cell, _)| left_out.contains(cell) == is_left_out);
        cells.map(|(_, slope)| (slope * 1.1_f64.ln()).abs()).fold(0.0, f64::max)
    };
    let is_alone = |parameter: &usize| most(*parameter, false) < HARDLY && most(*parameter, true) >= HARDLY;
    let alone: Vec<String> = (0..free.len()).filter(is_alone).map(|parameter| free[parameter].name.clone()).collect();
    let errors = left_out.iter().map(|cell| errors[*cell].exp_m1().abs());
    let errors = if alone.is_empty() { errors.collect() } else { Vec::new() };
    Some(LeftOut { name, cells, errors, alone })
}
