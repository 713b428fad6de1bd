//! `sidecore net tune`: finds the settings that make a path good, and sets them.

mod apply;
mod check;
mod confirm;
pub(super) mod estimate;
mod ethtool;
mod goal;
mod identity;
mod place;
mod plant;
mod rig;
mod rows;
mod search;
mod setting;
mod storm;

use super::link::{Link, Settings};
use super::measure::find_peer;
use super::path::Path;
use crate::args::{NetJoint, NetTune};
use crate::bench::{self, Outcome, median};
use crate::interrupt::{Interrupt, STOPPED};
use crate::progress::Progress;
use crate::report::Row;
use apply::State;
use estimate::{Estimate, deviation};
pub(crate) use goal::Goal;
use identity::Fate;
pub(super) use place::Here;
pub(crate) use plant::Plant;
use rig::{Ends, Manner, Rig, Tuned};
use search::{Change, Found, Limits, exhaust, point, search};
pub(super) use setting::by_name;
use sidecore_terminal::output;
use std::time::{Duration, Instant};

/// The interfaces of a pair.
const NEAR: &str = "near";
const OTHER: &str = "far";
/// Probability of recommending what does not help.
const ERROR: f64 = 0.05;
/// How long the runs may take, by what the first of them take; what is tried may be slower.
const TIME: Duration = Duration::from_secs(150);
const FIRST: usize = 6;
/// How long each run counts; where the first differ by more than this, as a logarithm, as much longer as makes up for it, within
/// that limit: a run's beginning takes its time in any case.
const WINDOW: Duration = Duration::from_millis(150);
const QUIET: f64 = 0.1;
const LONGER: f64 = 3.0;
/// Most runs.
const RUNS: usize = 600;
const QUICK_RUNS: usize = 200;
/// Most combinations that are all tried.
const MOST_POINTS: usize = 128;
/// About how many runs each of these takes.
const ROUNDS_OF_ALL: usize = 6;
/// How often datagrams are compared with streams.
const ROUNDS_OF_DATAGRAMS: usize = 6;

/// What became of a path that was made.
struct Tried {
    rig: Rig,
    found: Found,
    /// How long it was searched.
    took: Duration,
    /// The best of all combinations, and what was found against it: 0 is as good.
    best: Option<(Vec<Change>, Estimate)>,
    /// Why the search or the comparison ended early.
    ended: Vec<String>,
}

/// Does what was asked for, and shows it.
///
/// # Errors
/// There is no path, or nothing of it can be set: what to do.
pub(super) fn run(args: &NetTune) -> Result<(), String> {
    let outcome = match &args.interface {
        Some(interface) if args.revert => return revert(args, interface),
        Some(interface) => tune_interface(args, interface)?,
        None if args.check => check(args)?,
        None => tune_pair(args, args.plant, &Interrupt::new()?)?.0,
    };
    bench::export("sidecore net tune", &args.files, outcome).map_err(|error| error.to_string())
}

fn revert(args: &NetTune, interface: &str) -> Result<(), String> {
    let mut here = Here::of_any(interface)?;
    let interface = here.interface().to_owned();
    let (count, fate) = State::kept_in(&args.state, &interface)?.revert(&mut here)?;
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

/// Of a path that is made, both ends, with what was planted there.
fn tune_pair(args: &NetTune, plant: Option<Plant>, interrupt: &Interrupt) -> Result<(Outcome, Tried), String> {
    if let Some(why) = plant.and_then(|plant| plant.lacks(args.by)) {
        return Err(why.to_owned());
    }
    // As a driver's interfaces, so that there is something to set.
    let as_drivers = |settings| Settings { napi: true, ..settings };
    let settings = (args.by == NetJoint::Link).then(|| Settings::of(&args.link).map(as_drivers)).transpose()?;
    let (mut pair, link) = Link::or_veth(settings.as_ref())?;
    let path = pair.path()?;
    let mut ends = Ends { near: Here::of(NEAR)?, far: Some((pair.far, OTHER.to_owned())), _link: link };
    let _storm = plant.map(|plant| plant.into(&mut ends, args.by)).transpose()?;
    let (mut tuned, left_out) = ends.discover(&args.setting, true)?;
    tuned.retain(|tuned| !plant.is_some_and(|plant| plant.holds(tuned.setting.name, args.by)));
    let mut rig = Rig::new(path, ends, tuned, goal(args, plant), manner(args));
    let began = Instant::now();
    let (mut outcome, found, ended) = tune(args, &mut rig, interrupt);
    let mut tried = Tried { took: began.elapsed(), rig, found, best: None, ended: ended.into_iter().collect() };
    if (args.exhaustive || args.check) && tried.ended.is_empty() {
        let matters = plant.filter(|_| args.setting.is_empty()).map(Plant::matters);
        // What was found is not lost by what could not be compared.
        match compare(args, &mut tried.rig, (&tried.found.best, matters), interrupt) {
            Ok(best) => outcome.add_rows([rows::best_of_all(&tried.rig, tried.best.insert(best))]),
            Err(why) => tried.ended.push(why),
        }
    }
    outcome.lacks_all(tried.ended.iter().cloned().chain(left_out));
    Ok((outcome, tried))
}

/// Problems that are known, each in a pair of its own: whether they are found.
fn check(args: &NetTune) -> Result<Outcome, String> {
    let interrupt = Interrupt::new()?;
    let plants = args.plant.map_or_else(|| Plant::ALL.to_vec(), |plant| vec![plant]);
    let mut outcome = Outcome::default();
    for plant in plants {
        match tune_pair(args, Some(plant), &interrupt) {
            Ok((_, tried)) => {
                outcome.add_rows(check::rows(plant, &tried));
                outcome.lacks_all(check::missed(plant, &tried));
                outcome.lacks_all(tried.ended.iter().map(|why| format!("{}: {why}", plant.name())));
            }
            Err(why) => outcome.lacks(format!("{}: {why}", plant.name())),
        }
        if interrupt.came() {
            break;
        }
    }
    Ok(outcome)
}

fn goal(args: &NetTune, plant: Option<Plant>) -> Goal {
    args.goal.clone().unwrap_or_else(|| plant.map_or_else(Goal::throughput, Plant::goal))
}

/// Of a path to another machine, the end that is here. Nothing is changed but by request, and not before it is kept how it
/// was.
fn tune_interface(args: &NetTune, interface: &str) -> Result<Outcome, String> {
    let peer = args.peer.as_deref().ok_or("there is no peer: name one with --peer")?;
    if args.apply && !args.yes {
        confirm::can_ask()?;
    }
    let mut ends = Ends { near: Here::of(interface)?, far: None, _link: None };
    let interface = ends.near.interface().to_owned();
    // From here on nobody else changes what is read.
    let state = (args.tries || args.apply).then(|| State::new(&args.state, &interface)).transpose()?;
    let (would, left_out) = ends.discover(&args.setting, false)?;
    if would.is_empty() && !left_out.is_empty() {
        return Err(format!("nothing of {interface} can be set here: {}", left_out.join("; ")));
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
    // Whatever happened before: only what was applied is to stay.
    if !matches!(done, Ok((_, true))) && state.is_kept() {
        state.revert(&mut Here::of_any(&interface)?)?;
    }
    let mut outcome = done?.0;
    outcome.lacks_all(left_out);
    Ok(outcome)
}

/// Whether something stays changed.
fn try_and_apply(
    args: &NetTune,
    (path, mut ends): (Path, Ends),
    state: &mut State,
    peer: &str,
    interrupt: &Interrupt,
) -> Result<(Outcome, bool), String> {
    let (tuned, refused) = ends.discover(&args.setting, true)?;
    if tuned.is_empty() {
        let why = refused.join("; ");
        return Err(format!("nothing can be set: it takes root, or CAP_NET_ADMIN, and a driver that lets one: {why}"));
    }
    let mut rig = Rig::new(path, ends, tuned, goal(args, None), manner(args));
    let (mut outcome, found, ended) = tune(args, &mut rig, interrupt);
    outcome.lacks_all(ended.into_iter().chain(refused));
    if !args.apply || found.best.is_empty() {
        return Ok((outcome, false));
    }
    let changes: Vec<_> = found.best.iter().map(|change| value_of(&rig.tuned, *change)).collect();
    let applied = state.apply(rig.near(), &changes, || {
        confirm::reaches(peer)?;
        if args.yes { Ok(()) } else { confirm::asks(interrupt) }
    });
    // What was measured is not lost by what could not be applied.
    match &applied {
        Ok(()) => outcome.note(format!("Applied; --revert --interface {} takes it back.", rig.interface)),
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

/// Searches, and sets all back. Why it ended early comes last.
fn tune(args: &NetTune, rig: &mut Rig, interrupt: &Interrupt) -> (Outcome, Found, Option<String>) {
    let levels = rig.levels();
    let mut progress = Progress::new(0);
    progress.scenario("net-tune");
    let mut outcome = Outcome::default();
    let runs = runs(args, rig, interrupt, &progress).unwrap_or_else(|why| {
        outcome.lacks(why);
        0
    });
    progress.bar.inc_length(runs as u64);
    let limits = Limits { runs, error: ERROR, seed: args.link.seed };
    let mut run = |levels: &[usize]| step(rig, levels, interrupt, &progress);
    let (found, ended) = search(&levels, limits, &mut run);
    drop(progress);
    let asks = ended.is_none() && rig.wants_streams() && !args.check;
    let asked = if asks { datagrams(rig, &found.best, interrupt) } else { Ok(Vec::new()) };
    if let Err(why) = rig.set(&vec![0; levels.len()]) {
        outcome.lacks(format!("not all is as it was: {why}"));
    }
    rows::add(&mut outcome, rig, &found);
    match asked {
        Ok(rows) => outcome.add_rows(rows),
        Err(why) => outcome.lacks(format!("datagrams were not compared with streams: {why}")),
    }
    (outcome, found, ended)
}

/// Whether datagrams would carry more than streams, as things are now and with what was found: a question to programs, which
/// no setting answers.
fn datagrams(rig: &mut Rig, best: &[Change], interrupt: &Interrupt) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for changes in [&[][..], best].iter().take(1 + usize::from(!best.is_empty())) {
        let levels = point(rig.tuned.len(), changes);
        let mut gains = Vec::new();
        for _ in 0..ROUNDS_OF_DATAGRAMS {
            if interrupt.came() {
                return Err(STOPPED.to_owned());
            }
            gains.extend(rig.datagrams(&levels)?);
        }
        rows.push(rows::of_datagrams(rig, changes, &Estimate::of(&gains, ERROR)));
    }
    Ok(rows)
}

/// As many as there is time for, by what the first ones take.
fn runs(args: &NetTune, rig: &mut Rig, interrupt: &Interrupt, progress: &Progress) -> Result<usize, String> {
    progress.bar.inc_length(FIRST as u64);
    let start = vec![0; rig.levels().len()];
    let (mut costs, mut times) = (Vec::new(), Vec::new());
    for _ in 0..FIRST {
        let began = Instant::now();
        costs.push(step(rig, &start, interrupt, progress)?);
        times.push(began.elapsed().as_secs_f64());
    }
    // A single one that was held up says little.
    let mut each = median(&times);
    if args.ms.is_none() {
        let longer = WINDOW.mul_f64((deviation(&costs) / QUIET).powi(2).clamp(1.0, LONGER));
        each += longer.saturating_sub(WINDOW).as_secs_f64();
        rig.measure_for(longer);
    }
    let most = args.runs.unwrap_or(if args.quick { QUICK_RUNS } else { RUNS });
    Ok(most.min((TIME.as_secs_f64() / each) as usize))
}

fn step(rig: &mut Rig, levels: &[usize], interrupt: &Interrupt, progress: &Progress) -> Result<f64, String> {
    if interrupt.came() {
        return Err(STOPPED.to_owned());
    }
    progress.begin(&rig.words(levels));
    let cost = rig.cost(levels);
    progress.advance();
    cost
}

/// Tries all combinations of those settings, or of all, and compares what was found with the best of them: which that is, and
/// what was found against it.
fn compare(
    args: &NetTune,
    rig: &mut Rig,
    (found, matters): (&[Change], Option<&[&str]>),
    interrupt: &Interrupt,
) -> Result<(Vec<Change>, Estimate), String> {
    let is_free = |tuned: &Tuned| matters.is_none_or(|matters| matters.contains(&tuned.setting.name));
    let levels: Vec<_> = rig.tuned.iter().map(|tuned| if is_free(tuned) { tuned.others.len() } else { 0 }).collect();
    let points = levels.iter().try_fold(1_usize, |points, others| points.checked_mul(others + 1));
    let Some(points) = points.filter(|points| *points <= MOST_POINTS) else {
        return Err(format!("there are more than {MOST_POINTS} combinations: name fewer settings with --setting"));
    };
    let mut progress = Progress::new(0);
    progress.scenario("all");
    progress.bar.inc_length((points * ROUNDS_OF_ALL) as u64);
    let limits = Limits { runs: usize::MAX, error: ERROR, seed: args.link.seed };
    let mut run = |levels: &[usize]| step(rig, levels, interrupt, &progress);
    exhaust(&levels, found, limits, &mut run)
}
