//! Results as rows: text tables, and JSON.

use super::columns::{SHARE, SHOWN, TOTAL_P99};
use crate::farm::error::FarmError;
use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use sidecore_report::{Column, Row, Times, column, machine};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

pub(crate) fn percentiles(mut times: Vec<Duration>) -> Option<Times> {
    times.sort_unstable();
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    let at = |part: f64| us(times[((times.len() as f64 * part).ceil() as usize).clamp(1, times.len()) - 1]);
    let mean = us(times.iter().sum::<Duration>()) / times.len() as f64;
    (!times.is_empty()).then(|| Times { mean, p50: at(0.5), p99: at(0.99) })
}

pub(crate) fn write(rows: &[Row], file: &Path) -> Result<(), FarmError> {
    let wrong = |error| FarmError::file("cannot write", file)(error);
    let about = Row::default().with(column::COMMIT, machine::commit()).with(column::MACHINE, machine::describe());
    let mut out = BufWriter::new(File::create(file).map_err(wrong)?);
    for row in rows {
        serde_json::to_writer(&mut out, &about.clone().and(row)).map_err(|error| wrong(error.into()))?;
        out.write_all(b"\n").map_err(wrong)?;
    }
    out.flush().map_err(wrong)
}

pub(crate) const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// `best` is the place of a row that is marked as such.
pub(crate) fn table(rows: &[&Row], best: Option<usize>) -> String {
    let has_any = |column: &&Column| rows.iter().any(|row| column.cell(row).is_some());
    let shown: Vec<_> = SHOWN.into_iter().filter(has_any).collect();
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(shown.iter().map(|column| column.header));
    for (number, row) in rows.iter().enumerate() {
        let marked = if row.number(SHARE).is_some() { SHARE } else { TOTAL_P99 };
        table.add_row(shown.iter().enumerate().map(|(place, &column)| {
            let side = if place == 0 { CellAlignment::Left } else { CellAlignment::Right };
            let mark = if best == Some(number) && column == marked { " (best)" } else { "" };
            Cell::new(column.cell(row).unwrap_or_default() + mark).set_alignment(side)
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_seen() {
        let times = percentiles((1..=200).map(Duration::from_micros).collect()).unwrap();
        assert!(
            (times.mean - 100.5).abs() < 1e-9 && (times.p50 - 100.0).abs() < 1e-9 && (times.p99 - 198.0).abs() < 1e-9
        );
        assert_eq!(percentiles(vec![]), None);
        let one = percentiles(vec![Duration::from_millis(2)]).unwrap();
        assert!((one.p50 - 2_000.0).abs() < 1e-9 && (one.p99 - 2_000.0).abs() < 1e-9);
    }

    #[test]
    fn a_line_of_json_has_what_the_row_has_and_nothing_else() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let row = Row::new("share", "tokens").with(SHARE, 0.5).with(column::AT_LEAST, 0.95);
        write(&[row.clone(), row], file.path()).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((line["scenario"].as_str(), line["share"].as_f64()), (Some("share"), Some(0.5)));
            assert_eq!(line["reach"], serde_json::json!({ "at_least": 0.95 }));
            assert!(line.get("lost").is_none() && line["machine"].is_string() && line["commit"].is_string());
        }
        assert!(write(&[], Path::new("/nowhere/at/all")).unwrap_err().to_string().contains("/nowhere/at/all"));
    }

    #[test]
    fn a_table_shows_the_columns_that_have_something() {
        let row =
            |variant, share: Option<f64>| Row::new("share", variant).with(SHARE, share).with(column::AT_LEAST, 0.95);
        let text = table(&[&row("tokens", Some(0.96)), &row("round-robin", Some(0.11))], Some(1));
        for word in ["variant", "tokens", "0.960", "0.110 (best)", "≥ 0.95, held", "≥ 0.95, missed"] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(table(&[&row("eft", None)], None).contains("≥ 0.95, missed"), "without a figure it is missed as well");
        assert!(!text.contains("gap") && !text.contains("lost"), "{text}");
    }
}
