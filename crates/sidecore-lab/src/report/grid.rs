//! A table of any form: the one place where tables are drawn, as plain text and as Markdown.

use super::column::{Better, Column};
use super::format::escaped;
use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

/// Columns are this far apart in text.
const GAP: usize = 2;
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table with a title.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Grid {
    /// What it shows.
    pub(crate) title: String,
    /// Headings of all columns.
    pub(crate) headings: Vec<Heading>,
    /// Fields, row by row.
    pub(crate) rows: Vec<Vec<String>>,
    /// What must be said under it.
    pub(crate) notes: Vec<String>,
}

/// What stands above a column, and how the column is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heading {
    /// The words.
    pub(crate) text: String,
    /// Numbers are aligned to the right.
    pub(crate) numeric: bool,
    /// Which way is better.
    pub(crate) better: Better,
    /// As in [`Column`].
    expendable: u8,
}

impl From<&Column> for Heading {
    fn from(column: &Column) -> Self {
        let (text, numeric) = (column.header.to_owned(), column.numeric());
        Self { text, numeric, better: column.better, expendable: column.expendable }
    }
}

impl Grid {
    /// An empty table. Its first column is text, the others are numbers.
    pub(crate) fn new<T: ToString>(title: impl Into<String>, headings: &[T]) -> Self {
        let heading = |(index, text): (usize, &T)| Heading {
            text: text.to_string(),
            numeric: index > 0,
            better: Better::Neither,
            expendable: 0,
        };
        Self { title: title.into(), headings: headings.iter().enumerate().map(heading).collect(), ..Self::default() }
    }

    /// With that row under the others.
    pub(crate) fn push(&mut self, fields: impl IntoIterator<Item = String>) {
        self.rows.push(fields.into_iter().collect());
    }

    /// For a terminal, with title and notes.
    pub(crate) fn to_text(&self) -> String {
        let (table, _) = self.drawn(usize::MAX);
        let mut text = vec![self.title.clone(), String::new(), table];
        text.extend(self.notes.iter().cloned());
        text.join("\n") + "\n"
    }

    /// The bare table for a terminal of that width, and the headings that had no room there.
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

    /// The indices of the columns that fit, and the headings of those that do not.
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

    /// For a page, with title and notes.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = format!("**{}**\n\n{}", escaped(&self.title), self.table_in_markdown());
        for note in &self.notes {
            text.extend(["\n", &escaped(note), "\n"]);
        }
        text
    }

    /// The bare table for a page.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
