//! `sidecore net tune`: finds settings that improve a path, and applies them.

mod apply;
mod check;
mod confirm;
mod cpu_load;
pub(super) mod estimate;
mod ethtool;
mod goal;
mod identity;
mod injected_problem;
pub(super) mod location;
mod rows;
mod search;
pub(super) mod setting;
mod tuned_path;

use super::link::{Link, Settings};
use super::measure::find_peer;
use super::path::Path;
use crate::args::{Goal, InjectedProblem, NetJoint, NetTune};
use crate::error::LabError;
use crate::interrupt::Interrupt;
use crate::net::sections::export;
use crate::progress::Progress;
use crate::report::{Outcome, Row};
use apply::SettingsStore;
use check::Tried;
use estimate::{Estimate, deviation};
use identity::Fate;
use location::Here;
use search::{Change, Found, Limits, exhaust, point, search};
use sidecore_report::statistics::median;
use sidecore_terminal::output;
use std::time::{Duration, Instant};
use tuned_path::{Ends, Manner, Tuned, TunedPath};

const NEAR: &str = "near";
const OTHER: &str = "far";
/// Probability of a recommendation without a real gain.
const ERROR: f64 = 0.05;
/// Time for all runs, estimated from the first `FIRST` runs; slower settings may exceed it.
const TIME: Duration = Duration::from_secs(150);
const FIRST: usize = 6;
/// Duration of a run's window. It grows up to `LONGER` times if the first runs differ by more than `QUIET`, a
/// logarithm: the start of a run has a fixed cost.
const WINDOW: Duration = Duration::from_millis(150);
const QUIET: f64 = 0.1;
const LONGER: f64 = 3.0;
const RUNS: usize = 600;
const QUICK_RUNS: usize = 200;
const MAX_POINTS: usize = 128;
const ROUNDS_OF_ALL: usize = 6;
const ROUNDS_OF_DATAGRAMS: usize = 6;

pub(super) fn run(args: &NetTune) -> Result<(), LabError> {
    let outcome = match &args.interface {
        Some(interface) if args.revert => return revert(args, interface),
        Some(interface) => tune_interface(args, interface)?,
        None if args.check => check(args)?,
        None => tune_pair(args, args.plant, &Interrupt::new()?)?.0,
    };
    Ok(export("sidecore net tune", &args.files, outcome)?)
}

fn revert(args: &NetTune, interface: &str) -> Result<(), LabError> {
    let mut here = Here::of_any(interface)?;
    let interface = here.interface().to_owned();
    let (count, fate) = SettingsStore::saved_in(&args.state, &interface)?.revert(&mut here)?;
    output::tell(match fate {
        Fate::Same => format!("{interface}: {count} settings are as they were before"),
        Fate::Gone => format!(
            "{interface}: {count} settings are as they were before; the interface is not there, and what was set of it is gone \
             with it"
        ),
        Fate::Restarted => format!("{interface}: the machine was started anew, and what was set is gone with that"),
    });
    Ok(())
}

fn tune_pair(
    args: &NetTune,
    injected: Option<InjectedProblem>,
    interrupt: &Interrupt,
) -> Result<(Outcome, Tried), LabError> {
    if let Some(why) = injected.and_then(|injected| injected.lacks(args.by)) {
        return Err(LabError::usage(why));
    }
    // NAPI, as in a driver's interface, so that more settings exist.
    let as_drivers = |settings| Settings { napi: true, ..settings };
    let settings = (args.by == NetJoint::Link).then(|| Settings::of(&args.link).map(as_drivers)).transpose()?;
    let (mut pair, link) = Link::or_veth(settings.as_ref())?;
    let path = pair.path()?;
    let mut ends = Ends { near: Here::of(NEAR)?, far: Some((pair.far, OTHER.to_owned())), _link: link };
    let _cpu_load = injected.map(|injected| injected.into(&mut ends, args.by)).transpose()?;
    let (mut tuned, left_out) = ends.discover(&args.setting, true)?;
    tuned.retain(|tuned| !injected.is_some_and(|injected| injected.holds(tuned.setting.name, args.by)));
    let mut tuned_path = TunedPath::new(path, ends, tuned, goal(args, injected), manner(args));
    let began = Instant::now();
    let (mut outcome, found, ended) = tune(args, &mut tuned_path, interrupt);
    let mut tried = Tried { took: began.elapsed(), tuned_path, found, best: None, ended: ended.into_iter().collect() };
    if (args.exhaustive || args.check) && tried.ended.is_empty() {
        let matters = injected.filter(|_| args.setting.is_empty()).map(InjectedProblem::matters);
        // The search's result is kept if the comparison fails.
        match compare(args, &mut tried.tuned_path, (&tried.found.best, matters), interrupt) {
            Ok(best) => outcome.add_rows([rows::best_of_all(&tried.tuned_path, tried.best.insert(best))]),
            Err(why) => tried.ended.push(why.to_string()),
        }
    }
    outcome.lacks_all(tried.ended.iter().cloned().chain(left_out));
    Ok((outcome, tried))
}

fn check(args: &NetTune) -> Result<Outcome, LabError> {
    let interrupt = Interrupt::new()?;
    let problems = args.plant.map_or_else(|| InjectedProblem::ALL.to_vec(), |injected| vec![injected]);
    let mut outcome = Outcome::default();
    for injected in problems {
        match tune_pair(args, Some(injected), &interrupt) {
            Ok((_, tried)) => {
                outcome.add_rows(check::rows(injected, &tried));
                outcome.lacks_all(check::missed(injected, &tried));
                outcome.lacks_all(tried.ended.iter().map(|why| format!("{}: {why}", injected.name())));
            }
            Err(why) => outcome.lacks(format!("{}: {why}", injected.name())),
        }
        if interrupt.came() {
            break;
        }
    }
    Ok(outcome)
}

fn goal(args: &NetTune, injected: Option<InjectedProblem>) -> Goal {
    args.goal.clone().unwrap_or_else(|| injected.map_or_else(Goal::throughput, InjectedProblem::goal))
}

/// Tunes the local end of a path to another machine. Settings change only by request, and after the old ones are saved.
fn tune_interface(args: &NetTune, interface: &str) -> Result<Outcome, LabError> {
    let peer = args.peer.as_deref().ok_or_else(|| LabError::usage("there is no peer: name one with --peer"))?;
    if args.apply && !args.yes {
        confirm::can_ask()?;
    }
    let mut ends = Ends { near: Here::of(interface)?, far: None, _link: None };
    let interface = ends.near.interface().to_owned();
    // The lock: no other process changes the values read from here on.
    let state = (args.tries || args.apply).then(|| SettingsStore::new(&args.state, &interface)).transpose()?;
    let (would, left_out) = ends.discover(&args.setting, false)?;
    if would.is_empty() && !left_out.is_empty() {
        return Err(LabError::failed(format!("nothing of {interface} can be set here"), left_out.join("; ")));
    }
    let Some(mut state) = state else {
        let mut outcome = rows::would_try(&would);
        outcome.lacks_all(left_out);
        return Ok(outcome);
    };
    let path = find_peer(peer)?;
    let interrupt = Interrupt::of_all_kinds()?;
    let names: Vec<_> = would.iter().map(|tuned| tuned.setting.name).collect();
    state.keep(&mut ends.near, &names)?;
    let done = try_and_apply(args, (path, ends), &mut state, peer, &interrupt);
    // In every case, only applied settings may stay.
    if !matches!(done, Ok((_, true))) && state.is_saved() {
        state.revert(&mut Here::of_any(&interface)?)?;
    }
    let mut outcome = done?.0;
    outcome.lacks_all(left_out);
    Ok(outcome)
}

/// Returns whether settings stay changed.
fn try_and_apply(
    args: &NetTune,
    (path, mut ends): (Path, Ends),
    state: &mut SettingsStore,
    peer: &str,
    interrupt: &Interrupt,
) -> Result<(Outcome, bool), LabError> {
    let (tuned, refused) = ends.discover(&args.setting, true)?;
    if tuned.is_empty() {
        let task = "nothing can be set: it takes root, or CAP_NET_ADMIN, and a driver that lets one";
        return Err(LabError::failed(task, refused.join("; ")));
    }
    let mut tuned_path = TunedPath::new(path, ends, tuned, goal(args, None), manner(args));
    let (mut outcome, found, ended) = tune(args, &mut tuned_path, interrupt);
    outcome.lacks_all(ended.into_iter().chain(refused));
    if !args.apply || found.best.is_empty() {
        return Ok((outcome, false));
    }
    let changes: Vec<_> = found.best.iter().map(|change| value_of(&tuned_path.tuned, *change)).collect();
    let applied = state.apply(tuned_path.near(), &changes, || {
        confirm::reaches(peer)?;
        if args.yes { Ok(()) } else { confirm::asks(interrupt) }
    });
    // The search's result is kept if the settings cannot be applied.
    match &applied {
        Ok(()) => outcome.note(format!("Applied; --revert --interface {} takes it back.", tuned_path.interface)),
        Err(why) => outcome.lacks(format!("not applied: {why}")),
    }
    Ok((outcome, applied.is_ok()))
}

fn value_of(tuned: &[Tuned], (setting, level): Change) -> (String, String) {
    let tuned = &tuned[setting];
    (tuned.setting.name.to_owned(), tuned.values(level)[0].clone())
}

fn manner(args: &NetTune) -> Manner {
    Manner { window: args.ms.map_or(WINDOW, Duration::from_millis), connections: args.connections, rate: args.trips }
}

/// Searches, then restores all settings. The last value is the reason for an early end.
fn tune(args: &NetTune, tuned_path: &mut TunedPath, interrupt: &Interrupt) -> (Outcome, Found, Option<String>) {
    let levels = tuned_path.levels();
    let mut progress = Progress::new(0);
    progress.scenario("net-tune");
    let mut outcome = Outcome::default();
    let runs = runs(args, tuned_path, interrupt, &progress).unwrap_or_else(|why| {
        outcome.lacks(why.to_string());
        0
    });
    progress.bar.inc_length(runs as u64);
    let limits = Limits { runs, error: ERROR, seed: args.link.seed };
    let mut run = |levels: &[usize]| step(tuned_path, levels, interrupt, &progress);
    let (found, ended) = search(&levels, limits, &mut run);
    drop(progress);
    let asks = ended.is_none() && tuned_path.wants_streams() && !args.check;
    let asked = if asks { datagrams(tuned_path, &found.best, interrupt) } else { Ok(Vec::new()) };
    if let Err(why) = tuned_path.set(&vec![0; levels.len()]) {
        outcome.lacks(format!("not all is as it was: {why}"));
    }
    rows::add(&mut outcome, tuned_path, &found);
    match asked {
        Ok(rows) => outcome.add_rows(rows),
        Err(why) => outcome.lacks(format!("datagrams were not compared with streams: {why}")),
    }
    (outcome, found, ended.map(|why| why.to_string()))
}

/// Compares datagrams with streams, with the original and with the recommended settings. The choice belongs to
/// programs; no setting makes it.
fn datagrams(tuned_path: &mut TunedPath, best: &[Change], interrupt: &Interrupt) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for changes in [&[][..], best].iter().take(1 + usize::from(!best.is_empty())) {
        let levels = point(tuned_path.tuned.len(), changes);
        let mut gains = Vec::new();
        for _ in 0..ROUNDS_OF_DATAGRAMS {
            if interrupt.came() {
                return Err(LabError::Stopped);
            }
            gains.extend(tuned_path.datagrams(&levels)?);
        }
        rows.push(rows::of_datagrams(tuned_path, changes, &Estimate::of(&gains, ERROR)));
    }
    Ok(rows)
}

fn runs(
    args: &NetTune,
    tuned_path: &mut TunedPath,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<usize, LabError> {
    progress.bar.inc_length(FIRST as u64);
    let start = vec![0; tuned_path.levels().len()];
    let (mut costs, mut times) = (Vec::new(), Vec::new());
    for _ in 0..FIRST {
        let began = Instant::now();
        costs.push(step(tuned_path, &start, interrupt, progress)?);
        times.push(began.elapsed().as_secs_f64());
    }
    // The median, because one delayed run says little.
    let mut each = median(&times);
    if args.ms.is_none() {
        let longer = WINDOW.mul_f64((deviation(&costs) / QUIET).powi(2).clamp(1.0, LONGER));
        each += longer.saturating_sub(WINDOW).as_secs_f64();
        tuned_path.measure_for(longer);
    }
    let most = args.runs.unwrap_or(if args.quick { QUICK_RUNS } else { RUNS });
    Ok(most.min((TIME.as_secs_f64() / each) as usize))
}

fn step(
    tuned_path: &mut TunedPath,
    levels: &[usize],
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<f64, LabError> {
    if interrupt.came() {
        return Err(LabError::Stopped);
    }
    progress.begin(&tuned_path.words(levels));
    let cost = tuned_path.cost(levels);
    progress.advance();
    cost
}

/// Tries all combinations of `matters`, or of all settings, and compares `found` with the best of them. Returns the
/// best one, and the gain of `found` against it.
fn compare(
    args: &NetTune,
    tuned_path: &mut TunedPath,
    (found, matters): (&[Change], Option<&[&str]>),
    interrupt: &Interrupt,
) -> Result<(Vec<Change>, Estimate), LabError> {
    let is_free = |tuned: &Tuned| matters.is_none_or(|matters| matters.contains(&tuned.setting.name));
    let levels: Vec<_> =
        tuned_path.tuned.iter().map(|tuned| if is_free(tuned) { tuned.others.len() } else { 0 }).collect();
    let points = levels.iter().try_fold(1_usize, |points, others| points.checked_mul(others + 1));
    let Some(points) = points.filter(|points| *points <= MAX_POINTS) else {
        let why = format!("there are more than {MAX_POINTS} combinations: name fewer settings with --setting");
        return Err(LabError::Usage(why));
    };
    let mut progress = Progress::new(0);
    progress.scenario("all");
    progress.bar.inc_length((points * ROUNDS_OF_ALL) as u64);
    let limits = Limits { runs: usize::MAX, error: ERROR, seed: args.link.seed };
    let mut run = |levels: &[usize]| step(tuned_path, levels, interrupt, &progress);
    exhaust(&levels, found, limits, &mut run)
}
