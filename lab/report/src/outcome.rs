//! Rows of a measurement, with reasons to doubt them and cases that are missing.

use super::{Caveat, Row};

/// See the module.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The rows.
    pub rows: Vec<Row>,
    /// Reasons to doubt all rows.
    pub caveats: Vec<Caveat>,
    /// Statements about all rows that are not in them.
    pub notes: Vec<String>,
    /// Cases that were not run, with reasons.
    pub left_out: Vec<String>,
}

impl Outcome {
    /// Without reasons to doubt all rows.
    pub fn new(rows: Vec<Row>, notes: Vec<String>, left_out: Vec<String>) -> Self {
        Self { rows, caveats: Vec::new(), notes, left_out }
    }

    /// Nothing but the reason why all of it was not run.
    pub fn left_out(why: impl Into<String>) -> Self {
        Self { left_out: vec![why.into()], ..Self::default() }
    }

    /// With a statement about all rows.
    #[must_use]
    pub fn noted(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds rows.
    pub fn add_rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    /// Adds a statement about all rows.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds the reason why a case could not be measured.
    pub fn lacks(&mut self, why: impl Into<String>) {
        self.left_out.push(why.into());
    }

    /// Adds several of these reasons.
    pub fn lacks_all(&mut self, whys: impl IntoIterator<Item = String>) {
        self.left_out.extend(whys);
    }

    /// Adds the other outcome.
    pub fn add(&mut self, part: Self) {
        self.rows.extend(part.rows);
        self.caveats.extend(part.caveats);
        self.notes.extend(part.notes);
        self.left_out.extend(part.left_out);
    }
}
