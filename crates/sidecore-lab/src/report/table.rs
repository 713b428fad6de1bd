//! Which columns a scenario's table has, and what stands in them: the same for terminal, Markdown and page.
//!
//! A column is shown if any row has data for it. A parameter with the same value in all rows is said once above the
//! table instead.

use super::Row;
use super::format::{bytes, clean, count, micros, percent, plain, rate, ratio, throughput};

/// A column that a table may have.
#[derive(Debug)]
pub(crate) struct Column {
    /// Heading.
    pub(crate) header: &'static str,
    /// Numbers are aligned to the right.
    pub(crate) numeric: bool,
    /// Columns of the largest number go first where there is no room for all; zero stays.
    pub(crate) expendable: u8,
    /// What was set, not what was found.
    parameter: bool,
    cell: fn(&Row) -> Option<String>,
}

/// A table of one scenario.
#[derive(Debug)]
pub(crate) struct Table {
    /// Parameters that all rows share, with their values.
    pub(crate) shared: Vec<(&'static str, String)>,
    /// The columns shown.
    pub(crate) columns: Vec<&'static Column>,
    /// A row of cells for each row; what a row does not have is empty.
    pub(crate) cells: Vec<Vec<String>>,
}

impl Table {
    /// The table of those rows.
    pub(crate) fn of(rows: &[&Row]) -> Self {
        let mut table = Self { shared: Vec::new(), columns: Vec::new(), cells: vec![Vec::new(); rows.len()] };
        for column in &COLUMNS {
            let values: Vec<_> = rows.iter().map(|row| (column.cell)(row)).collect();
            match shared_value(column, &values) {
                _ if values.iter().all(Option::is_none) => {}
                Some(_) if IN_THE_HEADER.contains(&column.header) => {}
                Some(value) => table.shared.push((column.header, value.to_owned())),
                None => table.push(column, values),
            }
        }
        table
    }

    fn push(&mut self, column: &'static Column, values: Vec<Option<String>>) {
        self.columns.push(column);
        for (cells, value) in self.cells.iter_mut().zip(values) {
            cells.push(value.unwrap_or_default());
        }
    }
}

/// Parameters that the report itself names: they get a column only where rows differ.
const IN_THE_HEADER: [&str; 2] = ["commit", "machine"];

fn shared_value<'v>(column: &Column, values: &'v [Option<String>]) -> Option<&'v str> {
    let first = values.first()?.as_deref()?;
    let same = values.iter().all(|value| value.as_deref() == Some(first));
    (column.parameter && same && (values.len() > 1 || IN_THE_HEADER.contains(&column.header))).then_some(first)
}

const fn parameter(header: &'static str, expendable: u8, cell: fn(&Row) -> Option<String>) -> Column {
    Column { header, numeric: false, expendable, parameter: true, cell }
}

const fn number(header: &'static str, expendable: u8, cell: fn(&Row) -> Option<String>) -> Column {
    Column { header, numeric: true, expendable, parameter: false, cell }
}

const COLUMNS: [Column; 37] = [
    parameter("variant", 0, variant),
    parameter("op", 0, |row| text(row.op.as_ref())),
    parameter("library", 5, |row| text(row.library.as_ref())),
    parameter("notify", 0, |row| text(row.notify.as_ref())),
    parameter("balance", 0, |row| text(row.balance.as_ref())),
    parameter("devices", 1, |row| text(row.devices.as_ref())),
    Column { numeric: true, ..parameter("clients", 0, |row| row.clients.map(|n| n.to_string())) },
    Column { numeric: true, ..parameter("jobs", 0, |row| row.jobs.map(|n| n.to_string())) },
    Column { numeric: true, ..parameter("size", 0, |row| row.size.map(bytes)) },
    Column { numeric: true, ..parameter("load", 0, |row| row.load.map(plain)) },
    number("ops/s", 0, |row| row.ops_per_s.map(rate)),
    number("payload", 3, |row| row.mbit_per_s.map(throughput)),
    number("mean", 8, |row| row.total_us.map(|t| micros(t.mean))),
    number("p50", 1, |row| row.total_us.map(|t| micros(t.p50))),
    number("p99", 1, |row| row.total_us.map(|t| micros(t.p99))),
    number("queue", 6, |row| row.queue_us.map(|t| micros(t.mean))),
    number("device", 6, |row| row.device_us.map(|t| micros(t.mean))),
    number("host", 8, |row| row.host_us.map(|t| micros(t.mean))),
    number("deliver", 6, |row| row.deliver_us.map(|t| micros(t.mean))),
    number("client CPU", 4, |row| row.cpu_us_per_op.map(|cpu| micros(cpu.client))),
    number("service CPU", 4, |row| row.cpu_us_per_op.map(|cpu| micros(cpu.service))),
    number("empty polls", 9, |row| row.empty_polls.map(count)),
    number("wake-ups", 7, |row| row.wakeups_sent.map(count)),
    number("saved", 8, |row| row.wakeups_saved.map(count)),
    number("ratio", 0, |row| row.ratio.map(ratio)),
    number("reach", 1, reach),
    number("queue ±", 2, |row| row.changes?.queue.map(change)),
    number("device ±", 2, |row| row.changes?.device.map(change)),
    number("total ±", 2, |row| row.changes?.total.map(change)),
    number("ops/s ±", 2, |row| row.changes?.throughput.map(change)),
    parameter("baseline", 2, |row| text(row.baseline.as_ref())),
    number("spread", 5, |row| row.spread.map(percent)),
    Column { numeric: true, ..parameter("repeats", 9, |row| row.repeats.map(|n| n.to_string())) },
    Column { numeric: true, ..parameter("seed", 9, |row| row.seed.map(|n| n.to_string())) },
    parameter("pinned", 10, |row| text(row.pinned.as_ref())),
    parameter("commit", 10, |row| text(row.commit.as_ref())),
    parameter("machine", 10, |row| text(row.machine.as_ref())),
];

/// A variant that only repeats the name of its policy says nothing.
fn variant(row: &Row) -> Option<String> {
    let said = [&row.notify, &row.balance].into_iter().any(|policy| policy.as_ref() == Some(&row.variant));
    (!said).then(|| clean(&row.variant))
}

/// What the ratio is to be, and whether it is.
fn reach(row: &Row) -> Option<String> {
    let reach = row.reach?;
    let bounds = [("≥", reach.at_least), ("≤", reach.at_most)].into_iter();
    let said: Vec<_> = bounds.filter_map(|(sign, bound)| Some(format!("{sign} {}", ratio(bound?)))).collect();
    let verdict = match row.ratio {
        Some(seen) if reach.holds(seen) => ", held",
        Some(_) => ", missed",
        None => "",
    };
    Some(said.join(" and ") + verdict)
}

fn change(percent: f64) -> String {
    format!("{percent:+.1} %")
}

fn text(value: Option<&String>) -> Option<String> {
    value.map(|text| clean(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(table: &Table) -> Vec<&str> {
        table.columns.iter().map(|column| column.header).collect()
    }

    fn row(size: u64, op: &str) -> Row {
        Row { size: Some(size), op: Some(op.into()), machine: Some("M".into()), ..Row::new("crypto", "sidecore") }
    }

    #[test]
    fn columns_without_data_are_not_shown_and_shared_parameters_said_once() {
        let (a, mut b) = (row(16, "sha-256"), row(64, "sha-256"));
        b.ops_per_s = Some(1e6);
        let table = Table::of(&[&a, &b]);
        assert_eq!(headers(&table), ["size", "ops/s"]);
        assert_eq!(table.shared, [("variant", "sidecore".to_owned()), ("op", "sha-256".to_owned())]);
        assert_eq!(table.cells, [["16 B", ""], ["64 B", "1.00 M/s"]]);
    }

    #[test]
    fn a_single_row_keeps_its_parameters_in_the_table() {
        let table = Table::of(&[&row(16, "sha-256")]);
        assert_eq!(headers(&table), ["variant", "op", "size"]);
        assert!(table.shared.is_empty());
    }

    #[test]
    fn a_variant_that_is_its_policys_name_is_not_repeated() {
        let policy = |name: &str| Row { notify: Some(name.into()), ..Row::new("notify", name) };
        assert_eq!(headers(&Table::of(&[&policy("spin"), &policy("park")])), ["notify"]);
    }

    #[test]
    fn machines_get_a_column_where_they_differ() {
        let (a, b) = (row(16, "x"), Row { machine: Some("N".into()), ..row(16, "x") });
        assert!(headers(&Table::of(&[&a, &b])).contains(&"machine"));
    }

    #[test]
    fn every_field_of_a_row_has_a_column() {
        let full = super::super::tests::full_row();
        let table = Table::of(&[&full]);
        assert!(table.cells[0].iter().all(|cell| !cell.is_empty()), "{table:?}");
        let in_header = IN_THE_HEADER.len();
        assert_eq!(table.columns.len() + in_header, COLUMNS.len());
    }
}
