//! `sidecore sim waiting`: notify policies on gaps of every kind.

use super::output;
use crate::args::Waiting;
use crate::report::{Grid, digits};
use serde::Serialize;
use sidecore_sim::waiting::{self, Line};

pub(super) fn run(args: &Waiting) -> Result<bool, String> {
    let lines = waiting::table(args.seed);
    let grid = grid(&lines);
    let rows: Vec<Row> = lines.iter().map(Row::of).collect();
    output::show(&grid.to_text(), &args.output, &rows, || page(args, &grid), &[])?;
    Ok(true)
}

fn page(args: &Waiting, grid: &Grid) -> String {
    format!("# Waiting\n\nSimulated by `sidecore sim waiting --seed {}`.\n\n{}", args.seed, grid.to_markdown())
}

fn grid(lines: &[Line]) -> Grid {
    let headings = [
        "gaps",
        "policy",
        "cost / optimum",
        "worst",
        "CPU us",
        "late p50 us",
        "late p99 us",
        "CPU / park",
        "p99 / spin",
    ];
    let mut grid = Grid::new("What waiting costs, and how late it is", &headings);
    let us = |ns: u64| digits(ns as f64 / 1e3);
    let ratio = |ratio: f64| format!("{ratio:.2}");
    for line in lines {
        grid.rows.push(vec![
            line.process.to_string(),
            line.policy.to_string(),
            ratio(line.ratio),
            ratio(line.worst_ratio),
            digits(line.cpu_per_wait / 1e3),
            us(line.added_p50),
            us(line.added_p99),
            ratio(line.cpu_to_park),
            ratio(line.p99_to_spin),
        ]);
    }
    grid.notes.push(
        "optimum: the least CPU time for gaps whose lengths are known before. worst: at any point of a run.".to_owned(),
    );
    grid
}

/// A line as JSON.
#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    process: String,
    notify: String,
    waits: u64,
    ratio: f64,
    worst_ratio: f64,
    cpu_us_per_wait: f64,
    added_p50_us: f64,
    added_p99_us: f64,
    cpu_to_park: f64,
    p99_to_spin: f64,
}

impl Row {
    fn of(line: &Line) -> Self {
        Self {
            scenario: "waiting",
            process: line.process.to_string(),
            notify: line.policy.to_string(),
            waits: line.waits,
            ratio: line.ratio,
            worst_ratio: line.worst_ratio,
            cpu_us_per_wait: line.cpu_per_wait / 1e3,
            added_p50_us: line.added_p50 as f64 / 1e3,
            added_p99_us: line.added_p99 as f64 / 1e3,
            cpu_to_park: line.cpu_to_park,
            p99_to_spin: line.p99_to_spin,
        }
    }
}
