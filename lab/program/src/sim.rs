//! `sidecore sim`: predicts performance on hardware that need not exist here.

mod bakeoff;
mod bench_rows;
mod choose;
mod compare;
mod explain;
mod farm_rows;
mod fit;
mod new;
mod output;
mod paper_rows;
mod plots;
mod replay;
mod tables;

use crate::args::{Plans, Sim, SimCommand};
use crate::error::LabError;
use crate::report::Grid;
pub(crate) use paper_rows::{Predictions, value};
use sidecore_measure::export::print;
use sidecore_sim::bakeoff::Setup;
use sidecore_sim::speed::timers;
use std::time::Instant;

/// Returns `false` for a negative answer.
pub(crate) fn run(args: &Sim) -> Result<bool, LabError> {
    match &args.command {
        None => plans(&args.plans),
        Some(SimCommand::Bakeoff { seeds, depth, burst, slow, output }) => {
            let depths = if depth.is_empty() { vec![None] } else { depth.iter().copied().map(Some).collect() };
            bakeoff::run(&Setup { seeds: *seeds, depths, burst: *burst, slow: *slow }, output)
        }
        Some(SimCommand::Waiting(_)) => Err(is_test("waiting", "cargo test -p sidecore-sim --test waiting")),
        Some(SimCommand::Gather(_)) => {
            Err(LabError::usage("sim gather is a plan now: run sidecore sim plans/pool-batch.toml"))
        }
        Some(SimCommand::Faults(_)) => Err(is_test("faults", "cargo xtask faults --seeds N")),
        Some(SimCommand::Replay(args)) => replay::run(args),
        Some(SimCommand::Choose(args)) => choose::run(args),
        Some(SimCommand::Explain(args)) => explain::run(args),
        Some(SimCommand::New(args)) => new::run(args),
        Some(SimCommand::Fit(args)) => fit::run(args),
        Some(SimCommand::Speed) => speed(),
    }
}

fn plans(args: &Plans) -> Result<bool, LabError> {
    if args.compare.is_some() && args.files.len() != 1 {
        return Err(LabError::usage("--compare takes one plan: name the one that the table is about"));
    }
    if args.parameters {
        return Err(LabError::usage("sim --parameters is a command now: run sidecore sim explain PLAN"));
    }
    let plans = tables::read(&args.files, &args.set)?;
    if args.sensitivity {
        return fit::sensitivity(&plans, args);
    }
    match &args.compare {
        Some(path) if path.extension().is_some_and(|extension| extension == "json") => {
            bench_rows::compare(&plans[0], path, args)
        }
        Some(path) => compare::run(&plans[0], path, args),
        None => tables::show(&plans, args),
    }
}

fn is_test(command: &str, successor: &str) -> LabError {
    LabError::Usage(format!("sim {command} is a test now: run {successor} in the source"))
}

const EVENTS: u64 = 20_000_000;
const REPEATS: usize = 5;
const WORLDS: [(&str, usize); 3] = [("small world", 8), ("400 pending timers", 400), ("4000 pending timers", 4_000)];

fn speed() -> Result<bool, LabError> {
    let mut grid = Grid::new(format!("Events a second, one core, {EVENTS} events"), &["world", "M/s"]);
    for (name, pending) in WORLDS {
        let mut rates = [0; REPEATS].map(|_: u8| {
            let start = Instant::now();
            timers(pending, EVENTS) as f64 / start.elapsed().as_secs_f64()
        });
        rates.sort_by(f64::total_cmp);
        grid.push([name.to_owned(), format!("{:.1}", rates[REPEATS / 2] / 1e6)]);
    }
    grid.notes.push(format!("Medians of {REPEATS} repeats."));
    print(&grid.to_text())?;
    Ok(true)
}
