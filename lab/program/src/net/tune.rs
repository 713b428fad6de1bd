//! `sidecore net tune`: finds settings that improve a path, and applies them.

mod apply;
mod confirm;
pub(super) mod estimate;
mod ethtool;
mod goal;
mod identity;
pub(super) mod location;
mod rows;
mod search;
pub(super) mod setting;
mod tuned_path;

use super::link::{Link, Settings};
use super::measure::{address_of, find_peer};
use super::path::Path;
use crate::args::{Goal, NetJoint, NetTune};
use crate::error::LabError;
use crate::net::sections::export;
use crate::report::{Outcome, Row};
use apply::{Reverted, SettingsStore};
use estimate::{Estimate, deviation};
use identity::Fate;
use location::{Here, here_in_words};
use search::{Change, Found, Limits, Plan, exhaust, point, search};
use setting::PARTNERS;
use sidecore_measure::host_monitor::{HostMonitor, caveats_since};
use sidecore_measure::interrupt::{Interrupt, STOPPED};
use sidecore_measure::progress::Progress;
use sidecore_report::statistics::median;
use sidecore_terminal::error::{REFUSED, USAGE};
use sidecore_terminal::output;
use std::time::{Duration, Instant};
use tuned_path::{Ends, Manner, Tuned, TunedPath};

const NEAR: &str = "near";
const OTHER: &str = "far";
/// Probability of a recommendation without a real gain.
const ERROR: f64 = 0.05;
/// Time for all runs, estimated from the first `FIRST` runs; slower settings may exceed it. It grows with the window.
const TIME: Duration = Duration::from_secs(150);
const FIRST: usize = 6;
/// Duration of a run's window. It grows up to `LONGER` times if the first runs differ by more than `QUIET`, a
/// logarithm: the start of a run has a fixed cost.
const WINDOW: Duration = Duration::from_millis(250);
const QUIET: f64 = 0.1;
const LONGER: f64 = 6.0;
/// Growth of the window that the time suffices for.
const FREE: f64 = 3.0;
/// Expected range of five normal values, in deviations.
const RANGE: f64 = 2.326;
/// Window of a second first run, if nothing arrived in the first one.
const PATIENCE: Duration = Duration::from_secs(2);
const EMPTY: &str = "the peer answers, but no payload arrives there. Full packets may be lost: compare the MTU of all interfaces on \
                     the way (ping -M do -s 1472 PEER). Or a firewall drops other ports than the peer's";
const RUNS: usize = 400;
const QUICK_RUNS: usize = 150;
/// Measured time of the diagnosis.
const DIAGNOSIS: Duration = Duration::from_secs(3);
const MAX_POINTS: usize = 128;
const ROUNDS_OF_ALL: usize = 6;
const ROUNDS_OF_DATAGRAMS: usize = 6;

/// Returns the exit code.
pub(super) fn run(args: &NetTune) -> Result<u8, LabError> {
    let began = HostMonitor::now();
    let (mut outcome, failure, path) = match &args.interface {
        Some(interface) if args.revert => return revert(args, interface),
        Some(interface) => {
            let path = here_in_words(Some(interface));
            let (outcome, failure) = tune_interface(args, interface)?;
            (outcome, failure, path)
        }
        None => {
            let (outcome, failure, mut tuned_path) = tune_pair(args, &Interrupt::new()?)?;
            // Settings are those from before again.
            (outcome, failure, tuned_path.near().in_words())
        }
    };
    if let Some(why) = &failure {
        output::tell(why);
    }
    outcome.caveats = caveats_since(began);
    export("sidecore net tune", &args.files, outcome, path)?;
    Ok(if failure.is_some() { USAGE } else { 0 })
}

/// Returns the exit code.
fn revert(args: &NetTune, interface: &str) -> Result<u8, LabError> {
    let mut here = Here::of_any(interface)?;
    let interface = here.interface().to_owned();
    let Reverted { count, fate, others } = SettingsStore::saved_in(&args.state, &interface)?.revert(&mut here)?;
    output::tell(match fate {
        Fate::Same => format!("{interface}: {count} settings are as they were before"),
        Fate::Gone => format!(
            "{interface}: {count} settings are as they were before; the interface is not there, and what was set of it is gone \
             with it"
        ),
        Fate::Restarted => format!("{interface}: the machine was started anew, and what was set is gone with that"),
    });
    others.iter().for_each(output::tell);
    Ok(if others.is_empty() { 0 } else { REFUSED })
}

/// Returns also what failed.
fn tune_pair(args: &NetTune, interrupt: &Interrupt) -> Result<(Outcome, Option<LabError>, TunedPath), LabError> {
    // NAPI, as in a driver's interface, so that more settings exist.
    let as_drivers = |settings| Settings { napi: true, ..settings };
    let settings = (args.by == NetJoint::Link).then(|| Settings::of(&args.link).map(as_drivers)).transpose()?;
    let (mut pair, link) = Link::or_veth(settings.as_ref())?;
    let path = pair.path()?;
    let mut ends = Ends { near: Here::of(NEAR)?, far: Some((pair.far, OTHER.to_owned())), _link: link };
    let (tuned, left_out) = ends.discover(&args.setting, true)?;
    let mut tuned_path = TunedPath::new(path, ends, tuned, goal(args), manner(args));
    let (mut outcome, found, failure) = tune(args, &mut tuned_path, interrupt)?;
    if args.exhaustive && failure.is_none() && !interrupt.came() {
        // The search's result is kept if the comparison fails.
        match compare(args, &mut tuned_path, &found.best, interrupt) {
            Ok(best) => outcome.add_rows([rows::best_of_all(&tuned_path, &best)]),
            Err(why) => outcome.lacks(why.to_string()),
        }
    }
    outcome.lacks_all(left_out);
    Ok((outcome, failure, tuned_path))
}

fn goal(args: &NetTune) -> Goal {
    args.goal.clone().unwrap_or_else(Goal::throughput)
}

/// Tunes the local end of a path to another machine. Settings change only by request, and after the old ones are saved.
fn tune_interface(args: &NetTune, interface: &str) -> Result<(Outcome, Option<LabError>), LabError> {
    let peer = args.peer.as_deref().ok_or_else(|| LabError::usage("there is no peer: name one with --peer"))?;
    if args.apply && !args.yes {
        confirm::can_ask()?;
    }
    let mut ends = Ends { near: Here::of(interface)?, far: None, _link: None };
    ends.near.check_way(address_of(peer)?)?;
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
        return Ok((outcome, None));
    };
    let path = find_peer(peer)?;
    let interrupt = Interrupt::of_all_kinds()?;
    let tried: Vec<_> = would.iter().map(|tuned| (tuned.setting.name, tuned.others.as_slice())).collect();
    state.keep(&mut ends.near, &tried)?;
    let done = try_and_apply(args, (path, ends), &mut state, peer, &interrupt);
    // In every case, only applied settings may stay.
    if !matches!(done, Ok((_, _, true))) && state.is_saved() {
        state.revert(&mut Here::of_any(&interface)?)?.others.iter().for_each(output::tell);
    }
    let (mut outcome, failure, _) = done?;
    outcome.lacks_all(left_out);
    Ok((outcome, failure))
}

/// Returns what failed, and whether settings stay changed.
fn try_and_apply(
    args: &NetTune,
    (path, mut ends): (Path, Ends),
    state: &mut SettingsStore,
    peer: &str,
    interrupt: &Interrupt,
) -> Result<(Outcome, Option<LabError>, bool), LabError> {
    let (tuned, refused) = ends.discover(&args.setting, true)?;
    if tuned.is_empty() {
        let task = "nothing can be set: it takes root, or CAP_NET_ADMIN, and a driver that lets one";
        return Err(LabError::failed(task, refused.join("; ")));
    }
    let mut tuned_path = TunedPath::new(path, ends, tuned, goal(args), manner(args));
    let (mut outcome, found, failure) = tune(args, &mut tuned_path, interrupt)?;
    outcome.lacks_all(refused);
    if !args.apply || found.best.is_empty() || failure.is_some() || interrupt.came() {
        return Ok((outcome, failure, false));
    }
    let changes: Vec<_> = found.best.iter().map(|change| value_of(&tuned_path.tuned, *change)).collect();
    let applied = state.apply(tuned_path.near(), &changes, || {
        confirm::reaches(peer)?;
        match args.yes {
            _ if interrupt.came() => Err(LabError::Stopped),
            true => Ok(()),
            false => confirm::asks(interrupt),
        }
    });
    // The search's result is kept if the settings cannot be applied.
    let failure = applied.map_err(|why| LabError::failed("not applied", why)).err();
    match &failure {
        None => outcome.note(format!("Applied; --revert --interface {} takes it back.", tuned_path.interface)),
        Some(why) => outcome.left_out.insert(0, why.to_string()),
    }
    let stays = failure.is_none();
    Ok((outcome, failure, stays))
}

fn value_of(tuned: &[Tuned], (setting, level): Change) -> (String, String) {
    let tuned = &tuned[setting];
    (tuned.setting.name.to_owned(), tuned.values(level)[0].clone())
}

fn manner(args: &NetTune) -> Manner {
    Manner { window: args.ms.map_or(WINDOW, Duration::from_millis), connections: args.connections, rate: args.trips }
}

/// Searches, then restores all settings. Returns what ended it early, except an interrupt.
fn tune(
    args: &NetTune,
    tuned_path: &mut TunedPath,
    interrupt: &Interrupt,
) -> Result<(Outcome, Found, Option<LabError>), LabError> {
    let levels = tuned_path.levels();
    let mut progress = Progress::new(0);
    progress.scenario("net-tune");
    let runs = match runs(args, tuned_path, interrupt, &progress) {
        Err(LabError::Stopped) => 0,
        runs => runs?,
    };
    progress.extend(runs);
    let mut outcome = Outcome::default();
    let plan = plan(tuned_path, runs, &mut outcome);
    let limits = Limits { runs, error: ERROR, seed: args.link.seed };
    let mut run = |levels: &[usize]| step(tuned_path, levels, interrupt, &progress);
    let (found, ended) = search(&plan, limits, &mut run);
    drop(progress);
    let mut failure = ended.filter(|_| !interrupt.came());
    outcome.lacks_all(failure.iter().map(ToString::to_string));
    if interrupt.came() {
        outcome.lacks(STOPPED);
    }
    let asks = failure.is_none() && !interrupt.came() && tuned_path.wants_streams();
    let asked = if asks { datagrams(tuned_path, &found.best, interrupt) } else { Ok(Vec::new()) };
    if let Err(why) = tuned_path.set(&vec![0; levels.len()]) {
        outcome.lacks(format!("not all is as it was: {why}"));
    }
    rows::add(&mut outcome, tuned_path, &found);
    outcome.lacks_all(rows::without_runs(tuned_path, &found).filter(|_| failure.is_none() && !interrupt.came()));
    match asked {
        Ok(rows) => outcome.add_rows(rows),
        Err(why) => {
            outcome.lacks(format!("datagrams were not compared with streams: {why}"));
            failure = Some(why).filter(|_| !interrupt.came());
        }
    }
    Ok((outcome, found, failure))
}

/// What limits the path decides what is tried first.
fn plan(tuned_path: &mut TunedPath, runs: usize, outcome: &mut Outcome) -> Plan {
    let place = |name: &str| tuned_path.tuned.iter().position(|tuned| tuned.setting.name == name);
    let partners = PARTNERS.iter().filter_map(|[one, other]| Some([place(one)?, place(other)?])).collect();
    let mut plan = Plan { levels: tuned_path.levels(), first: Vec::new(), partners };
    if runs > 0 {
        match tuned_path.suspects(DIAGNOSIS) {
            Ok((first, said)) => {
                plan.first = first;
                outcome.note(format!("Before: {said}"));
            }
            Err(why) => outcome.lacks(format!("what limits the path: {why}")),
        }
    }
    plan
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
    progress.extend(FIRST);
    let start = vec![0; tuned_path.levels().len()];
    let (mut costs, mut times) = (Vec::new(), Vec::new());
    for _ in 0..FIRST {
        let began = Instant::now();
        costs.push(step(tuned_path, &start, interrupt, progress)?);
        times.push(began.elapsed().as_secs_f64());
        if tuned_path.is_empty() {
            // A long way, or a machine that stalls.
            let window = tuned_path.measure_for(PATIENCE);
            step(tuned_path, &start, interrupt, progress)?;
            if tuned_path.is_empty() {
                return Err(LabError::broken(EMPTY));
            }
            tuned_path.measure_for(window);
        }
    }
    // The median, because one delayed run says little.
    let (mut each, mut time) = (median(&times), TIME.as_secs_f64());
    if args.ms.is_none() {
        let growth = growth(&costs);
        let longer = WINDOW.mul_f64(growth);
        each += longer.saturating_sub(WINDOW).as_secs_f64();
        time *= (growth / FREE).max(1.0);
        tuned_path.measure_for(longer);
    }
    let most = args.runs.unwrap_or(if args.quick { QUICK_RUNS } else { RUNS });
    Ok(most.min((time / each) as usize))
}

/// Growth of the window by the spread of the first runs without the worst one: one that stalls is an accident, two are
/// not.
fn growth(costs: &[f64]) -> f64 {
    let mut sorted = costs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.pop();
    let range = sorted.last().zip(sorted.first()).map_or(0.0, |(most, least)| most - least);
    (deviation(costs).max(range / RANGE) / QUIET).powi(2).clamp(1.0, LONGER)
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

/// Tries all combinations, and compares `found` with the best of them. Returns the best one, and the gain of `found`
/// against it.
fn compare(
    args: &NetTune,
    tuned_path: &mut TunedPath,
    found: &[Change],
    interrupt: &Interrupt,
) -> Result<(Vec<Change>, Estimate), LabError> {
    let levels = tuned_path.levels();
    let points = levels.iter().try_fold(1_usize, |points, others| points.checked_mul(others + 1));
    let Some(points) = points.filter(|points| *points <= MAX_POINTS) else {
        let why = format!("there are more than {MAX_POINTS} combinations: name fewer settings with --setting");
        return Err(LabError::Usage(why));
    };
    let mut progress = Progress::new(0);
    progress.scenario("all");
    progress.extend(points * ROUNDS_OF_ALL);
    let limits = Limits { runs: usize::MAX, error: ERROR, seed: args.link.seed };
    let mut run = |levels: &[usize]| step(tuned_path, levels, interrupt, &progress);
    exhaust(&levels, found, limits, &mut run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_longer_where_more_than_one_of_the_first_differs() {
        assert!((growth(&[0.0, 0.01, 0.02, 0.03, 0.04, 3.0]) - 1.0).abs() < 1e-9);
        assert!(growth(&[0.0, 0.1, 0.3, 0.4, 0.5, 0.6]) > 2.0);
        let two = growth(&[0.0, 0.01, 0.02, 0.03, 2.0, 3.0]);
        assert!((two - LONGER).abs() < 1e-9, "{two}");
    }
}
