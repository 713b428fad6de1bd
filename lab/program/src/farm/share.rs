//! `share`: unequal nodes with enough work. Measures the part of their capacity that is used.

use super::columns;
use super::contest::{self, Measured};
use super::found::{share, share_to_the_end};
use super::load::{self, Dice};
use super::results;
use super::running::{Running, Variant, sixteen};
use super::stand::Stand;
use crate::farm::error::FarmError;
use sidecore_report::{Row, column};
use std::time::Duration;

/// Duration of a unit of work on a fast node: together the nodes do 1,406 events a second.
pub(crate) const UNIT: Duration = Duration::from_micros(200);
const POLICIES: [&str; 4] = ["tokens", "round-robin", "eft", "priced"];
/// Events in a dispatcher and its nodes: 32 for each node, like the pulling nodes with most messages. All others wait
/// in the work queue.
const HOLD: [&str; 2] = ["--hold", "512"];
/// Measured part of the time that the nodes need. Rates are learned before it, and events run out after it.
const FROM: f64 = 0.2;
const TO: f64 = 0.8;
/// Limit of the run, as a multiple of that time.
const MAX_DURATION_RATIO: f64 = 1.3;

pub(crate) async fn measure(stand: &Stand) -> Result<Measured, FarmError> {
    let variants = contest::all(&POLICIES);
    let one = async |variant, seed| once(stand, variant, seed).await;
    let entries = contest::measure(stand, "share", &variants, stand.pick(1, 5), one).await?;
    let best = contest::best(&entries, |one, other| one > other, columns::SHARE);
    let row = |entry: &contest::Entry| {
        let goal = (entry.variant == Variant::Farm("tokens")).then_some(0.95);
        let row = contest::row(stand, "share", entry, columns::SHARE);
        row.with(column::DEVICES, devices()).with(column::AT_LEAST, goal)
    };
    Ok((entries.iter().map(row).collect(), best))
}

pub(crate) fn devices() -> String {
    format!("{} nodes, {} of them {} x slower", load::NODES, load::SLOW, load::SLOWER)
}

async fn once(stand: &Stand, variant: Variant, seed: u64) -> Result<Row, FarmError> {
    let lasting = stand.pick(Duration::from_secs(3), Duration::from_secs(10));
    let mut running = Running::start(stand, variant, &sixteen(UNIT), &HOLD).await?;
    let mut dice = Dice::new(seed);
    let count = (load::events_per_s(UNIT) * lasting.as_secs_f64()) as usize;
    let events = (0..count).map(|_| dice.size()).map(|units| (units, load::event(units)));
    let fed = running.target.all_at_once(events).await?;
    running.finish(count, lasting.mul_f64(MAX_DURATION_RATIO)).await?;
    let stored = results::all(&stand.js, &running.results).await?;
    let cpu = running.cpu(stored.len());
    running.end().await;
    let share = share(&fed, &stored, UNIT, lasting.mul_f64(FROM), lasting.mul_f64(TO));
    Ok(cpu.with(columns::SHARE, share).with(columns::TO_THE_END, share_to_the_end(&fed, &stored, UNIT)))
}
