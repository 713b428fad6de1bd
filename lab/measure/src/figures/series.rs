//! Rows as series. Differing columns make the name of a series, and a name keeps its colour within a scenario.

use crate::plot::{Axis, Bar, Line, Range, Scale, Size, bars, lines};
use sidecore_report::format::counted;
use sidecore_report::{Better, Column, Row, column};

/// Name, scale and column of an axis.
pub type Along = (&'static str, Scale, &'static Column);

/// Most bars of a chart: above this number a table is more useful.
const MAX_BARS: usize = 40;

/// The columns that can distinguish the series of a scenario, the most important first.
const TELLING: [&Column; 10] = [
    column::VARIANT,
    column::NOTIFY,
    column::BALANCE,
    column::OP,
    column::DEVICES,
    column::CLIENTS,
    column::CPUS,
    column::JOBS,
    column::SIZE,
    column::LIBRARY,
];

fn words(row: &Row, key: &Column) -> Option<String> {
    let counts = [(column::CLIENTS, "client"), (column::CPUS, "CPU"), (column::JOBS, "job")];
    match counts.iter().find(|(known, _)| *known == key) {
        Some((_, noun)) => Some(counted(row.number(key)?, noun)),
        // Also if the table omits it.
        None if key == column::VARIANT => Some(row.variant().to_owned()),
        None => key.cell(row),
    }
}

/// Whether rows have different numbers in that column.
pub fn differ(rows: &[&Row], key: &'static Column) -> bool {
    rows.iter().any(|row| row.figure(key) != rows[0].figure(key))
}

/// Series of a scenario, with their colours.
pub struct Series<'r> {
    telling: Vec<&'static Column>,
    baselines: Vec<&'r str>,
    /// Names in the order of their colours, and whether all of a name is dashed.
    pub names: Vec<(String, bool)>,
}

impl<'r> Series<'r> {
    /// Series of these rows. Columns of axes do not distinguish them.
    pub fn of(rows: &[&'r Row], except: &[&'static Column]) -> Self {
        let differs = |key: &&'static Column| rows.iter().any(|row| words(row, key) != words(rows[0], key));
        let telling = TELLING.into_iter().filter(|key| !except.contains(key) && differs(key)).collect();
        Self {
            telling,
            baselines: rows.iter().filter_map(|row| row.text(column::BASELINE)).collect(),
            names: Vec::new(),
        }
    }

    /// Name of the row's series.
    pub fn name(&self, row: &Row) -> String {
        let mut parts: Vec<String> = Vec::new();
        for part in self.telling.iter().filter_map(|key| words(row, key)) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        if parts.is_empty() { row.variant().to_owned() } else { parts.join(", ") }
    }

    /// Lines over two axes; empty without points.
    pub fn line_plot(&mut self, size: Size, rows: &[&Row], x: Along, y: Along) -> String {
        let drawn = self.lines(rows, x.2, y.2);
        if drawn.is_empty() { String::new() } else { lines(size, &axis(x), &axis(y), &drawn) }
    }

    /// Bars, with a mark at `reference`; empty if there are none or too many.
    pub fn bar_plot(&mut self, width: u32, rows: &[&Row], along: Along, reference: Option<f64>) -> String {
        bar_chart(width, along, &self.bars(rows, along.2), reference)
    }

    /// The rows that have both values, as lines. Points are joined in the order of load, size and clients.
    pub fn lines(&mut self, rows: &[&Row], x: &'static Column, y: &'static Column) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| {
            let order = |key| a.number(key).unwrap_or(0.0).total_cmp(&b.number(key).unwrap_or(0.0));
            order(column::LOAD).then(order(column::SIZE)).then(order(column::CLIENTS))
        });
        for row in rows {
            let Some(point) = row.figure(x).zip(row.figure(y)) else { continue };
            let (colour, dashed) = self.colour(row);
            let range = row.range(y).map(|(least, most)| Range { at: point, least, most });
            let known = lines.iter().position(|line| line.colour == colour && line.dashed == dashed);
            let place = known.unwrap_or(lines.len());
            if known.is_none() {
                lines.push(Line { colour, dashed, ..Line::default() });
            }
            let line = &mut lines[place];
            // Rows that differ only in their baselines are one point.
            if line.points.last() != Some(&point) {
                line.points.push(point);
                line.ranges.extend(range);
            }
        }
        lines
    }

    /// A bar for each row with a number in that column. Rows that differ only in their baselines share one.
    fn bars(&mut self, rows: &[&Row], key: &'static Column) -> Vec<Bar> {
        let bar = |row: &&Row| {
            let (value, name, text) = (row.number(key)?, self.name(row), key.cell(row)?);
            Some(Bar { parts: vec![(self.colour(row).0, value)], name, text, range: row.range(key) })
        };
        let mut bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
        bars.dedup();
        bars
    }

    /// Index of its colour, and whether it is dashed.
    fn colour(&mut self, row: &Row) -> (usize, bool) {
        let (name, dashed) = (self.name(row), self.is_baseline(row));
        let number = self.names.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.names.push((name, dashed));
            self.names.len() - 1
        });
        // A colour shared by a baseline and its comparison is not dashed in the legend.
        self.names[number].1 &= dashed;
        (number, dashed)
    }

    fn is_baseline(&self, row: &Row) -> bool {
        self.baselines.contains(&row.variant())
    }
}

/// The axis states the better direction if it is the same for all its values.
fn axis((name, scale, key): Along) -> Axis {
    let better = match key.better {
        Better::More => ", more is better",
        Better::Less => ", less is better",
        Better::Depends | Better::Neither => "",
    };
    Axis::new(format!("{name}{better}"), scale, key.writer())
}

/// Draws bars; empty if there are none or too many.
pub fn bar_chart(width: u32, along: Along, drawn: &[Bar], reference: Option<f64>) -> String {
    if (1..=MAX_BARS).contains(&drawn.len()) { bars(width, &axis(along), drawn, reference) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, clients: u32, size: u64) -> Row {
        let row = Row::new("crypto", variant).with(column::CLIENTS, clients).with(column::SIZE, size);
        row.with(column::OPS_PER_S, size as f64)
    }

    #[test]
    fn a_name_says_what_differs_and_nothing_else() {
        let (a, b) = (row("sidecore", 1, 16), row("sidecore", 2, 64));
        let series = Series::of(&[&a, &b], &[column::SIZE]);
        assert_eq!([series.name(&a), series.name(&b)], ["1 client", "2 clients"]);
        assert_eq!(Series::of(&[&a], &[]).name(&a), "sidecore");
    }

    #[test]
    fn an_axis_says_which_way_is_better() {
        let name = |key| axis(("it", Scale::Linear, key)).name;
        assert_eq!(
            [column::OPS_PER_S, column::TOTAL_P50, column::SIZE].map(name),
            ["it, more is better", "it, less is better", "it"]
        );
    }

    #[test]
    fn the_same_word_is_not_said_twice() {
        let policy = |name: &str| Row::new("notify", name).with(column::NOTIFY, name);
        let (a, b) = (policy("spin"), policy("park"));
        assert_eq!(Series::of(&[&a, &b], &[]).name(&b), "park");
    }

    #[test]
    fn a_series_keeps_its_colour_from_plot_to_plot() {
        let rows = [row("a", 1, 16), row("b", 1, 16), row("a", 1, 64)];
        let rows: Vec<_> = rows.iter().collect();
        let mut series = Series::of(&rows, &[column::SIZE]);
        let both = series.lines(&rows, column::OPS_PER_S, column::OPS_PER_S);
        assert_eq!(both[0].points, [(16.0, 16.0), (64.0, 64.0)]);
        let only_b = series.lines(&rows[1..2], column::OPS_PER_S, column::OPS_PER_S);
        assert_eq!(only_b[0].colour, both[1].colour);
        assert_eq!(series.names.len(), 2);
    }

    #[test]
    fn the_rows_that_others_name_as_baseline_are_dashed() {
        let other = row("sidecore", 1, 16).with(column::BASELINE, "in process");
        let own = row("in process", 1, 16);
        let series = Series::of(&[&other, &own], &[]);
        assert!(series.is_baseline(&own) && !series.is_baseline(&other));
    }
}
