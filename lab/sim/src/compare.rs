//! Compares a published table with a plan at the same cells.
//!
//! A published table is a CSV file. Lines that begin with `#` above its headings name its source. A line of headings follows: the first
//! is a parameter's name, `case` or `metric`, the others are values of the plan's columns. Then there is one line per
//! row.

use crate::estimate::{Effort, Estimate};
use crate::plan::{Axis, MAX_CELLS, Plan, PlanError, Shape, metric, read_text};
use crate::rule::{self, Figure};
use crate::settings::Settings;
use crate::table::{self, Progress, Table};
use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Errors that differ by no more than this are equal.
const ALIKE: f64 = 0.001;
/// Largest file, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A published table, as in its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Its file.
    pub path: PathBuf,
    /// Its comment lines above the headings, without their `#`, in lower case.
    pub notes: String,
    /// Heading of the first column.
    pub corner: String,
    /// First field of each row, and its values; `None` for an empty field.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// Headings of the other columns.
    pub columns: Vec<String>,
}

/// One cell of a comparison.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Cell {
    /// Label of its row.
    pub row: String,
    /// Label of its column.
    pub column: String,
    /// Published value.
    pub published: f64,
    /// Value from the plan.
    pub predicted: f64,
    /// (predicted - published) / published.
    pub error: f64,
    /// Half of the interval around the predicted mean; `None` after one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
    /// The simplest rule's value for the cell, from the other published cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<f64>,
    /// Means of the two regimes, if the runs fell into two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regimes: Option<[f64; 2]>,
}

impl Cell {
    /// A cell of one run.
    pub fn new(row: &str, column: &str, published: f64, predicted: f64) -> Self {
        let (row, column, error) = (row.to_owned(), column.to_owned(), (predicted - published) / published);
        Self { row, column, published, predicted, error, within: None, rule: None, regimes: None }
    }

    /// The same with the prediction's certainty.
    #[must_use]
    pub fn sure(self, estimate: &Estimate) -> Self {
        let regimes = estimate.regimes.map(|both| both.map(|regime| regime.mean));
        Self { within: Some(estimate.within).filter(|within| within.is_finite()), regimes, ..self }
    }

    /// Relative error of the simplest rule.
    pub fn rule_error(&self) -> Option<f64> {
        self.rule.map(|rule| (rule - self.published) / self.published)
    }

    /// Whether the simplest rule is nearer to the published value than the plan.
    pub fn is_beaten(&self) -> bool {
        self.rule_error().is_some_and(|rule| rule.abs() + ALIKE < self.error.abs())
    }
}

/// A published table with the plan's values.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Cells in both tables.
    pub cells: Vec<Cell>,
    /// Settings derived from the table's heading, as `name=value`.
    pub understood: Vec<String>,
    /// Rows that match no metric of the plan.
    pub left_out: Vec<String>,
    /// The plan's table.
    pub table: Table,
}

impl Published {
    /// Reads a published table.
    ///
    /// # Errors
    ///
    /// With file and line, if it cannot be read or is malformed.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let wrong = |line: Option<usize>, message: &dyn Display| PlanError::in_file(path, line, message);
        let unreadable = |error: csv::Error| wrong(None, &format!("cannot be read: {error}"));
        let text = read_text(path, MAX_BYTES).map_err(|error| wrong(None, &error))?;
        let above = text.lines().take_while(|line| line.starts_with('#') || line.trim().is_empty());
        let notes: Vec<&str> = above.filter_map(|line| Some(line.strip_prefix('#')?.trim())).collect();
        let notes = notes.join(" ").to_lowercase();
        let mut reader =
            csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
        let mut heading = reader.headers().map_err(unreadable)?.iter().map(str::to_owned);
        let corner = heading.next().unwrap_or_default();
        let mut published = Self { path: path.to_owned(), notes, corner, rows: Vec::new(), columns: heading.collect() };
        for record in reader.records() {
            let record = record.map_err(unreadable)?;
            let line = record.position().map(|position| position.line() as usize);
            let values = record.iter().skip(1).map(|field| number(field).map_err(|error| wrong(line, &error)));
            published.rows.push((record[0].to_owned(), values.collect::<Result<_, _>>()?));
        }
        let cells = published.rows.len() * published.columns.len();
        match cells {
            0 => Err(wrong(None, &"has no cells: a heading line and one line for each row are needed")),
            1..=MAX_CELLS => Ok(published),
            _ => Err(wrong(None, &format!("has {cells} cells, at most {MAX_CELLS} are compared"))),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The plan's own table in the form of a published one.
    ///
    /// # Errors
    ///
    /// As [`table::run`].
    pub fn of_plan(plan: &Plan, effort: &Effort) -> Result<Self, PlanError> {
        let go = &mut |_, _| ControlFlow::Continue(());
        let Shape { rows, columns, .. } = &plan.shape;
        let found = table::run(plan, &plan.settings, &plan.shape, effort, go)?;
        let row = |(r, label): (usize, &String)| {
            (label.clone(), (0..columns.labels.len()).map(|c| found.value(r, c)).collect())
        };
        let rows_found = rows.labels.iter().enumerate().map(row).collect();
        let (path, notes, columns) = (plan.path.clone(), String::new(), columns.labels.clone());
        Ok(Self { path, notes, corner: rows.name.clone(), rows: rows_found, columns })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no number")]
struct NoNumber(String);

fn number(field: &str) -> Result<Option<f64>, NoNumber> {
    match field {
        "" | "-" => Ok(None),
        _ => {
            let number = field.parse().ok().filter(|number: &f64| number.is_finite());
            number.map(Some).ok_or_else(|| NoNumber(field.to_owned()))
        }
    }
}

/// Runs the plan at the cells of a published table. The table's heading sets parameters, by the plan's rules, except
/// those in `keep`, which the command line set.
///
/// # Errors
///
/// If the plan has no such rows or columns.
pub fn compare(
    plan: &Plan,
    published: &Published,
    keep: &[&str],
    effort: &Effort,
    progress: Progress<'_>,
) -> Result<Comparison, PlanError> {
    let cells = Cells::of(plan, published, keep)?;
    cells.compare(&cells.settings, effort, progress)
}

#[derive(Clone, Debug)]
pub(crate) struct Cells<'a> {
    plan: &'a Plan,
    pub(crate) settings: Settings,
    shape: Shape,
    rows: Vec<&'a (String, Vec<Option<f64>>)>,
    columns: &'a [String],
    understood: Vec<String>,
    left_out: Vec<String>,
}

impl<'a> Cells<'a> {
    pub(crate) fn of(plan: &'a Plan, published: &'a Published, keep: &[&str]) -> Result<Self, PlanError> {
        let wrong = |message: &dyn Display| PlanError::in_file(&published.path, None, message);
        let (settings, understood) = understand(plan, published, keep)?;
        let is_metric = |row: &str| metric(plan.system, row).map(drop);
        let is_known = |(row, _): &&(String, _)| published.corner != "metric" || is_metric(row).is_ok();
        let (known, left_out): (Vec<_>, Vec<_>) = published.rows.iter().partition(is_known);
        if known.is_empty() {
            let first = left_out.first().map_or(Ok(()), |(row, _)| is_metric(row));
            first.map_err(|unknown| wrong(&format!("no row is a metric of the plan: {unknown}")))?;
        }
        let labels = |rows: &[&(String, _)]| rows.iter().map(|(row, _)| row.clone()).collect::<Vec<_>>();
        let axis = |name: &str, labels: &[String]| {
            Axis::named(name, labels, plan.system, (&settings, &plan.cases)).map_err(|error| wrong(&error))
        };
        let rows = axis(&published.corner, &labels(&known))?;
        let columns = axis(&plan.shape.columns.name, &published.columns)?;
        let cell = plan.shape.cell;
        if cell.is_none() && !rows.is_metrics() && !columns.is_metrics() {
            return Err(wrong(&"its rows must be metrics: begin the line of headings with `metric`"));
        }
        let shape = Shape { rows, columns, cell };
        let left_out = labels(&left_out);
        Ok(Self { plan, settings, shape, rows: known, columns: &published.columns, understood, left_out })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.rows.iter().flat_map(|(row, values)| {
            let known = self.columns.iter().zip(values).filter(|(_, value)| value.is_some_and(|value| value != 0.0));
            known.map(move |(column, _)| format!("{row} {column}"))
        })
    }

    pub(crate) fn compare(
        &self,
        settings: &Settings,
        effort: &Effort,
        progress: Progress<'_>,
    ) -> Result<Comparison, PlanError> {
        let table = table::run(self.plan, settings, &self.shape, effort, progress)?;
        let cells = cells(&self.rows, self.columns, &table);
        Ok(Comparison { cells, understood: self.understood.clone(), left_out: self.left_out.clone(), table })
    }
}

fn understand(plan: &Plan, published: &Published, keep: &[&str]) -> Result<(Settings, Vec<String>), PlanError> {
    let found = plan.headings.iter().flat_map(|known| known.found_in(&published.notes));
    // The last setting counts: "one thread" and "no SMT" follow the statements they restrict.
    let found: Vec<(String, String)> = found.filter(|(name, _)| !keep.contains(&name.as_str())).collect();
    let is_last = |at: usize| found[at + 1..].iter().all(|(name, _)| *name != found[at].0);
    let set: Vec<(String, String)> = (0..found.len()).filter(|at| is_last(*at)).map(|at| found[at].clone()).collect();
    let wrong = |error: PlanError| PlanError::in_file(&published.path, None, format!("its heading says: {error}"));
    let settings = plan.with(&set).map_err(wrong)?;
    Ok((settings, set.into_iter().map(|(name, value)| format!("{name}={value}")).collect()))
}

fn cells(rows: &[&(String, Vec<Option<f64>>)], columns: &[String], table: &Table) -> Vec<Cell> {
    let mut cells = Vec::new();
    let values: Vec<Vec<Option<f64>>> = rows.iter().map(|(_, values)| values.clone()).collect();
    let labels: Vec<String> = rows.iter().map(|(row, _)| row.clone()).collect();
    let figure = match (table.shape.rows.is_metrics(), table.shape.columns.is_metrics()) {
        (true, _) => Figure::EachRow,
        (_, true) => Figure::EachColumn,
        _ => Figure::Table,
    };
    let guesses = rule::guesses(&values, (&labels, columns), figure);
    for (r, (row, values)) in rows.iter().enumerate() {
        for (c, (column, value)) in columns.iter().zip(values).enumerate() {
            let published = value.filter(|value| *value != 0.0);
            if let (Some(published), Some(estimate)) = (published, table.estimate(r, c)) {
                let cell = Cell::new(row, column, published, estimate.mean).sure(&estimate);
                cells.push(Cell { rule: guesses[r].get(c).copied().flatten(), ..cell });
            }
        }
    }
    cells
}

impl Comparison {
    /// Median of the errors' absolute values; 0 without cells.
    pub fn median_error(&self) -> f64 {
        median(self.cells.iter().map(|cell| cell.error.abs()).collect())
    }

    /// The cell with the largest error.
    pub fn worst(&self) -> Option<&Cell> {
        self.cells.iter().max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()))
    }

    /// Median and largest absolute error of the simplest rule, if it has a value for every cell.
    pub fn rule_errors(&self) -> Option<(f64, f64)> {
        let sizes: Vec<f64> = self.cells.iter().map(|cell| cell.rule_error().map(f64::abs)).collect::<Option<_>>()?;
        let worst = sizes.iter().copied().fold(0.0, f64::max);
        Some((median(sizes), worst))
    }
}

/// The median; 0 for an empty list.
pub fn median(mut sizes: Vec<f64>) -> f64 {
    sizes.sort_by(f64::total_cmp);
    match sizes.len() {
        0 => 0.0,
        n if n % 2 == 1 => sizes[n / 2],
        n => f64::midpoint(sizes[n / 2 - 1], sizes[n / 2]),
    }
}
