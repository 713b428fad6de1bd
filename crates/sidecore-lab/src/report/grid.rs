//! A table of any form, as plain text and as Markdown.

use super::markdown::escaped;
use super::text::STYLE;
use comfy_table::{Cell, CellAlignment, Table};

/// A table with a title. The first column is text, the others are numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Grid {
    /// What it shows.
    pub(crate) title: String,
    /// Headings of all columns.
    pub(crate) headings: Vec<String>,
    /// Fields, row by row.
    pub(crate) rows: Vec<Vec<String>>,
    /// What must be said under it.
    pub(crate) notes: Vec<String>,
}

impl Grid {
    /// An empty table.
    pub(crate) fn new(title: impl Into<String>, headings: &[&str]) -> Self {
        let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
        Self { title: title.into(), headings, ..Self::default() }
    }

    /// For a terminal.
    pub(crate) fn to_text(&self) -> String {
        let mut table = Table::new();
        table.load_style(STYLE);
        table.set_header(cells(&self.headings));
        for row in &self.rows {
            table.add_row(cells(row));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 1));
        }
        let mut text = vec![self.title.clone(), String::new(), table.trim_fmt()];
        text.extend(self.notes.iter().cloned());
        text.join("\n") + "\n"
    }

    /// For a page.
    pub(crate) fn to_markdown(&self) -> String {
        let line = |fields: &[String]| {
            format!("| {} |\n", fields.iter().map(|field| escaped(field)).collect::<Vec<_>>().join(" | "))
        };
        let marks: Vec<&str> = (0..self.headings.len()).map(|i| if i == 0 { "---" } else { "---:" }).collect();
        let mut text = format!("**{}**\n\n{}| {} |\n", escaped(&self.title), line(&self.headings), marks.join(" | "));
        text.extend(self.rows.iter().map(|row| line(row)));
        for note in &self.notes {
            text.extend(["\n", &escaped(note), "\n"]);
        }
        text
    }
}

fn cells(fields: &[String]) -> Vec<Cell> {
    let align = |i| if i == 0 { CellAlignment::Left } else { CellAlignment::Right };
    fields.iter().enumerate().map(|(i, field)| Cell::new(field).set_alignment(align(i))).collect()
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
