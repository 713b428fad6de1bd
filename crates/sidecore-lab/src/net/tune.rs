//! `sidecore net tune`: finds the settings that make a path good, and sets them.

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
use super::measure::find_peer;
use super::pair::{FAR, Pair};
use super::path::Path;
use super::protocol::PORT;
use crate::args::NetTune;
use crate::bench::Outcome;
use crate::interrupt::{Interrupt, STOPPED};
use crate::progress::Progress;
pub(crate) use goal::Goal;
pub(super) use place::Here;
pub(crate) use plant::Plant;
use plant::Planted;
use rig::{Ends, Manner, Rig};
use search::{Limits, search};
pub(super) use setting::by_name;
use std::net::SocketAddr;
use std::time::Duration;

/// The interfaces of a pair.
const NEAR: &str = "near";
const OTHER: &str = "far";
/// Probability of recommending what does not help.
const ERROR: f64 = 0.05;
/// Most runs: three minutes of runs of 0.3 s.
const RUNS: usize = 600;
const QUICK_RUNS: usize = 200;

/// Finds what was asked for.
///
/// # Errors
/// There is no path, or nothing of it can be set: what to do.
pub(super) fn tune(args: &NetTune) -> Result<Outcome, String> {
    let (path, mut ends) = find(args)?;
    let _planted = args.plant.map_or_else(|| Ok(Planted::default()), |plant| plant.into(&mut ends))?;
    let (mut tuned, left_out) = ends.discover(&args.setting, true)?;
    tuned.retain(|tuned| !args.plant.is_some_and(|plant| plant.holds(tuned.setting.name)));
    let manner = Manner {
        window: Duration::from_millis(args.ms.unwrap_or(150)),
        connections: args.connections,
        rate: args.rate,
    };
    let mut rig = Rig::new(path, ends, tuned, args.goal.clone(), manner);
    let mut outcome = Outcome::default();
    left_out.into_iter().for_each(|why| outcome.lacks(why));
    let runs = args.runs.unwrap_or(if args.quick { QUICK_RUNS } else { RUNS });
    let limits = Limits { runs, error: ERROR, seed: args.seed };
    let mut progress = Progress::new(runs);
    progress.scenario("net-tune");
    let interrupt = Interrupt::new()?;
    let levels = rig.levels();
    let mut run = |levels: &[usize]| {
        if interrupt.came() {
            return Err(STOPPED.to_owned());
        }
        progress.begin(&rig.words(levels));
        let cost = rig.cost(levels);
        progress.advance();
        cost
    };
    let (found, ended) = search(&levels, limits, &mut run);
    drop(progress);
    if let Some(why) = ended {
        outcome.lacks(why);
    }
    let back = rig.set(&vec![0; levels.len()]);
    rows::add(&mut outcome, &rig, &found);
    back.map_err(|why| format!("not all is as it was: {why}"))?;
    Ok(outcome)
}

/// The path that was named, or one that is made, and the ends of it that are ours.
fn find(args: &NetTune) -> Result<(Path, Ends), String> {
    if let (Some(peer), Some(interface)) = (&args.peer, &args.interface) {
        return Ok((find_peer(peer)?, Ends { near: Here::of(interface)?, far: None }));
    }
    let mut pair = Pair::by_veth()?;
    let at = SocketAddr::from((FAR, PORT));
    pair.far.order(&Order::Listen { at })?;
    Ok((Path::to(at)?, Ends { near: Here::of(NEAR)?, far: Some((pair.far, OTHER.to_owned())) }))
}
