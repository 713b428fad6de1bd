//! What a measurement or a simulation found: rows, and the ways to show them.
//!
//! Whoever measures makes [`Row`]s and puts them into a [`Report`]. The exporters under it agree on what a row means:
//! [`column`] knows what each value is, [`grid`] chooses the columns for terminal, Markdown and page, [`figures`] the plots.

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

pub(crate) use column::Key;
pub(crate) use format::{bytes, count, counted, digits};
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
    /// The rows of each scenario, in the order in which the scenarios first appear.
    fn by_scenario(&self) -> Vec<(&str, Vec<&Row>)> {
        let rows: Vec<_> = self.rows.iter().collect();
        grouped(&rows, Row::scenario)
    }

    /// What is said beside the rows, under its heading.
    fn lists(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let lists = [("Notes", &self.notes[..]), ("Left out", &self.left_out)];
        lists.into_iter().filter(|(_, items)| !items.is_empty())
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
