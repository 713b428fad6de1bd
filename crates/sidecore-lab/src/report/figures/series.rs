//! Rows as series: what tells them apart is their name, and a name keeps its colour within a scenario.

use super::super::Row;
use super::super::column::Key;
use super::super::format::counted;
use super::super::plot::{Bar, Line};
use super::{Entry, entry};

/// The columns that can tell the series of a scenario apart, the most telling first.
const TELLING: [Key; 9] =
    [Key::Variant, Key::Notify, Key::Balance, Key::Op, Key::Devices, Key::Clients, Key::Jobs, Key::Size, Key::Library];

/// A value as a part of a series's name.
fn words(row: &Row, key: Key) -> Option<String> {
    match key {
        Key::Clients => Some(counted(row.number(key)?, "client")),
        Key::Jobs => Some(counted(row.number(key)?, "job")),
        // Also where the table leaves it out.
        Key::Variant => Some(row.variant().to_owned()),
        _ => key.column().cell(row),
    }
}

/// How the rows of a scenario are told apart.
pub(super) struct Series<'r> {
    telling: Vec<Key>,
    baselines: Vec<&'r str>,
}

impl<'r> Series<'r> {
    /// Tells those rows apart by whatever differs among them, but for the fields `except`, which the plot shows itself.
    pub(super) fn of(rows: &[&'r Row], except: &[Key]) -> Self {
        let differs = |key: &Key| rows.iter().any(|row| words(row, *key) != words(rows[0], *key));
        let telling = TELLING.into_iter().filter(|key| !except.contains(key) && differs(key)).collect();
        Self { telling, baselines: rows.iter().filter_map(|row| row.text(Key::Baseline)).collect() }
    }

    /// The name of the series that the row belongs to.
    pub(super) fn name(&self, row: &Row) -> String {
        let mut parts: Vec<String> = Vec::new();
        for part in self.telling.iter().filter_map(|key| words(row, *key)) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        if parts.is_empty() { row.variant().to_owned() } else { parts.join(", ") }
    }

    /// The rows that have both values, as lines whose points are joined in the order of load, size and clients.
    pub(super) fn lines(
        &self,
        palette: &mut Palette,
        rows: &[&Row],
        x: impl Fn(&Row) -> Option<f64>,
        y: impl Fn(&Row) -> Option<f64>,
    ) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| {
            let order = |key| a.number(key).unwrap_or(0.0).total_cmp(&b.number(key).unwrap_or(0.0));
            order(Key::Load).then(order(Key::Size)).then(order(Key::Clients))
        });
        for row in &rows {
            let Some(point) = x(row).zip(y(row)) else { continue };
            let colour = palette.number(&self.name(row), self.is_baseline(row));
            let dashed = self.is_baseline(row);
            match lines.iter_mut().find(|line| line.colour == colour && line.dashed == dashed) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { colour, dashed, points: vec![point] }),
            }
        }
        lines
    }

    /// A bar for each row that has a number in that column; one for rows that only name different baselines.
    pub(super) fn bars(&self, palette: &mut Palette, rows: &[&Row], key: Key) -> Vec<Bar> {
        let bar = |row: &&Row| {
            let (value, name, text) = (row.number(key)?, self.name(row), key.column().cell(row)?);
            Some(Bar { parts: vec![(palette.number(&name, self.is_baseline(row)), value)], name, text })
        };
        let mut bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
        bars.dedup();
        bars
    }

    fn is_baseline(&self, row: &Row) -> bool {
        self.baselines.contains(&row.variant())
    }
}

/// Colours by name, in the order in which names are first asked for.
#[derive(Debug, Default)]
pub(super) struct Palette {
    names: Vec<(String, bool)>,
}

impl Palette {
    fn number(&mut self, name: &str, dashed: bool) -> usize {
        let number = self.names.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.names.push((name.to_owned(), dashed));
            self.names.len() - 1
        });
        // A colour that a yardstick shares with what is measured against it stands for both.
        self.names[number].1 &= dashed;
        number
    }

    /// What was asked for, as a legend.
    pub(super) fn legend(&self) -> Vec<Entry> {
        self.names.iter().enumerate().map(|(number, (name, dashed))| entry(number, *dashed, name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &str, clients: u32, size: u64) -> Row {
        let row = Row::new("crypto", variant).with(Key::Clients, clients).with(Key::Size, size);
        row.with(Key::OpsPerS, size as f64)
    }

    #[test]
    fn a_name_says_what_differs_and_nothing_else() {
        let (a, b) = (row("sidecore", 1, 16), row("sidecore", 2, 64));
        let series = Series::of(&[&a, &b], &[Key::Size]);
        assert_eq!([series.name(&a), series.name(&b)], ["1 client", "2 clients"]);
        assert_eq!(Series::of(&[&a], &[]).name(&a), "sidecore");
    }

    #[test]
    fn the_same_word_is_not_said_twice() {
        let policy = |name: &str| Row::new("notify", name).with(Key::Notify, name);
        let (a, b) = (policy("spin"), policy("park"));
        assert_eq!(Series::of(&[&a, &b], &[]).name(&b), "park");
    }

    #[test]
    fn a_series_keeps_its_colour_from_plot_to_plot() {
        let rows = [row("a", 1, 16), row("b", 1, 16), row("a", 1, 64)];
        let rows: Vec<_> = rows.iter().collect();
        let series = Series::of(&rows, &[Key::Size]);
        let mut palette = Palette::default();
        let value = |row: &Row| row.number(Key::OpsPerS);
        let both = series.lines(&mut palette, &rows, value, value);
        assert_eq!(both[0].points, [(16.0, 16.0), (64.0, 64.0)]);
        let only_b = series.lines(&mut palette, &rows[1..2], value, value);
        assert_eq!(only_b[0].colour, both[1].colour);
        assert_eq!(palette.legend().len(), 2);
    }

    #[test]
    fn the_rows_that_others_name_as_baseline_are_dashed() {
        let other = row("sidecore", 1, 16).with(Key::Baseline, "in process");
        let own = row("in process", 1, 16);
        let series = Series::of(&[&other, &own], &[]);
        assert!(series.is_baseline(&own) && !series.is_baseline(&other));
    }
}
