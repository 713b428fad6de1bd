//! What a measurement or a simulation found: rows, and the ways to show them.
//!
//! Whoever measures makes [`Row`]s and puts them into a [`Report`]. The exporters under it agree on what a row means:
//! [`column`] knows what each value is, [`table`] chooses the columns for terminal, Markdown and page, [`figures`] the plots.

mod column;
mod figures;
mod format;
mod grid;
mod headline;
mod html;
mod json;
mod markdown;
pub(crate) mod plot;
mod row;
mod scenario;
mod table;
mod text;

use std::io::{self, Write};

pub(crate) use column::Key;
pub(crate) use format::{bytes, count, digits};
pub(crate) use grid::Grid;
pub(crate) use row::{Row, Times};

/// The rows of a run, with what a reader must know to judge them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// What was run, e.g. `sidecore bench`.
    pub(crate) title: String,
    /// What it ran on, in words.
    pub(crate) machine: String,
    /// What was run: the commit.
    pub(crate) commit: String,
    /// What was found.
    pub(crate) rows: Vec<Row>,
    /// What holds for all rows and is not in them.
    pub(crate) notes: Vec<String>,
    /// What was not run, and why.
    pub(crate) left_out: Vec<String>,
}

impl Report {
    /// One JSON object a line; rows without machine and commit get the report's.
    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        json::write(self, out)
    }

    /// Tables for a terminal, 100 columns wide where that is possible.
    pub(crate) fn to_text(&self) -> String {
        text::render(self)
    }

    /// Tables with every column that has data, in Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        markdown::render(self)
    }

    /// One self-contained page with plots and tables.
    pub(crate) fn to_html(&self) -> String {
        html::render(self)
    }

    /// The rows of each scenario, in the order in which the scenarios first appear.
    fn by_scenario(&self) -> Vec<(&str, Vec<&Row>)> {
        let rows: Vec<_> = self.rows.iter().collect();
        grouped(&rows, Row::scenario)
    }
}

/// Rows of the same key together, keys in the order of their first row.
fn grouped<'a, K: PartialEq>(rows: &[&'a Row], key: impl Fn(&'a Row) -> K) -> Vec<(K, Vec<&'a Row>)> {
    let mut groups: Vec<(K, Vec<&Row>)> = Vec::new();
    for &row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
