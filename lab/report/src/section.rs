//! A table of a report: its title, how to read it, its plots and its headline.

use super::Row;

type Plots = fn(&[&Row]) -> Vec<Group>;
/// Gets the name of the scenario and its rows.
type ToHeadline = fn(&str, &[&Row]) -> Option<Headline>;

/// The description of a scenario's rows.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// The scenario that its rows name.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// How to read its figures.
    pub reading: &'static str,
    plots: Plots,
    /// Its headline.
    pub headline: ToHeadline,
}

/// Colours of series, distinguishable in a light and in a dark scheme.
pub const COLOURS: [&str; 10] =
    ["#2F6FDE", "#E0533D", "#189E77", "#D98E04", "#8A5CD6", "#0E97B5", "#C8448F", "#7A8B2A", "#A0653B", "#6B7280"];

/// The colour of the series of that number.
pub fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// Plots that share a legend.
#[derive(Debug)]
pub struct Group {
    /// Names in the order of the colours, each with whether it is dashed: baselines are.
    pub legend: Vec<(String, bool)>,
    /// The plots.
    pub figures: Vec<Figure>,
}

/// A plot.
#[derive(Debug)]
pub struct Figure {
    /// Its title.
    pub title: String,
    /// The drawing; empty without data.
    pub svg: String,
}

/// The most important figure of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// The figure with its unit.
    pub value: String,
    /// The meaning of the value.
    pub label: String,
    /// The figure's row, or the range over the rows.
    pub detail: String,
}

impl Section {
    /// Without plots and headline.
    pub const fn new(name: &'static str, title: &'static str, reading: &'static str) -> Self {
        Self { name, title, reading, plots: |_| Vec::new(), headline: |_, _| None }
    }

    /// With plots.
    #[must_use]
    pub const fn plots(self, plots: Plots) -> Self {
        Self { plots, ..self }
    }

    /// With a headline.
    #[must_use]
    pub const fn headline(self, headline: ToHeadline) -> Self {
        Self { headline, ..self }
    }

    /// The plots of those rows, without empty ones.
    pub fn figures(&self, rows: &[&Row]) -> Vec<Group> {
        let mut groups = (self.plots)(rows);
        for group in &mut groups {
            group.figures.retain(|figure| !figure.svg.is_empty());
        }
        groups.retain(|group| !group.figures.is_empty());
        groups
    }
}
