//! `sidecore bench`: measurements on this machine, with baselines in the same run. Rows become tables, pages and files.

mod balance;
mod batch;
mod calibrate;
mod caveats;
pub(crate) mod client;
mod crypto;
mod experiment;
mod haproxy;
mod host_monitor;
mod keys;
mod lane;
mod net;
mod nginx;
mod notify;
mod ocf;
mod programs;
mod scaling;
mod series;
mod sockets;
mod task;
mod testbed;
pub(crate) mod trial;
mod web;

use crate::args::{Bench, Scenario};
use crate::interrupt::{INTERRUPTED, Interrupt, STOPPED};
use crate::outcome::{Outcome, export};
use crate::progress::Progress;
use crate::report::{Caveat, Key, Reason};
use caveats::of_time;
use experiment::with_caveats;
use host_monitor::HostMonitor;
use sidecore_libcrypto::Context;
use sidecore_terminal::output;
use std::path::PathBuf;

pub(crate) type BenchError = Box<dyn std::error::Error>;

struct Part {
    scenario: Scenario,
    name: &'static str,
    measure: fn(&Settings, &Progress) -> Result<Outcome, BenchError>,
    /// Names that `--op` accepts; empty: the scenario is always measured as a whole.
    ops: fn() -> Vec<&'static str>,
    /// Reason why it cannot be measured with a running service.
    alone: Option<&'static str>,
}

const WAITS: Option<&str> = Some("it changes how its service waits");
const DEVICES: Option<&str> = Some("it gives its service devices and changes their balance");
const SERVICES: Option<&str> = Some("it places services of its own on cores");
const NO_SERVICE: Option<&str> = Some("it is not about a service of keys");

const PARTS: [Part; 13] = [
    Part { scenario: Scenario::Lane, name: "lane", measure: lane::measure, ops: Vec::new, alone: None },
    Part { scenario: Scenario::Crypto, name: "crypto", measure: crypto::measure, ops: crypto::ops, alone: None },
    Part { scenario: Scenario::Ocf, name: "ocf", measure: ocf::measure, ops: Vec::new, alone: WAITS },
    Part { scenario: Scenario::Notify, name: "notify", measure: notify::measure, ops: Vec::new, alone: WAITS },
    Part { scenario: Scenario::Balance, name: "balance", measure: balance::measure, ops: Vec::new, alone: DEVICES },
    Part { scenario: Scenario::Scaling, name: "scaling", measure: scaling::measure, ops: Vec::new, alone: SERVICES },
    Part { scenario: Scenario::Keys, name: "keys", measure: keys::measure, ops: keys::ops, alone: None },
    Part { scenario: Scenario::Nginx, name: "nginx", measure: nginx::measure, ops: nginx::ops, alone: SERVICES },
    Part {
        scenario: Scenario::HaProxy,
        name: "haproxy",
        measure: haproxy::measure,
        ops: haproxy::ops,
        alone: SERVICES,
    },
    Part { scenario: Scenario::Batch, name: "batch", measure: batch::measure, ops: batch::ops, alone: SERVICES },
    Part {
        scenario: Scenario::Sockets,
        name: "sockets",
        measure: sockets::measure,
        ops: sockets::ops,
        alone: NO_SERVICE,
    },
    Part {
        scenario: Scenario::Net,
        name: "net-tools",
        measure: net::against_tools,
        ops: net::paths,
        alone: NO_SERVICE,
    },
    Part { scenario: Scenario::Link, name: "link", measure: net::link, ops: Vec::new, alone: NO_SERVICE },
];

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    quick: bool,
    seed: u64,
    ops: Vec<String>,
    check: bool,
    mix: bool,
    socket: Option<PathBuf>,
}

impl Settings {
    fn of(args: &Bench) -> Self {
        let Bench { quick, seed, check, mix, .. } = *args;
        Self { quick, seed, ops: args.op.clone(), check, mix, socket: args.socket.clone() }
    }

    fn short() -> Self {
        Self { quick: true, seed: 1, ops: Vec::new(), check: false, mix: false, socket: None }
    }

    /// True for every operation if none is named.
    fn wants(&self, op: &str) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|named| named == op)
    }

    fn pick<T>(&self, quick: T, long: T) -> T {
        if self.quick { quick } else { long }
    }
}

/// Runs the scenarios and writes the requested files. Always prints the text. Returns the exit code.
pub(crate) fn run(args: &Bench) -> Result<u8, BenchError> {
    if args.scenarios.contains(&Scenario::Calibrate) {
        return run_calibrate(args);
    }
    let chosen: Vec<&Part> = PARTS.iter().filter(|part| part.is_asked_for(&args.scenarios)).collect();
    check_usage(args, &chosen)?;
    let settings = Settings::of(args);
    let (interrupt, began) = (Interrupt::or_end()?, HostMonitor::now());
    // Each scenario adds its number of steps when it begins.
    let mut progress = Progress::new(0).until(&interrupt);
    let (mut outcome, mut failed) = (Outcome::default(), None);
    for (part, settings) in chosen.into_iter().filter_map(|part| Some((part, part.settings(&settings)?))) {
        if let Some(why) = part.alone.filter(|_| settings.socket.is_some()) {
            outcome.lacks(format!("{}: {}", part.name, without_socket(why)));
            continue;
        }
        if interrupt.came() {
            outcome.lacks(format!("{}: {STOPPED}", part.name));
            continue;
        }
        progress.scenario(part.name);
        match (part.measure)(&settings, &progress) {
            Ok(measured) => outcome.add(measured),
            // The error may be a consequence of the interrupt.
            Err(why) if interrupt.came() => outcome.lacks(format!("{}: {STOPPED} It said: {why}", part.name)),
            Err(why) if outcome.rows.is_empty() => return Err(why),
            Err(why) => {
                outcome.lacks(format!("{}: {why}; what comes after it was not measured", part.name));
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
        return Err(format!("calibrate takes none of {options}: it measures what a plan needs").into());
    }
    let is_alone = match args.scenarios[..] {
        [_] => true,
        [Scenario::Calibrate, Scenario::Notify] | [Scenario::Notify, Scenario::Calibrate] => false,
        _ => {
            return Err(
                "calibrate makes a plan and no rows: run it alone, or with notify, between whose cases it measures"
                    .into(),
            );
        }
    };
    let files = &args.files;
    let rows = files.json.is_some() || files.markdown.is_some() || files.html.is_some();
    if is_alone && (rows || args.quick) {
        return Err(
            "calibrate alone takes no --json, --markdown, --html and --quick: it makes a plan, see --plan".into()
        );
    }
    let interrupt = Interrupt::or_end()?;
    if is_alone { calibrate::run(&args.plan, &interrupt) } else { run_calibrated(args, &interrupt) }
}

/// Passes of a calibration lie between the cases of the scenario notify, so that both meet the same machine.
fn run_calibrated(args: &Bench, interrupt: &Interrupt) -> Result<u8, BenchError> {
    let began = HostMonitor::now();
    let mut calibration = calibrate::Calibration::start()?;
    let settings = Settings::of(args);
    let mut progress = Progress::new(0).until(interrupt);
    progress.scenario("notify");
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

/// Writes the outcome with caveats about the time since `began`. Returns the exit code.
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
    for row in outcome.rows.iter_mut().filter(|row| row.get(Key::Doubts).is_none()) {
        *row = with_caveats(std::mem::take(row), &[], 0);
    }
    outcome.caveats.extend(is_stopped.then(|| Caveat::new(Reason::Stopped, "by an interrupt")));
    outcome.caveats.extend(of_time(host_monitor::host_activity(began)));
    outcome.caveats.extend(host_monitor::of_this_machine());
    export("sidecore bench", &args.files, outcome)?;
    Ok(if is_stopped { INTERRUPTED } else { 0 })
}

impl Part {
    fn is_asked_for(&self, scenarios: &[Scenario]) -> bool {
        let asked_for = if scenarios.is_empty() { &Scenario::ALL } else { scenarios };
        asked_for.contains(&self.scenario)
    }

    /// The settings with those named operations that the scenario has. `None`: none of them is one of its operations.
    fn settings(&self, all: &Settings) -> Option<Settings> {
        let known = (self.ops)();
        let ops: Vec<_> = all.ops.iter().filter(|op| known.contains(&op.as_str())).cloned().collect();
        let is_left_out = !all.ops.is_empty() && !known.is_empty() && ops.is_empty();
        (!is_left_out).then(|| Settings { ops, ..all.clone() })
    }
}

/// Refuses options that no chosen scenario uses.
fn check_usage(args: &Bench, chosen: &[&Part]) -> Result<(), String> {
    let names = || chosen.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    if args.check && !chosen.iter().any(|part| part.scenario == Scenario::Sockets) {
        return Err(format!("--check compares what arrives in the scenario sockets, and this is {}", names()));
    }
    if args.mix && !chosen.iter().any(|part| part.scenario == Scenario::Balance) {
        return Err(format!("--mix is of the scenario balance, and this is {}", names()));
    }
    let alone = chosen.iter().find_map(|part| Some((part.name, part.alone?)));
    // A default scenario is left out with that reason.
    if let Some((name, why)) = alone.filter(|_| args.socket.is_some() && !args.scenarios.is_empty()) {
        return Err(format!("{name} cannot be measured at --socket: {}", without_socket(why)));
    }
    let mut known: Vec<&str> = Vec::new();
    for op in chosen.iter().flat_map(|part| (part.ops)()) {
        if !known.contains(&op) {
            known.push(op);
        }
    }
    match args.op.iter().find(|op| !known.contains(&op.as_str())) {
        None => Ok(()),
        Some(op) if known.is_empty() => {
            Err(format!("no operation {op:?}: {} cannot be measured in parts, leave out --op", names()))
        }
        Some(op) => Err(format!("no operation {op:?} in {}; there are {}", names(), known.join(", "))),
    }
}

fn without_socket(why: &str) -> String {
    format!("{why}: leave out --socket, and it starts its own; lane, crypto and keys can be measured there")
}

/// Name and version of the baseline's library, e.g. `openssl 3.0.19`.
fn openssl_library() -> Option<String> {
    Some(format!("openssl {}", Context::system().ok()?.version().split(' ').nth(1)?))
}
