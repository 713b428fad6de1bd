//! `sidecore sim waiting`: notify policies on gaps of every kind.

use super::output::{Members, show};
use crate::args::Output;
use crate::report::{Grid, digits};
use sidecore_sim::waiting::{self, Line};

const HEADINGS: [&str; 9] =
    ["gaps", "policy", "cost / optimum", "worst", "CPU us", "late p50 us", "late p99 us", "CPU / park", "p99 / spin"];

pub(super) fn run(seed: u64, files: &Output) -> Result<bool, String> {
    let lines = waiting::table(seed);
    let rows: Vec<_> = lines.iter().map(members).collect();
    let command = format!("waiting --seed {seed}");
    show(files, &rows, ("Waiting", &command), &[grid(&lines)])
}

fn grid(lines: &[Line]) -> Grid {
    let mut grid = Grid::new("What waiting costs, and how late it is", &HEADINGS);
    let us = |ns: u64| digits(ns as f64 / 1e3);
    let ratio = |ratio: f64| format!("{ratio:.2}");
    for line in lines {
        grid.push([
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
    let words = "optimum: the least CPU time for gaps whose lengths are known before. worst: at any point of a run.";
    grid.notes.push(words.to_owned());
    grid
}

fn members(line: &Line) -> Members<11> {
    Members([
        ("scenario", "waiting".into()),
        ("process", line.process.to_string().into()),
        ("notify", line.policy.to_string().into()),
        ("waits", line.waits.into()),
        ("ratio", line.ratio.into()),
        ("worst_ratio", line.worst_ratio.into()),
        ("cpu_us_per_wait", (line.cpu_per_wait / 1e3).into()),
        ("added_p50_us", (line.added_p50 as f64 / 1e3).into()),
        ("added_p99_us", (line.added_p99 as f64 / 1e3).into()),
        ("cpu_to_park", line.cpu_to_park.into()),
        ("p99_to_spin", line.p99_to_spin.into()),
    ])
}
