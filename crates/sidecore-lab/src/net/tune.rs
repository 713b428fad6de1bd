//! `sidecore net tune`: finds the settings that make a path good, and sets them.

mod apply;
mod confirm;
mod estimate;
mod ethtool;
mod goal;
mod place;
mod plant;
mod rig;
mod rows;
mod search;
mod setting;

use super::end::Order;
use super::link::{Link, Settings};
use super::measure::find_peer;
use super::pair::{FAR, Pair};
use super::path::Path;
use super::protocol::PORT;
use crate::args::{NetJoint, NetTune};
use crate::bench::{self, Outcome};
use crate::interrupt::{Interrupt, STOPPED};
use crate::output;
use crate::progress::Progress;
use apply::State;
pub(crate) use goal::Goal;
pub(super) use place::Here;
pub(crate) use plant::Plant;
use plant::Planted;
use rig::{Ends, Manner, Rig, Tuned};
use search::{Change, Found, Limits, exhaust, search};
pub(super) use setting::by_name;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The interfaces of a pair.
const NEAR: &str = "near";
const OTHER: &str = "far";
/// Probability of recommending what does not help.
const ERROR: f64 = 0.05;
/// How long the runs may take, by what the first of them take; what is tried may be slower.
const TIME: Duration = Duration::from_secs(140);
const FIRST: u64 = 4;
/// Most runs.
const RUNS: usize = 600;
const QUICK_RUNS: usize = 200;
/// Most combinations that are all tried.
const MOST_POINTS: usize = 128;

/// Does what was asked for, and shows it.
///
/// # Errors
/// There is no path, or nothing of it can be set: what to do.
pub(super) fn run(args: &NetTune) -> Result<(), String> {
    let outcome = match &args.interface {
        Some(interface) if args.revert => return revert(args, interface),
        Some(interface) => tune_interface(args, interface)?,
        None => tune_pair(args)?,
    };
    bench::export("sidecore net tune", &args.files, outcome).map_err(|error| error.to_string())
}

fn revert(args: &NetTune, interface: &str) -> Result<(), String> {
    let count = State::new(&args.state, interface).revert(&mut Here::of(interface)?)?;
    output::tell(format!("{interface}: {count} settings are as they were before"));
    Ok(())
}

/// Of a path that is made, both ends.
fn tune_pair(args: &NetTune) -> Result<Outcome, String> {
    let (mut pair, _link) = match args.by {
        NetJoint::Veth => (Pair::by_veth()?, None),
        NetJoint::Link => Link::start(&Settings::of(&args.link)?).map(|(pair, link)| (pair, Some(link)))?,
    };
    let at = SocketAddr::from((FAR, PORT));
    pair.far.order(&Order::Listen { at })?;
    let path = Path::to(at)?;
    let mut ends = Ends { near: Here::of(NEAR)?, far: Some((pair.far, OTHER.to_owned())) };
    let _planted = args.plant.map_or_else(|| Ok(Planted::default()), |plant| plant.into(&mut ends))?;
    let (mut tuned, left_out) = ends.discover(&args.setting, true)?;
    tuned.retain(|tuned| !args.plant.is_some_and(|plant| plant.holds(tuned.setting.name)));
    let mut rig = Rig::new(path, ends, tuned, args.goal.clone(), manner(args));
    let interrupt = Interrupt::new()?;
    let (mut outcome, found) = tune(args, &mut rig, &interrupt);
    outcome.lacks_all(left_out);
    if args.exhaustive {
        compare(args, &mut rig, &found.best, &interrupt, &mut outcome)?;
    }
    Ok(outcome)
}

/// Of a path to another machine, the end that is here. Nothing is changed but by request, and not before it is kept how it
/// was.
fn tune_interface(args: &NetTune, interface: &str) -> Result<Outcome, String> {
    let peer = args.peer.as_deref().ok_or("there is no peer: name one with --peer")?;
    let mut ends = Ends { near: Here::of(interface)?, far: None };
    let (would, left_out) = ends.discover(&args.setting, false)?;
    if !(args.tries || args.apply) {
        let mut outcome = rows::would_try(&would);
        outcome.lacks_all(left_out);
        return Ok(outcome);
    }
    let path = find_peer(peer)?;
    let interrupt = Interrupt::of_all_kinds()?;
    let state = State::new(&args.state, interface);
    let names: Vec<_> = would.iter().map(|tuned| tuned.setting.name).collect();
    state.keep(&mut ends.near, &names)?;
    let done = try_and_apply(args, (path, ends), &state, peer, &interrupt);
    // Whatever happened before: only what was applied is to stay.
    if !matches!(done, Ok((_, true))) && state.is_kept() {
        state.revert(&mut Here::of(interface)?)?;
    }
    let mut outcome = done?.0;
    outcome.lacks_all(left_out);
    Ok(outcome)
}

/// Whether something stays changed.
fn try_and_apply(
    args: &NetTune,
    (path, mut ends): (Path, Ends),
    state: &State,
    peer: &str,
    interrupt: &Interrupt,
) -> Result<(Outcome, bool), String> {
    let (tuned, refused) = ends.discover(&args.setting, true)?;
    let mut rig = Rig::new(path, ends, tuned, args.goal.clone(), manner(args));
    let (mut outcome, found) = tune(args, &mut rig, interrupt);
    outcome.lacks_all(refused);
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
    Manner { window: Duration::from_millis(args.ms), connections: args.connections, rate: args.trips }
}

/// Searches, and sets all back.
fn tune(args: &NetTune, rig: &mut Rig, interrupt: &Interrupt) -> (Outcome, Found) {
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
    outcome.lacks_all(ended);
    if let Err(why) = rig.set(&vec![0; levels.len()]) {
        outcome.lacks(format!("not all is as it was: {why}"));
    }
    rows::add(&mut outcome, rig, &found);
    (outcome, found)
}

/// As many as there is time for, by what the first ones take.
fn runs(args: &NetTune, rig: &mut Rig, interrupt: &Interrupt, progress: &Progress) -> Result<usize, String> {
    progress.bar.inc_length(FIRST);
    let began = Instant::now();
    let start = vec![0; rig.levels().len()];
    for _ in 0..FIRST {
        step(rig, &start, interrupt, progress)?;
    }
    let each = began.elapsed().div_f64(FIRST as f64);
    let most = args.runs.unwrap_or(if args.quick { QUICK_RUNS } else { RUNS });
    Ok(most.min((TIME.as_secs_f64() / each.as_secs_f64()) as usize))
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

/// Tries all combinations, and compares what was found with the best of them.
fn compare(
    args: &NetTune,
    rig: &mut Rig,
    best: &[Change],
    interrupt: &Interrupt,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let levels = rig.levels();
    let points: usize = levels.iter().map(|others| others + 1).product();
    if points > MOST_POINTS {
        return Err(format!("{points} combinations are too many: name fewer settings with --setting"));
    }
    let progress = Progress::new(0);
    let limits = Limits { runs: usize::MAX, error: ERROR, seed: args.link.seed };
    let mut run = |levels: &[usize]| step(rig, levels, interrupt, &progress);
    let (all, gain) = exhaust(&levels, best, limits, &mut run)?;
    rows::add_best_of_all(outcome, rig, &all, &gain);
    Ok(())
}
