//! The rows of a run, with the information needed to judge them.

use super::{About, Caveat, Headline, Reason, Row, Section};

pub(crate) const CAVEATS: &str = "Doubts";

/// The rows of a run, with the information needed to judge them.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The command, e.g. `sidecore bench`.
    pub title: String,
    /// The run.
    pub about: About,
    /// Descriptions of scenarios; rows of others are shown without.
    pub sections: Vec<&'static Section>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Reasons to doubt all rows; rows have further reasons of their own.
    pub caveats: Vec<Caveat>,
    /// Statements about all rows that are not in them.
    pub notes: Vec<String>,
    /// Cases that were not run, with reasons.
    pub left_out: Vec<String>,
}

impl Report {
    /// The rows of each scenario. Scenarios are ordered by their first row.
    pub fn by_scenario(&self) -> Vec<(&str, Vec<&Row>)> {
        let rows: Vec<_> = self.rows.iter().collect();
        grouped(&rows, Row::scenario)
    }

    pub(crate) fn section(&self, scenario: &str) -> Option<&'static Section> {
        self.sections.iter().find(|section| section.name == scenario).copied()
    }

    /// Title and explanation of a scenario. Without a section: its name and no explanation.
    pub(crate) fn words<'n>(&self, scenario: &'n str) -> (&'n str, &'static str) {
        self.section(scenario).map_or((scenario, ""), |section| (section.title, section.reading))
    }

    /// The headlines, in the order of the scenarios.
    pub fn headlines(&self) -> Vec<Headline> {
        let headline = |(name, rows): (&str, Vec<&Row>)| (self.section(name)?.headline)(name, &rows);
        self.by_scenario().into_iter().filter_map(headline).collect()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.caveats.iter().any(|caveat| caveat.reason == Reason::Stopped)
    }

    pub(crate) fn lists(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let lists = [("Notes", &self.notes[..]), ("Left out", &self.left_out)];
        lists.into_iter().filter(|(_, items)| !items.is_empty())
    }
}

/// Groups rows by key. Keys are in the order of their first row.
pub fn grouped<'a, K: PartialEq>(rows: &[&'a Row], key: impl Fn(&'a Row) -> K) -> Vec<(K, Vec<&'a Row>)> {
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
