//! A published table against the plan at the same cells.
//!
//! A published table is a CSV file: lines that begin with `#` say where it comes from, then a line of headings, the
//! first of them a parameter's name or `metric`, the others values of the plan's columns; then one line for each row.

use crate::plan::{Axis, MAX_CELLS, Plan, PlanError, metric, read_text};
use crate::settings::Settings;
use crate::table::{self, Progress, Shape, Table};
use std::path::{Path, PathBuf};

/// Longest file that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A published table as it stands in its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Its file.
    pub path: PathBuf,
    /// Its comment lines, without their `#`.
    pub notes: Vec<String>,
    /// Heading of the first column.
    pub corner: String,
    /// First field of each row.
    pub rows: Vec<String>,
    /// Headings of the other columns.
    pub columns: Vec<String>,
    /// Row by row; `None` where a field is empty.
    pub values: Vec<Vec<Option<f64>>>,
}

/// One cell of a comparison.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Cell {
    /// Label of its row.
    pub row: String,
    /// Label of its column.
    pub column: String,
    /// What was measured by others.
    pub published: f64,
    /// What the plan yields.
    pub predicted: f64,
    /// (predicted - published) / published.
    pub error: f64,
}

/// A published table with what the plan yields for it.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Cells that are in both.
    pub cells: Vec<Cell>,
    /// Settings that the table's heading stood for, as `name=value`.
    pub understood: Vec<String>,
    /// Rows that are no metric of the plan's.
    pub left_out: Vec<String>,
    /// The plan's table.
    pub table: Table,
}

impl Published {
    /// Reads a published table.
    ///
    /// # Errors
    ///
    /// With file and line, if it cannot be read or has not this form.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let wrong = |line: Option<usize>, message: &str| PlanError::in_file(path, line, message);
        let unreadable = |error: csv::Error| wrong(None, &format!("cannot be read: {error}"));
        let text = read_text(path, MAX_BYTES).map_err(|message| wrong(None, &message))?;
        let notes = text.lines().filter_map(|line| Some(line.strip_prefix('#')?.trim().to_owned())).collect();
        let mut reader =
            csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
        let mut heading = reader.headers().map_err(unreadable)?.iter().map(str::to_owned);
        let corner = heading.next().unwrap_or_default();
        let columns: Vec<String> = heading.collect();
        let mut published =
            Self { path: path.to_owned(), notes, corner, rows: Vec::new(), columns, values: Vec::new() };
        for record in reader.records() {
            let record = record.map_err(unreadable)?;
            let line = record.position().map(|position| position.line() as usize);
            let values = record.iter().skip(1).map(|field| number(field).map_err(|message| wrong(line, &message)));
            published.values.push(values.collect::<Result<_, _>>()?);
            published.rows.push(record.get(0).unwrap_or_default().to_owned());
        }
        let cells = published.rows.len() * published.columns.len();
        match cells {
            0 => Err(wrong(None, "has no cells: a heading line and one line for each row are needed")),
            1..=MAX_CELLS => Ok(published),
            _ => Err(wrong(None, &format!("has {cells} cells, at most {MAX_CELLS} are compared"))),
        }
    }
}

fn number(field: &str) -> Result<Option<f64>, String> {
    match field {
        "" | "-" => Ok(None),
        _ => match field.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(format!("`{field}` is no number")),
        },
    }
}

/// Runs the plan at the cells of a published table. Headings of the table set what the plan says they mean, unless
/// `keep` names the parameter: those were set on the command line.
///
/// # Errors
///
/// If the table's rows or columns are nothing that the plan knows.
pub fn compare(
    plan: &Plan,
    published: &Published,
    keep: &[&str],
    seed: u64,
    progress: Progress<'_>,
) -> Result<Comparison, PlanError> {
    let wrong = |message: String| PlanError::in_file(&published.path, None, &message);
    let (settings, understood) = understand(plan, published, keep)?;
    let (published, left_out) = known_rows(plan, published).map_err(wrong)?;
    let rows = Axis::named(&published.corner, &published.rows, plan.system, &settings).map_err(wrong)?;
    let over = match &plan.columns {
        Axis::Metrics(_) => "metric",
        Axis::Parameter { name, .. } => name,
    };
    let columns = Axis::named(over, &published.columns, plan.system, &settings).map_err(wrong)?;
    let cell = plan.cell;
    if cell.is_none() && ![&rows, &columns].iter().any(|axis| matches!(axis, Axis::Metrics(_))) {
        return Err(wrong("its rows must be metrics: begin the line of headings with `metric`".to_owned()));
    }
    let table = table::run(plan, &settings, &Shape { rows, columns, cell }, seed, progress)?;
    Ok(Comparison { cells: cells(&published, &table), understood, left_out, table })
}

/// The table without rows that are no metric of the plan's, and the names of those.
fn known_rows(plan: &Plan, published: &Published) -> Result<(Published, Vec<String>), String> {
    let mut known = published.clone();
    if published.corner != "metric" {
        return Ok((known, Vec::new()));
    }
    let is_known = |row: &String| metric(plan.system, row).is_ok();
    let left_out: Vec<String> = published.rows.iter().filter(|row| !is_known(row)).cloned().collect();
    if let (true, Some(first)) = (left_out.len() == published.rows.len(), left_out.first()) {
        let wrong = metric(plan.system, first).err().unwrap_or_default();
        return Err(format!("no row is a metric of the plan: {wrong}"));
    }
    let mut keep = published.rows.iter().map(is_known);
    known.values.retain(|_| keep.next().unwrap_or(false));
    known.rows.retain(is_known);
    Ok((known, left_out))
}

/// The plan's settings with what the heading of the table says.
fn understand(plan: &Plan, published: &Published, keep: &[&str]) -> Result<(Settings, Vec<String>), PlanError> {
    let heading = published.notes.join(" ").to_lowercase();
    let found = plan.headings.iter().flat_map(|known| known.found_in(&heading));
    let set: Vec<(String, String)> = found.filter(|(name, _)| !keep.contains(&name.as_str())).collect();
    let wrong = |error: PlanError| PlanError::in_file(&published.path, None, &format!("its heading says: {error}"));
    let settings = plan.with(&set).map_err(wrong)?;
    Ok((settings, set.into_iter().map(|(name, value)| format!("{name}={value}")).collect()))
}

fn cells(published: &Published, table: &Table) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (r, row) in published.rows.iter().enumerate() {
        for (c, column) in published.columns.iter().enumerate() {
            let known = published.values[r].get(c).copied().flatten().filter(|value| *value != 0.0);
            if let (Some(published), Some(predicted)) = (known, table.value(r, c)) {
                let error = (predicted - published) / published;
                cells.push(Cell { row: row.clone(), column: column.clone(), published, predicted, error });
            }
        }
    }
    cells
}

impl Comparison {
    /// Median of the errors' sizes; 0 without cells.
    pub fn median_error(&self) -> f64 {
        let mut sizes: Vec<f64> = self.cells.iter().map(|cell| cell.error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        match sizes.len() {
            0 => 0.0,
            n if n % 2 == 1 => sizes[n / 2],
            n => f64::midpoint(sizes[n / 2 - 1], sizes[n / 2]),
        }
    }

    /// The cell with the largest error.
    pub fn worst(&self) -> Option<&Cell> {
        self.cells.iter().max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()))
    }
}
