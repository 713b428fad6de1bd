//! Output of a simulation: progress, text on standard output, and the requested files.

use crate::args::Output;
use crate::error::{LabError, Source};
use crate::report::Grid;
use serde::{Serialize, Serializer};
use serde_json::Value;
use sidecore_measure::export::{self, ExportError, print};
pub(super) use sidecore_measure::interrupt::STOPPED;
use sidecore_measure::interrupt::{Interrupt, SignalError};
use sidecore_measure::progress::Progress;
use sidecore_sim::compare::Cell;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

/// Shows progress until drop. The closure receives the steps done and all steps, and returns whether to continue.
pub(super) fn progress(name: &'static str) -> Result<impl Fn(usize, usize) -> ControlFlow<()> + Sync, SignalError> {
    let interrupt = Interrupt::new()?;
    let mut progress = Progress::new(0);
    progress.scenario(name);
    Ok(move |done, all| {
        progress.at(done, all);
        if interrupt.came() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

pub(super) fn read_rows<T, E: Into<Source>>(
    path: &Path,
    what: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, LabError> {
    let file = path.display();
    let text = fs::read_to_string(path).map_err(|error| LabError::failed(format!("{file}: cannot be read"), error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let wrong = |index, error| LabError::failed(format!("{file}:{}: is no row of {what}", index + 1), error);
    lines.map(|(index, line)| parse(line).map_err(|error| wrong(index, error))).collect()
}

pub(super) fn predict<T>(rows: &[T], mut one: impl FnMut(&T) -> Result<(), LabError>) -> Result<(), LabError> {
    let progress = progress("sim")?;
    for (index, row) in rows.iter().enumerate() {
        one(row)?;
        if progress(index + 1, rows.len()).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) fn show_cells(files: &Output, cells: &[Cell], grid: &Grid) -> Result<bool, LabError> {
    let printed = print(&grid.to_text());
    write(files, cells, &grid.to_markdown(), &[])?;
    printed?;
    Ok(true)
}

/// A line of JSON: its members in this order, without null values.
pub(super) struct Members<const N: usize>(pub(super) [(&'static str, Value); N]);

impl<const N: usize> Serialize for Members<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, value)))
    }
}

/// Prints tables and writes the requested files. Simulations take long, so each output is tried even after another
/// failed.
pub(super) fn show(
    files: &Output,
    lines: &[impl Serialize],
    (title, command): (&str, &str),
    tables: &[Grid],
) -> Result<bool, LabError> {
    let form = |form: fn(&Grid) -> String| tables.iter().map(form).collect::<Vec<_>>().join("\n");
    let printed = print(&form(Grid::to_text));
    write(files, lines, &page(title, command, &form(Grid::to_markdown)), &[])?;
    printed?;
    Ok(true)
}

pub(super) fn page(title: &str, command: &str, text: &str) -> String {
    format!("# {title}\n\nSimulated by `sidecore sim {command}`.\n\n{text}")
}

/// Writes the requested files; `plots` are names and contents of SVG files in the Markdown's directory.
pub(super) fn write(
    files: &Output,
    lines: &[impl Serialize],
    markdown: &str,
    plots: &[(String, String)],
) -> Result<(), LabError> {
    if let Some(path) = &files.json {
        let lines: Result<String, _> = lines.iter().map(|line| Ok(serde_json::to_string(line)? + "\n")).collect();
        let lines =
            lines.map_err(|error: serde_json::Error| ExportError::Write { path: path.clone(), error: error.into() })?;
        export::write(Some(path), &lines)?;
    }
    if let Some(path) = &files.markdown {
        export::write(Some(path), markdown)?;
        for (name, svg) in plots {
            export::write(Some(&path.with_file_name(name)), svg)?;
        }
    }
    Ok(())
}
