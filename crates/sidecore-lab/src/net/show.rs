//! Shows what was measured: text on standard output, and the files that were asked for.

use crate::args::Files;
use crate::output::print;
use crate::report::Report;
use std::fs;
use std::path::Path;

/// What took so long to measure is written wherever it can be.
///
/// # Errors
/// A file cannot be written, or nothing can be printed.
pub(super) fn show(files: &Files, report: &Report) -> Result<(), String> {
    let printed = print(&report.to_text());
    let mut json = Vec::new();
    report.write_json(&mut json).map_err(|error| error.to_string())?;
    write(files.json.as_deref(), &json)?;
    write(files.markdown.as_deref(), report.to_markdown().as_bytes())?;
    write(files.html.as_deref(), report.to_html().as_bytes())?;
    printed
}

/// Writes that file, if one was asked for.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(path: Option<&Path>, content: &[u8]) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
