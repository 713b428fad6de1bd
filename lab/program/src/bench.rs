//! `sidecore bench`: measurements on this machine, with baselines in the same run. Rows become tables, pages and files.
//!
//! A scenario is one file with a [`Scenario`], and one line in [`SCENARIOS`].

mod balance;
mod batch;
mod calibrate;
pub(crate) mod client;
mod crypto;
pub(crate) mod error;
mod experiment;
mod faces;
mod haproxy;
mod keys;
mod lane;
mod link;
mod nginx;
mod notify;
mod ocf;
mod pool;
mod scaling;
mod scenario;
mod sockets;
mod task;
mod testbed;
mod web;

use crate::args::Bench;
use crate::report::{Caveat, Outcome, Reason, Section, column};
use clap::builder::{PossibleValue, PossibleValuesParser};
use error::BenchError;
use experiment::with_caveats;
use scenario::{Scenario, Settings};
use sidecore_measure::caveats::of_time;
use sidecore_measure::export::export;
use sidecore_measure::host_monitor::{self, HostMonitor};
use sidecore_measure::interrupt::{INTERRUPTED, Interrupt, STOPPED};
use sidecore_measure::progress::Progress;
use sidecore_terminal::output;

static SCENARIOS: [&Scenario; 14] = [
    &lane::SCENARIO,
    &crypto::SCENARIO,
    &ocf::SCENARIO,
    &notify::SCENARIO,
    &balance::SCENARIO,
    &scaling::SCENARIO,
    &keys::SCENARIO,
    &faces::SCENARIO,
    &nginx::SCENARIO,
    &haproxy::SCENARIO,
    &batch::SCENARIO,
    &pool::SCENARIO,
    &sockets::SCENARIO,
    &link::SCENARIO,
];

pub(crate) fn words() -> PossibleValuesParser {
    let words = SCENARIOS.iter().map(|scenario| (scenario.word, scenario.about));
    let words = words.chain([(calibrate::WORD, calibrate::ABOUT)]);
    words.map(|(word, about)| PossibleValue::new(word).help(about)).collect::<Vec<_>>().into()
}

#[cfg(test)]
pub(crate) fn columns() -> impl Iterator<Item = &'static crate::report::Column> {
    [batch::COLUMNS, faces::COLUMNS, keys::COLUMNS, sockets::COLUMNS].into_iter().flatten().copied()
}

pub(crate) fn sections() -> impl Iterator<Item = &'static Section> {
    SCENARIOS.into_iter().flat_map(|scenario| scenario.sections)
}

fn settings(args: &Bench) -> Settings {
    let Bench { quick, seed, check, mix, .. } = *args;
    Settings { quick, seed, ops: args.op.clone(), check, mix, socket: args.socket.clone() }
}

/// Always prints the text. Returns the exit code.
pub(crate) fn run(args: &Bench) -> Result<u8, BenchError> {
    if args.scenarios.iter().any(|word| word == calibrate::WORD) {
        return run_calibrate(args);
    }
    let is_chosen = |scenario: &&Scenario| match &args.scenarios[..] {
        [] => scenario.is_default,
        words => words.iter().any(|word| word == scenario.word),
    };
    let chosen: Vec<&Scenario> = SCENARIOS.into_iter().filter(is_chosen).collect();
    check_usage(args, &chosen)?;
    let settings = settings(args);
    let (interrupt, began) = (Interrupt::or_end()?, HostMonitor::now());
    // Each scenario adds its number of steps when it begins.
    let mut progress = Progress::new(0).until(&interrupt);
    let (mut outcome, mut failed) = (Outcome::default(), None);
    for (scenario, settings) in
        chosen.into_iter().filter_map(|scenario| Some((scenario, scenario.settings(&settings)?)))
    {
        if let Some(why) = scenario.alone.filter(|_| settings.socket.is_some()) {
            outcome.lacks(format!("{}: {}", scenario.word, without_socket(why)));
            continue;
        }
        if interrupt.came() {
            outcome.lacks(format!("{}: {STOPPED}", scenario.word));
            continue;
        }
        progress.scenario(scenario.word);
        match (scenario.measure)(&settings, &progress) {
            Ok(measured) => outcome.add(measured),
            // The error may be a consequence of the interrupt.
            Err(why) if interrupt.came() => outcome.lacks(format!("{}: {STOPPED} It said: {why}", scenario.word)),
            Err(why) if outcome.rows.is_empty() => return Err(why),
            Err(why) => {
                outcome.lacks(format!("{}: {why}; what comes after it was not measured", scenario.word));
                failed = Some(why);
                break;
            }
        }
    }
    drop(progress);
    let code = finish(args, outcome, began.as_ref(), &interrupt)?;
    failed.map_or(Ok(code), Err)
}

fn run_calibrate(args: &Bench) -> Result<u8, BenchError> {
    if !args.op.is_empty() || args.check || args.mix || args.socket.is_some() {
        let options = "--op, --check, --mix and --socket";
        return Err(BenchError::Usage(format!("calibrate takes none of {options}: it measures what a plan needs")));
    }
    let is_alone = match &args.scenarios[..] {
        [_] => true,
        [_, _] if args.scenarios.iter().any(|word| word == notify::SCENARIO.word) => false,
        _ => {
            return Err(BenchError::Usage(
                "calibrate makes a plan and no rows: run it alone, or with notify, between whose cases it measures"
                    .to_owned(),
            ));
        }
    };
    let files = &args.files;
    let rows = files.json.is_some() || files.markdown.is_some() || files.html.is_some();
    if is_alone && (rows || args.quick) {
        return Err(BenchError::Usage(
            "calibrate alone takes no --json, --markdown, --html and --quick: it makes a plan, see --plan".to_owned(),
        ));
    }
    let interrupt = Interrupt::or_end()?;
    if is_alone { calibrate::run(&args.plan, &interrupt) } else { run_calibrated(args, &interrupt) }
}

/// Passes of a calibration lie between the cases of the scenario notify, so that both meet the same machine.
fn run_calibrated(args: &Bench, interrupt: &Interrupt) -> Result<u8, BenchError> {
    let began = HostMonitor::now();
    let mut calibration = calibrate::Calibration::start()?;
    let settings = settings(args);
    let mut progress = Progress::new(0).until(interrupt);
    progress.scenario(notify::SCENARIO.word);
    let outcome = notify::measure_beside(&settings, &progress, &mut |testbed| calibration.pass_beside(testbed))?;
    drop(progress);
    // The rows took long to measure: they are written even if the plan cannot be.
    let planned = if interrupt.came() {
        calibrate::abandon(&args.plan);
        Ok(())
    } else {
        calibration.write(&args.plan)
    };
    let code = finish(args, outcome, began.as_ref(), interrupt)?;
    planned.map(|()| code)
}

/// Returns the exit code.
fn finish(
    args: &Bench,
    mut outcome: Outcome,
    began: Option<&HostMonitor>,
    interrupt: &Interrupt,
) -> Result<u8, BenchError> {
    let is_stopped = interrupt.came();
    if is_stopped && outcome.rows.is_empty() {
        output::tell("stopped before anything was measured: files are as they were");
        return Ok(INTERRUPTED);
    }
    for row in outcome.rows.iter_mut().filter(|row| row.get(column::DOUBTS).is_none()) {
        *row = with_caveats(std::mem::take(row), &[], 0);
    }
    outcome.caveats.extend(is_stopped.then(|| Caveat::new(Reason::Stopped, "by an interrupt")));
    outcome.caveats.extend(of_time(host_monitor::host_activity(began)));
    outcome.caveats.extend(host_monitor::of_this_machine());
    export("sidecore bench", &args.files, outcome, sections())?;
    Ok(if is_stopped { INTERRUPTED } else { 0 })
}

fn check_usage(args: &Bench, chosen: &[&Scenario]) -> Result<(), BenchError> {
    let names = || chosen.iter().map(|scenario| scenario.word).collect::<Vec<_>>().join(", ");
    if args.check && !chosen.iter().any(|scenario| scenario.word == sockets::SCENARIO.word) {
        return Err(BenchError::Usage(format!(
            "--check compares what arrives in the scenario sockets, and this is {}",
            names()
        )));
    }
    if args.mix && !chosen.iter().any(|scenario| scenario.word == balance::SCENARIO.word) {
        return Err(BenchError::Usage(format!("--mix is of the scenario balance, and this is {}", names())));
    }
    let alone = chosen.iter().find_map(|scenario| Some((scenario.word, scenario.alone?)));
    // A default scenario is left out with that reason.
    if let Some((name, why)) = alone.filter(|_| args.socket.is_some() && !args.scenarios.is_empty()) {
        return Err(BenchError::Usage(format!("{name} cannot be measured at --socket: {}", without_socket(why))));
    }
    let mut known: Vec<&str> = Vec::new();
    for op in chosen.iter().flat_map(|scenario| (scenario.ops)()) {
        if !known.contains(&op) {
            known.push(op);
        }
    }
    match args.op.iter().find(|op| !known.contains(&op.as_str())) {
        None => Ok(()),
        Some(op) if known.is_empty() => Err(BenchError::Usage(format!(
            "no operation {op:?}: {} cannot be measured in parts, leave out --op",
            names()
        ))),
        Some(op) => {
            Err(BenchError::Usage(format!("no operation {op:?} in {}; there are {}", names(), known.join(", "))))
        }
    }
}

fn without_socket(why: &str) -> String {
    format!("{why}: leave out --socket, and it starts its own; lane, crypto and keys can be measured there")
}
