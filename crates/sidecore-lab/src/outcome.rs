//! The outcome of measurements: rows, caveats, notes and missing parts; its output to the terminal and to files.

use crate::args::Files;
use crate::error::LabError;
use crate::report::{self, About, Caveat, Report, Row};
use sidecore_terminal::output;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) rows: Vec<Row>,
    /// Reasons to doubt all rows.
    pub(crate) caveats: Vec<Caveat>,
    pub(crate) notes: Vec<String>,
    pub(crate) left_out: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(rows: Vec<Row>, notes: Vec<String>, left_out: Vec<String>) -> Self {
        Self { rows, caveats: Vec::new(), notes, left_out }
    }

    pub(crate) fn left_out(why: impl Into<String>) -> Self {
        Self { left_out: vec![why.into()], ..Self::default() }
    }

    pub(crate) fn noted(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn add_rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(crate) fn lacks(&mut self, why: impl Into<String>) {
        self.left_out.push(why.into());
    }

    pub(crate) fn lacks_all(&mut self, whys: impl IntoIterator<Item = String>) {
        self.left_out.extend(whys);
    }

    pub(crate) fn add(&mut self, part: Self) {
        self.rows.extend(part.rows);
        self.caveats.extend(part.caveats);
        self.notes.extend(part.notes);
        self.left_out.extend(part.left_out);
    }
}

pub(crate) fn export(title: &str, files: &Files, outcome: Outcome) -> Result<(), LabError> {
    let Outcome { rows, caveats, notes, left_out } = outcome;
    let report = Report { title: title.to_owned(), about: About::here(), rows, caveats, notes, left_out };
    // The rows took long to measure: each output is tried, even after another failed.
    let printed = print(&report.to_text(report::width()));
    write_with(files.json.as_deref(), |out| report.write_json(out))?;
    write_with(files.markdown.as_deref(), |out| out.write_all(report.to_markdown().as_bytes()))?;
    write_with(files.html.as_deref(), |out| out.write_all(report.to_html().as_bytes()))?;
    printed
}

fn write_with(path: Option<&Path>, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), LabError> {
    let Some(path) = path else { return Ok(()) };
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        content(&mut out)?;
        out.flush()
    });
    written.map_err(|source| LabError::Write { path: path.to_owned(), source })
}

pub(crate) fn write(path: Option<&Path>, text: &str) -> Result<(), LabError> {
    write_with(path, |out| out.write_all(text.as_bytes()))
}

pub(crate) fn print(text: &str) -> Result<(), LabError> {
    Ok(output::print(text)?)
}
