//! Rows as text on standard output, and in files.

use crate::about;
use crate::files::Files;
use rustix::termios::tcgetwinsize;
use sidecore_report::{About, Outcome, Report, Section};
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

/// Failure to write rows.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Standard output failed.
    #[error(transparent)]
    Print(#[from] TerminalError),
    /// A file could not be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

/// `sections` describe its rows.
///
/// # Errors
/// Standard output or a file.
pub fn export(
    title: &str,
    files: &Files,
    outcome: Outcome,
    sections: impl IntoIterator<Item = &'static Section>,
) -> Result<(), ExportError> {
    export_about(title, files, outcome, sections, about::here())
}

/// The same for a run of another time or machine.
///
/// # Errors
/// As for [`export`].
pub fn export_about(
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

/// Writes a text to standard output.
///
/// # Errors
/// Standard output.
pub fn print(text: &str) -> Result<(), ExportError> {
    Ok(output::print(text)?)
}

fn width() -> usize {
    let columns = tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(WIDTH, |columns| columns.clamp(*WIDTHS.start(), *WIDTHS.end()))
}

/// Writes a text to the file, if one is named.
///
/// # Errors
/// The file.
pub fn write(path: Option<&Path>, text: &str) -> Result<(), ExportError> {
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
