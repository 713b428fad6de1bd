//! What a measurement or a simulation found: rows, and the ways to show them.
//!
//! Whoever measures makes [`Row`]s and puts them into a [`Report`]. The exporters under it agree on what a row means:
//! [`column`] knows what each value is, [`grid`] chooses the columns for terminal, Markdown and page, [`figures`] the plots.

mod about;
mod column;
pub(crate) mod doubt;
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
pub(crate) use column::Key;
pub(crate) use doubt::{Doubt, Reason};
pub(crate) use format::{bytes, count, counted, digits};
pub(crate) use grid::Grid;
pub(crate) use row::{Row, Times};
pub(crate) use text::width;

/// Heading of what may make figures worth little.
const DOUBTS: &str = "Doubts";

/// The rows of a run, with what a reader must know to judge them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// What was run, e.g. `sidecore bench`.
    pub(crate) title: String,
    /// The command, its program, its date and its machine.
    pub(crate) about: About,
    /// What was found.
    pub(crate) rows: Vec<Row>,
    /// Why all of it may be worth little; rows have reasons of their own beside.
    pub(crate) doubts: Vec<Doubt>,
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

    /// Whether the run was ended before its end.
    fn is_stopped(&self) -> bool {
        self.doubts.iter().any(|doubt| doubt.reason == Reason::Stopped)
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
