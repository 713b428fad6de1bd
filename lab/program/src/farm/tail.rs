//! `tail`: the same nodes at 0.8 of their capacity. Measures the time of an event that comes at a random moment.

use super::columns::{TOTAL, TOTAL_P99};
use super::contest::{self, Measured};
use super::found::total;
use super::load::{self, Dice};
use super::results;
use super::rows::percentiles;
use super::running::{Running, Variant, sixteen};
use super::share::{UNIT, devices};
use super::stand::Stand;
use crate::farm::error::FarmError;
use sidecore_report::{Row, column};
use sidecore_terminal::output::tell;
use std::time::Duration;

/// Policies that can carry this load on unequal nodes; `round-robin` cannot.
const POLICIES: [&str; 3] = ["tokens", "eft", "priced"];
const LOAD: f64 = 0.8;
/// Part of the time that is not measured: rates are learned until then.
const AFTER: f64 = 0.2;
const MAX_WAIT: Duration = Duration::from_secs(10);

pub(crate) async fn measure(stand: &Stand) -> Result<Measured, FarmError> {
    let variants = contest::all(&POLICIES);
    let one = async |variant, seed| once(stand, variant, seed).await;
    let entries = contest::measure(stand, "tail", &variants, stand.pick(1, 5), one).await?;
    let best = contest::best(&entries, |one, other| one < other, TOTAL_P99);
    let row = |entry| {
        let row = contest::row(stand, "tail", entry, TOTAL_P99).with(column::DEVICES, devices());
        match best {
            Some(best) => contest::compared(row, entry, &entries[best], TOTAL_P99, (column::AT_MOST, 0.7)),
            None => row,
        }
    };
    Ok((entries.iter().map(row).collect(), best))
}

async fn once(stand: &Stand, variant: Variant, seed: u64) -> Result<Row, FarmError> {
    let lasting = stand.pick(Duration::from_secs(4), Duration::from_secs(20));
    let mut running = Running::start(stand, variant, &sixteen(UNIT), &[]).await?;
    let mut dice = Dice::new(seed);
    let fed = running.target.poisson(&mut dice, LOAD * load::events_per_s(UNIT), lasting, load::event).await?;
    running.finish(fed.len(), MAX_WAIT).await?;
    let stored = results::all(&stand.js, &running.results).await?;
    let cpu = running.cpu(stored.len());
    running.end().await;
    if stored.len() < fed.len() {
        let (missing, name) = (fed.len() - stored.len(), variant.name());
        tell(format_args!("{missing} of {} events had no result in time with {name}: no figure", fed.len()));
        return Ok(cpu);
    }
    Ok(cpu.with_times(TOTAL, percentiles(total(&fed, &stored, lasting.mul_f64(AFTER)))))
}
