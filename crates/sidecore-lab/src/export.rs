//! Rows as text on standard output, and in files.

use crate::args::Files;
use crate::report::{About, Outcome, Report, Section, about};
use rustix::termios::tcgetwinsize;
use sidecore_terminal::error::TerminalError;
use sidecore_terminal::output;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Width of tables without a terminal.
const WIDTH: usize = 100;
/// Widths of terminals that tables adapt to.
const WIDTHS: RangeInclusive<usize> = 60..=240;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(transparent)]
    Print(#[from] TerminalError),
    #[error("cannot write {}: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
}

/// `sections` describe its rows.
pub(crate) fn export(
    title: &str,
    files: &Files,
    outcome: Outcome,
    sections: impl IntoIterator<Item = &'static Section>,
) -> Result<(), ExportError> {
    export_about(title, files, outcome, sections, about::here())
}

pub(crate) fn export_about(
    title: &str,
    files: &Files,
    outcome: Outcome,
    sections: impl IntoIterator<Item = &'static Section>,
    about: About,
) -> Result<(), ExportError> {
    let Outcome { rows, caveats, notes, left_out } = outcome;
    let (title, sections) = (title.to_owned(), sections.into_iter().collect());
    let report = Report { title, about, sections, rows, caveats, notes, left_out };
    // The rows took long to measure: each output is tried, even after another failed.
    let printed = print(&report.to_text(width()));
    write_file(files.json.as_deref(), |out| report.write_json(out))?;
    write_file(files.markdown.as_deref(), |out| out.write_all(report.to_markdown().as_bytes()))?;
    write_file(files.html.as_deref(), |out| out.write_all(report.to_html().as_bytes()))?;
    printed
}

pub(crate) fn print(text: &str) -> Result<(), ExportError> {
    Ok(output::print(text)?)
}

fn width() -> usize {
    let columns = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(WIDTH, |columns| columns.clamp(*WIDTHS.start(), *WIDTHS.end()))
}

pub(crate) fn write(path: Option<&Path>, text: &str) -> Result<(), ExportError> {
    write_file(path, |out| out.write_all(text.as_bytes()))
}

fn write_file(path: Option<&Path>, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), ExportError> {
    let Some(path) = path else { return Ok(()) };
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        content(&mut out)?;
        out.flush()
    });
    written.map_err(|error| ExportError::Write { path: path.to_owned(), error })
}
