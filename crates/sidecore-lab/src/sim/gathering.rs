//! `sidecore sim gather`: fill of batches, and time of requests in them.

use super::output::{Members, show};
use crate::args::Gathering;
use crate::error::LabError;
use crate::report::{Grid, digits};
use sidecore_sim::gathering::{self, Line, PoolLine, Requests, Rule, Unit};

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

pub(super) fn run(args: &Gathering) -> Result<bool, LabError> {
    let units = units(args)?;
    let (lines, pools) = (gathering::table(&units, args.seed), gathering::pools(&units, args.seed));
    let rows: Vec<_> = lines.iter().map(members).chain(pools.iter().map(of_pool)).collect();
    show(&args.output, &rows, ("Gather", &command(args)), &[grid(&lines), pool_grid(&pools)])
}

fn command(args: &Gathering) -> String {
    let given = args.single_us.map(|single| {
        let batch: Vec<String> = args.batch_us.iter().map(f64::to_string).collect();
        format!(" --single-us {single} --batch-us {}", batch.join(","))
    });
    format!("gather{} --seed {}", given.unwrap_or_default(), args.seed)
}

fn units(args: &Gathering) -> Result<Vec<Unit>, LabError> {
    let Some(single) = args.single_us else { return Ok(Unit::known()) };
    let ns = |us: f64| (us * 1e3).round().max(1.0) as u64;
    let batches: Vec<u64> = args.batch_us.iter().copied().map(ns).collect();
    let batches = match batches[..] {
        [all] => [all; gathering::MAX_BATCH],
        _ => batches.try_into().map_err(|given: Vec<u64>| {
            let (most, given) = (gathering::MAX_BATCH, given.len());
            LabError::Usage(format!(
                "--batch-us has {given} times: give {most}, for 1 to {most} requests side by side, or one for all of them"
            ))
        })?,
    };
    Ok(vec![Unit { name: "given".to_owned(), single: ns(single), batches }])
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

fn pool_grid(lines: &[PoolLine]) -> Grid {
    let name = |rule: &Rule| rule_name(*rule);
    let headings = |figure: &'static str| Rule::ALL.iter().map(name).map(move |name| format!("{figure}: {name}"));
    let fixed = ["device", "requests"].map(str::to_owned).into_iter();
    let headings: Vec<String> = fixed.chain(headings("mean")).chain(headings("p99")).collect();
    let mut grid = Grid::new("A worker and such a device, by how the device of a request is chosen", &headings);
    for case in lines.chunk_by(|a, b| (&a.unit, a.requests) == (&b.unit, b.requests)) {
        let named = [case[0].unit.clone(), requests_name(case[0].requests)];
        let figures = |figure: fn(&PoolLine) -> f64| case.iter().map(move |line| format!("{:.2}", figure(line)));
        let (means, tails) = (figures(|line| line.mean_to_single), figures(|line| line.p99_to_single));
        grid.push(named.into_iter().chain(means).chain(tails));
    }
    let words = "Times from arrival to answer, as multiples of what one request takes by itself. Requests come at that part of what both do at \
                 most, at random times, eight at once where that is said, or from so many clients that wait for each answer. shares: the \
                 policy sees each request's share of its batch's time, not how long the device takes for how many. first: the device \
                 that answers first if nothing more comes, which only a simulator can know.";
    grid.notes.push(words.to_owned());
    grid
}

fn rule_name(rule: Rule) -> String {
    match rule {
        Rule::Told(balance) => balance.name().to_owned(),
        Rule::Untold(balance) => format!("{balance}, shares"),
        Rule::First => "first".to_owned(),
    }
}

fn requests_name(requests: Requests) -> String {
    match requests {
        Requests::Open(load, 1) => format!("{load:.2}"),
        Requests::Open(load, at_once) => format!("{load:.2}, {at_once} at once"),
        Requests::Clients(clients) => format!("{clients} clients"),
    }
}

fn of_pool(line: &PoolLine) -> Members<10> {
    Members([
        ("scenario", "gather-pool".into()),
        ("device", line.unit.as_str().into()),
        ("requests", requests_name(line.requests).into()),
        ("balance", rule_name(line.rule).into()),
        ("per_s", line.per_s.into()),
        ("batched", line.batched.into()),
        ("mean_us", (line.mean / 1e3).into()),
        ("p99_us", (line.p99 as f64 / 1e3).into()),
        ("mean_to_single", line.mean_to_single.into()),
        ("p99_to_single", line.p99_to_single.into()),
    ])
}
