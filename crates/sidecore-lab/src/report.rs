//! Results of measurements and simulations: rows, and their formats.
//!
//! Measurements make [`Row`]s and put them into a [`Report`]. All exporters share the meaning of rows: [`column`]
//! describes each value, [`grid`] chooses the columns for terminal, Markdown and page, [`figures`] the plots.

mod about;
pub(crate) mod caveat;
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
mod text;

pub(crate) use about::About;
pub(crate) use caveat::{Caveat, Reason};
pub(crate) use column::Key;
pub(crate) use format::{bytes, count, counted, digits};
pub(crate) use grid::Grid;
pub(crate) use row::{Row, Times};
pub(crate) use text::width;

const CAVEATS: &str = "Doubts";

/// The rows of a run, with the information needed to judge them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// The command, e.g. `sidecore bench`.
    pub(crate) title: String,
    pub(crate) about: About,
    pub(crate) rows: Vec<Row>,
    /// Reasons to doubt all rows; rows have further reasons of their own.
    pub(crate) caveats: Vec<Caveat>,
    /// Statements about all rows that are not in them.
    pub(crate) notes: Vec<String>,
    /// Cases that were not run, with reasons.
    pub(crate) left_out: Vec<String>,
}

impl Report {
    /// The rows of each scenario. Scenarios are ordered by their first row.
    fn by_scenario(&self) -> Vec<(&str, Vec<&Row>)> {
        let rows: Vec<_> = self.rows.iter().collect();
        grouped(&rows, Row::scenario)
    }

    fn is_stopped(&self) -> bool {
        self.caveats.iter().any(|caveat| caveat.reason == Reason::Stopped)
    }

    /// Lists next to the rows, with their headings.
    fn lists(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let lists = [("Notes", &self.notes[..]), ("Left out", &self.left_out)];
        lists.into_iter().filter(|(_, items)| !items.is_empty())
    }
}

/// Groups rows by key. Keys are in the order of their first row.
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
