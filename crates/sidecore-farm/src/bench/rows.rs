//! Results as rows: text tables, and JSON.

use crate::error::FarmError;
use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};
use serde::Serialize;
use sidecore_report::machine;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// Mean and percentiles of a time, us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Times {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Times {
    pub(crate) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let at = |part: f64| us(times[((times.len() as f64 * part).ceil() as usize).clamp(1, times.len()) - 1]);
        let mean = us(times.iter().sum::<Duration>()) / times.len() as f64;
        (!times.is_empty()).then(|| Self { mean, p50: at(0.5), p99: at(0.99) })
    }
}

/// CPU time of an event, us, by process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cpu {
    pub(crate) server: f64,
    /// 0 if nodes pull.
    pub(crate) dispatcher: f64,
    pub(crate) nodes: f64,
}

impl Cpu {
    pub(crate) fn sum(&self) -> f64 {
        self.server + self.dispatcher + self.nodes
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) scenario: &'static str,
    pub(crate) variant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) balance: Option<String>,
    pub(crate) devices: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ops_per_s: Option<f64>,
    /// Share of the nodes' capacity while there was enough work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) share: Option<f64>,
    /// The same until the last event had its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) share_to_the_end: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total_us: Option<Times>,
    /// From an event's publishing until a worker has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_us: Option<Times>,
    /// From a node's kill until other nodes had all of its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap_us: Option<Times>,
    /// From the kill of a dispatcher or of the server until the next assignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_us: Option<Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kills: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) committed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) twice: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dead: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) redone: Option<u64>,
    /// Answers to attempts that were void by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) late: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_us_per_op: Option<Cpu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) baseline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reach: Option<Goal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spread: Option<f64>,
    pub(crate) repeats: usize,
    pub(crate) seed: u64,
    pub(crate) library: String,
    #[serde(skip)]
    pub(crate) best: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    pub(crate) fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(least) => figure >= least,
            Self::AtMost(most) => figure <= most,
        }
    }

    fn shown(self, figure: Option<f64>) -> String {
        let (sign, bound) = match self {
            Self::AtLeast(least) => ("≥", least),
            Self::AtMost(most) => ("≤", most),
        };
        let verdict = if figure.is_some_and(|figure| self.holds(figure)) { ", held" } else { ", missed" };
        format!("{sign} {bound:.2}{verdict}")
    }
}

pub(crate) fn write(rows: &[Row], file: &Path) -> Result<(), FarmError> {
    let wrong = |error| FarmError::file("cannot write", file)(error);
    let mut out = BufWriter::new(File::create(file).map_err(wrong)?);
    for row in rows {
        let line = Line { row, commit: machine::commit(), machine: machine::describe() };
        serde_json::to_writer(&mut out, &line).map_err(|error| wrong(error.into()))?;
        out.write_all(b"\n").map_err(wrong)?;
    }
    out.flush().map_err(wrong)
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    row: &'a Row,
    commit: String,
    machine: String,
}

pub(crate) const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

type Column = (&'static str, fn(&Row) -> Option<String>);

const COLUMNS: [Column; 23] = [
    ("variant", |row| Some(row.variant.clone())),
    ("size", |row| row.size.map(|bytes| format!("{bytes} B"))),
    ("kills", |row| row.kills.map(count)),
    ("fed", |row| row.fed.map(count)),
    ("lost", |row| row.lost.map(count)),
    ("twice", |row| row.twice.map(count)),
    ("dead", |row| row.dead.map(count)),
    ("redone", |row| row.redone.map(count)),
    ("late", |row| row.late.map(count)),
    ("events/s", |row| row.ops_per_s.map(|rate| count(rate.round() as u64))),
    ("share", |row| row.share.map(|share| format!("{share:.3}{}", best(row)))),
    ("to the end", |row| row.share_to_the_end.map(|share| format!("{share:.3}"))),
    ("p50", |row| row.total_us.map(|times| time(times.p50))),
    ("p99", |row| row.total_us.map(|times| time(times.p99) + if row.share.is_none() { best(row) } else { "" })),
    ("to a worker p50", |row| row.queue_us.map(|times| time(times.p50))),
    ("to a worker p99", |row| row.queue_us.map(|times| time(times.p99))),
    ("gap p50", |row| row.gap_us.map(|times| time(times.p50))),
    ("gap p99", |row| row.gap_us.map(|times| time(times.p99))),
    ("stop p99", |row| row.stop_us.map(|times| time(times.p99))),
    ("CPU/event", |row| row.cpu_us_per_op.map(|cpu| time(cpu.sum()))),
    ("ratio", |row| row.ratio.map(|ratio| format!("{ratio:.2} x {}", row.baseline.as_deref().unwrap_or_default()))),
    ("reach", |row| row.reach.map(|reach| reach.shown(row.ratio.or(row.share)))),
    ("spread", |row| row.spread.map(|spread| format!("{:.0} %", spread * 100.0))),
];

fn best(row: &Row) -> &'static str {
    if row.best { " (best)" } else { "" }
}

pub(crate) fn table(rows: &[Row]) -> String {
    let shown: Vec<&Column> = COLUMNS.iter().filter(|(_, cell)| rows.iter().any(|row| cell(row).is_some())).collect();
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(shown.iter().map(|(heading, _)| *heading));
    for row in rows {
        table.add_row(shown.iter().enumerate().map(|(place, (_, cell))| {
            let side = if place == 0 { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(cell(row).unwrap_or_default()).set_alignment(side)
        }));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.trim_fmt()
}

pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.1} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_seen() {
        let times = Times::of((1..=200).map(Duration::from_micros).collect()).unwrap();
        assert!(
            (times.mean - 100.5).abs() < 1e-9 && (times.p50 - 100.0).abs() < 1e-9 && (times.p99 - 198.0).abs() < 1e-9
        );
        assert_eq!(Times::of(vec![]), None);
        let one = Times::of(vec![Duration::from_millis(2)]).unwrap();
        assert!((one.p50 - 2_000.0).abs() < 1e-9 && (one.p99 - 2_000.0).abs() < 1e-9);
    }

    #[test]
    fn a_line_of_json_has_what_the_row_has_and_nothing_else() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let row = Row { scenario: "share", variant: "tokens".into(), share: Some(0.5), ..Row::default() };
        write(&[row.clone(), row], file.path()).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((line["scenario"].as_str(), line["share"].as_f64()), (Some("share"), Some(0.5)));
            assert!(line.get("lost").is_none() && line["machine"].is_string() && line["commit"].is_string());
        }
        assert!(write(&[], Path::new("/nowhere/at/all")).unwrap_err().to_string().contains("/nowhere/at/all"));
    }

    #[test]
    fn a_table_shows_the_columns_that_have_something() {
        let reach = Some(Goal::AtLeast(0.95));
        let row =
            |variant: &str, share| Row { scenario: "share", variant: variant.into(), share, reach, ..Row::default() };
        let text = table(&[row("tokens", Some(0.96)), row("round-robin", Some(0.11))]);
        for word in ["variant", "tokens", "0.960", "≥ 0.95, held", "≥ 0.95, missed"] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(table(&[row("eft", None)]).contains("≥ 0.95, missed"), "without a figure it is missed as well");
        assert!(!text.contains("gap") && !text.contains("lost"), "{text}");
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([12.34, 1_500.0, 2_500_000.0].map(time), ["12.3 us", "1.5 ms", "2.50 s"]);
        assert!(Goal::AtMost(0.7).holds(0.7) && !Goal::AtMost(0.7).holds(0.71));
    }
}
