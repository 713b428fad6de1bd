//! A table of any form, or of a scenario's rows. All tables are drawn here, as plain text and as Markdown.

use super::Row;
use super::column::{self, Better, Column};
use super::format::escaped;
use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

const GAP: usize = 2;
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// See the module.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grid {
    /// Stands above it.
    pub title: String,
    pub(crate) headings: Vec<Heading>,
    /// Cells, as many as headings in each.
    pub rows: Vec<Vec<String>>,
    /// Sentences below it.
    pub notes: Vec<String>,
    shared: Vec<(&'static str, String)>,
}

/// Parameters in the report's header: they get a column only if rows differ.
const IN_THE_HEADER: [&Column; 2] = [column::COMMIT, column::MACHINE];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heading {
    pub(crate) text: String,
    pub(crate) numeric: bool,
    pub(crate) better: Better,
    expendable: u8,
}

impl Grid {
    /// The first column is text, the others are numbers.
    pub fn new<T: ToString>(title: impl Into<String>, headings: &[T]) -> Self {
        let heading = |(index, text): (usize, &T)| Heading {
            text: text.to_string(),
            numeric: index > 0,
            better: Better::Neither,
            expendable: 0,
        };
        Self { title: title.into(), headings: headings.iter().enumerate().map(heading).collect(), ..Self::default() }
    }

    /// The table of a scenario's rows, without a title. A column is shown if any row has data for it. A parameter with
    /// the same value in all rows is stated once above the table. Missing values are empty fields.
    pub(crate) fn of(rows: &[&Row]) -> Self {
        let mut grid = Self { rows: vec![Vec::new(); rows.len()], ..Self::default() };
        for column in shown(rows) {
            let cells: Vec<_> = rows.iter().map(|row| column.cell(row)).collect();
            let in_the_header = IN_THE_HEADER.contains(&column);
            let same = cells.windows(2).all(|pair| pair[0] == pair[1]) && (cells.len() > 1 || in_the_header);
            match &cells[..] {
                cells if cells.iter().all(Option::is_none) => {}
                [Some(_), ..] if same && in_the_header => {}
                [Some(value), ..] if same && column.better == Better::Neither => {
                    grid.shared.push((column.header, value.clone()));
                }
                cells => {
                    let (text, numeric) = (column.header.to_owned(), column.numeric());
                    let (better, expendable) = (column.better, column.expendable);
                    grid.headings.push(Heading { text, numeric, better, expendable });
                    for (row, cell) in grid.rows.iter_mut().zip(cells) {
                        row.push(cell.clone().unwrap_or_default());
                    }
                }
            }
        }
        grid
    }

    /// Text of the shared parameters; `value` escapes a value for the format.
    pub(crate) fn shared_in_words(&self, value: impl Fn(&str) -> String) -> Option<String> {
        let said: Vec<_> = self.shared.iter().map(|(header, shared)| format!("{header} {}", value(shared))).collect();
        (!said.is_empty()).then(|| format!("All rows: {}", said.join(", ")))
    }

    /// Adds a row.
    pub fn push(&mut self, fields: impl IntoIterator<Item = String>) {
        self.rows.push(fields.into_iter().collect());
    }

    /// With title and notes.
    pub fn to_text(&self) -> String {
        let (table, _) = self.drawn(usize::MAX);
        let mut text = vec![self.title.clone(), String::new(), table];
        text.extend(self.notes.iter().cloned());
        text.join("\n") + "\n"
    }

    pub(crate) fn drawn(&self, width: usize) -> (String, Vec<&str>) {
        let (kept, dropped) = self.fit(width);
        let cell = |index: usize, text: &str| {
            let numeric = self.headings[index].numeric;
            Cell::new(text).set_alignment(if numeric { CellAlignment::Right } else { CellAlignment::Left })
        };
        let mut table = Table::new();
        table.load_style(STYLE);
        table.set_header(kept.iter().map(|&index| cell(index, &self.headings[index].text)));
        for row in &self.rows {
            table.add_row(kept.iter().map(|&index| cell(index, &row[index])));
        }
        for (position, column) in table.column_iter_mut().enumerate() {
            // comfy-table adds one space between columns itself.
            column.set_padding((0, if position + 1 < kept.len() { GAP as u16 - 1 } else { 0 }));
        }
        (table.trim_fmt(), dropped)
    }

    fn fit(&self, width: usize) -> (Vec<usize>, Vec<&str>) {
        let widths: Vec<_> = (0..self.headings.len()).map(|index| self.width(index) + GAP).collect();
        let mut kept: Vec<_> = (0..self.headings.len()).collect();
        let mut dropped = Vec::new();
        while kept.iter().map(|&index| widths[index]).sum::<usize>() > width.saturating_add(GAP) {
            let least = kept.iter().copied().max_by_key(|&index| self.headings[index].expendable);
            let Some(least) = least.filter(|&index| self.headings[index].expendable > 0) else { break };
            kept.retain(|&index| index != least);
            dropped.push(self.headings[least].text.as_str());
        }
        (kept, dropped)
    }

    fn width(&self, index: usize) -> usize {
        let texts = self.rows.iter().map(|row| &row[index]).chain([&self.headings[index].text]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    }

    /// With title and notes.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("**{}**\n\n{}", escaped(&self.title), self.table_in_markdown());
        for note in &self.notes {
            text.extend(["\n", &escaped(note), "\n"]);
        }
        text
    }

    pub(crate) fn table_in_markdown(&self) -> String {
        let line =
            |fields: &mut dyn Iterator<Item = String>| format!("| {} |\n", fields.collect::<Vec<_>>().join(" | "));
        let marks = self.headings.iter().map(|heading| if heading.numeric { "---:" } else { "---" });
        let mut text = line(&mut self.headings.iter().map(|heading| escaped(&heading.text)));
        text += &line(&mut marks.map(str::to_owned));
        text.extend(self.rows.iter().map(|row| line(&mut row.iter().map(|field| escaped(field)))));
        text
    }
}

fn shown(rows: &[&Row]) -> Vec<&'static Column> {
    let mut shown: Vec<&Column> = Vec::new();
    for column in rows.iter().flat_map(|row| row.columns()) {
        for column in [Some(column), column.shows.copied()].into_iter().flatten() {
            if !shown.contains(&column) {
                shown.push(column);
            }
        }
    }
    shown.sort_by_key(|column| column.order);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caveat::{self, Caveat, Reason};
    use serde_json::Value;

    #[test]
    fn both_forms_show_everything() {
        let mut grid = Grid::new("Wait | us", &["servers", "0.5"]);
        grid.rows.push(vec!["1".to_owned(), "10.0".to_owned()]);
        grid.notes.push("Limit: servers.".to_owned());
        let markdown = "**Wait \\| us**\n\n| servers | 0.5 |\n| --- | ---: |\n| 1 | 10.0 |\n\nLimit: servers.\n";
        assert_eq!(grid.to_markdown(), markdown);
        let text = grid.to_text();
        assert!(text.starts_with("Wait | us\n\n") && text.ends_with("Limit: servers.\n"), "{text}");
        assert!(text.lines().any(|line| line.split_whitespace().eq(["1", "10.0"])), "{text}");
    }

    fn headers(grid: &Grid) -> Vec<&str> {
        grid.headings.iter().map(|heading| heading.text.as_str()).collect()
    }

    fn row(size: u64, op: &str) -> Row {
        Row::new("crypto", "sidecore").with(column::SIZE, size).with(column::OP, op).with(column::MACHINE, "M")
    }

    #[test]
    fn columns_without_data_are_not_shown_and_shared_parameters_said_once() {
        let (a, b) = (row(16, "sha-256"), row(64, "sha-256").with(column::OPS_PER_S, 1e6));
        let grid = Grid::of(&[&a, &b]);
        assert_eq!(headers(&grid), ["size", "ops/s"]);
        assert_eq!(grid.shared, [("variant", "sidecore".to_owned()), ("op", "sha-256".to_owned())]);
        assert_eq!(grid.rows, [["16 B", ""], ["64 B", "1.00 M/s"]]);
    }

    #[test]
    fn a_single_row_keeps_its_parameters_in_the_table() {
        let grid = Grid::of(&[&row(16, "sha-256")]);
        assert_eq!(headers(&grid), ["variant", "op", "size"]);
        assert!(grid.shared.is_empty());
    }

    #[test]
    fn a_variant_that_is_its_policys_name_is_not_repeated() {
        let policy = |name: &str| Row::new("notify", name).with(column::NOTIFY, name);
        assert_eq!(headers(&Grid::of(&[&policy("spin"), &policy("park")])), ["notify"]);
    }

    #[test]
    fn machines_get_a_column_where_they_differ() {
        let (a, b) = (row(16, "x"), row(16, "x").with(column::MACHINE, "N"));
        assert!(headers(&Grid::of(&[&a, &b])).contains(&"machine"));
    }

    #[test]
    fn every_field_of_a_row_has_a_column() {
        let value = |column: &Column| if column.takes(&2.5.into()) { 2.5.into() } else { Value::from(column.name) };
        let doubts = caveat::to_json(&[Caveat::new(Reason::Spread, "20 %")]);
        let valued = column::ALL.into_iter().filter(|column| !column.name.is_empty());
        let full = valued.fold(Row::default(), |row, column| row.with(column, value(column)));
        let full = full.with(column::VARIANT, "sidecore").with(column::DOUBTS, doubts);
        let grid = Grid::of(&[&full]);
        assert!(grid.rows[0].iter().all(|cell| !cell.is_empty()), "{grid:?}");
        let shown = column::ALL.iter().filter(|column| !column.header.is_empty()).count();
        assert_eq!(grid.headings.len() + IN_THE_HEADER.len(), shown);
    }
}
