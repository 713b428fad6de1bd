//! Which columns a scenario's table has: the same for terminal, Markdown and page.
//!
//! A column is shown if any row has data for it. A parameter with the same value in all rows is said once above the
//! table instead.

use super::Row;
use super::column::{COLUMNS, Column, Key};
use super::grid::Grid;

/// A table of one scenario.
#[derive(Debug)]
pub(crate) struct Table {
    /// Parameters that all rows share, with their values.
    pub(crate) shared: Vec<(&'static str, String)>,
    /// The columns shown, and a row of cells for each row; what a row does not have is empty.
    pub(crate) grid: Grid,
}

impl Table {
    /// The table of those rows.
    pub(crate) fn of(rows: &[&Row]) -> Self {
        let grid = Grid { rows: vec![Vec::new(); rows.len()], ..Grid::default() };
        let mut table = Self { shared: Vec::new(), grid };
        for column in &COLUMNS {
            let values: Vec<_> = rows.iter().map(|row| column.cell(row)).collect();
            match shared_value(column, &values) {
                _ if values.iter().all(Option::is_none) => {}
                Some(_) if IN_THE_HEADER.contains(&column.key) => {}
                Some(value) => table.shared.push((column.header, value.to_owned())),
                None => table.push(column, values),
            }
        }
        table
    }

    /// What is said of all rows, with the values as they may stand in that format.
    pub(crate) fn shared_in_words(&self, value: impl Fn(&str) -> String) -> Option<String> {
        let said: Vec<_> = self.shared.iter().map(|(header, shared)| format!("{header} {}", value(shared))).collect();
        (!said.is_empty()).then(|| format!("All rows: {}", said.join(", ")))
    }

    fn push(&mut self, column: &Column, values: Vec<Option<String>>) {
        self.grid.headings.push(column.into());
        for (cells, value) in self.grid.rows.iter_mut().zip(values) {
            cells.push(value.unwrap_or_default());
        }
    }
}

/// Parameters that the report itself names: they get a column only where rows differ.
const IN_THE_HEADER: [Key; 2] = [Key::Commit, Key::Machine];

fn shared_value<'v>(column: &Column, values: &'v [Option<String>]) -> Option<&'v str> {
    let first = values.first()?.as_deref()?;
    let same = values.iter().all(|value| value.as_deref() == Some(first));
    (column.parameter && same && (values.len() > 1 || IN_THE_HEADER.contains(&column.key))).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(table: &Table) -> Vec<&str> {
        table.grid.headings.iter().map(|heading| heading.text.as_str()).collect()
    }

    fn row(size: u64, op: &str) -> Row {
        Row::new("crypto", "sidecore").with(Key::Size, size).with(Key::Op, op).with(Key::Machine, "M")
    }

    #[test]
    fn columns_without_data_are_not_shown_and_shared_parameters_said_once() {
        let (a, b) = (row(16, "sha-256"), row(64, "sha-256").with(Key::OpsPerS, 1e6));
        let table = Table::of(&[&a, &b]);
        assert_eq!(headers(&table), ["size", "ops/s"]);
        assert_eq!(table.shared, [("variant", "sidecore".to_owned()), ("op", "sha-256".to_owned())]);
        assert_eq!(table.grid.rows, [["16 B", ""], ["64 B", "1.00 M/s"]]);
    }

    #[test]
    fn a_single_row_keeps_its_parameters_in_the_table() {
        let table = Table::of(&[&row(16, "sha-256")]);
        assert_eq!(headers(&table), ["variant", "op", "size"]);
        assert!(table.shared.is_empty());
    }

    #[test]
    fn a_variant_that_is_its_policys_name_is_not_repeated() {
        let policy = |name: &str| Row::new("notify", name).with(Key::Notify, name);
        assert_eq!(headers(&Table::of(&[&policy("spin"), &policy("park")])), ["notify"]);
    }

    #[test]
    fn machines_get_a_column_where_they_differ() {
        let (a, b) = (row(16, "x"), row(16, "x").with(Key::Machine, "N"));
        assert!(headers(&Table::of(&[&a, &b])).contains(&"machine"));
    }

    #[test]
    fn every_field_of_a_row_has_a_column() {
        let full = super::super::tests::full_row();
        let table = Table::of(&[&full]);
        assert!(table.grid.rows[0].iter().all(|cell| !cell.is_empty()), "{table:?}");
        let shown = COLUMNS.iter().filter(|column| !column.header.is_empty()).count();
        assert_eq!(table.grid.headings.len() + IN_THE_HEADER.len(), shown);
    }
}
