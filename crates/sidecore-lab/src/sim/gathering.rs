//! `sidecore sim gather`: how batches fill, and how long requests take in them.

use super::output::{Members, show};
use crate::args::{Gathering, Output};
use crate::report::{Grid, digits};
use sidecore_sim::gathering::{self, Line, Unit};

const HEADINGS: [&str; 9] = [
    "device",
    "load",
    "arrivals/s",
    "requests at once",
    "p50 us",
    "p99 us",
    "p99 / one alone",
    "held us",
    "at most us",
];

pub(super) fn run(args: &Gathering) -> Result<bool, String> {
    let lines = gathering::table(&units(args)?, args.seed);
    write(&lines, &args.output, &command(args))
}

/// What it is called with.
fn command(args: &Gathering) -> String {
    let given = args.single_us.map(|single| {
        let batch: Vec<String> = args.batch_us.iter().map(f64::to_string).collect();
        format!(" --single-us {single} --batch-us {}", batch.join(","))
    });
    format!("gather{} --seed {}", given.unwrap_or_default(), args.seed)
}

/// That of the command line, or those that are known.
fn units(args: &Gathering) -> Result<Vec<Unit>, String> {
    let Some(single) = args.single_us else { return Ok(Unit::known()) };
    let ns = |us: f64| (us * 1e3).round().max(1.0) as u64;
    let batches: Vec<u64> = args.batch_us.iter().copied().map(ns).collect();
    let batches = match batches[..] {
        [all] => [all; gathering::MOST],
        _ => batches.try_into().map_err(|given: Vec<u64>| {
            let (most, given) = (gathering::MOST, given.len());
            format!("--batch-us has {given} times: give {most}, for 1 to {most} requests side by side, or one for all of them")
        })?,
    };
    Ok(vec![Unit { name: "given".to_owned(), single: ns(single), batches }])
}

fn write(lines: &[Line], output: &Output, command: &str) -> Result<bool, String> {
    let rows: Vec<_> = lines.iter().map(members).collect();
    show(output, &rows, ("Gather", command), &[grid(lines)])
}

fn grid(lines: &[Line]) -> Grid {
    let mut grid =
        Grid::new("Requests that come at random times to a device that does several side by side", &HEADINGS);
    let us = |ns: u64| digits(ns as f64 / 1e3);
    for line in lines {
        grid.push([
            line.unit.clone(),
            format!("{:.2}", line.load),
            digits(line.per_s),
            format!("{:.2}", line.fill),
            us(line.p50),
            us(line.p99),
            format!("{:.2}", line.p99_to_single),
            us(line.held),
            us(line.bound),
        ]);
    }
    let words = "load: of what the device does at most. one alone: a request by itself on an ordinary device. held: the longest that a \
                 request waited while the device was free; at most: what the policy promises of that.";
    grid.notes.push(words.to_owned());
    grid
}

fn members(line: &Line) -> Members<10> {
    let us = |ns: u64| (ns as f64 / 1e3).into();
    Members([
        ("scenario", "gather".into()),
        ("device", line.unit.as_str().into()),
        ("load", line.load.into()),
        ("per_s", line.per_s.into()),
        ("per_batch", line.fill.into()),
        ("p50_us", us(line.p50)),
        ("p99_us", us(line.p99)),
        ("p99_to_single", line.p99_to_single.into()),
        ("held_us", us(line.held)),
        ("bound_us", us(line.bound)),
    ])
}
