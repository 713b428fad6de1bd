//! Counts, and the metrics computed from them.

use super::parameters::Farm;
use sidecore_core::time::Nanos;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) done: u64,
    units: f64,
    /// Times from each event's due arrival until its result was stored, ns.
    times: Vec<Nanos>,
    /// Times from a death until other nodes had all of its events, ns.
    pub(super) gaps: Vec<Nanos>,
    pub(super) redone: u64,
    pub(super) dead: u64,
    /// Working time of the dispatcher, ns.
    pub(super) busy: f64,
}

impl Tally {
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    pub(super) fn did(&mut self, units: f64, took: Nanos) {
        self.done += 1;
        self.units += units;
        self.times.push(took);
    }

    /// The values of all metrics, and the limiting part. `grows`: the queue grows, so times are meaningless.
    pub(super) fn values(&mut self, set: &Farm, grows: bool) -> (Vec<f64>, String) {
        let seconds = set.arrivals.measured_ms.nanos() as f64 / 1e9;
        if grows || set.is_saturated() {
            self.times.clear();
        }
        self.times.sort_unstable();
        self.gaps.sort_unstable();
        let share = self.units / (seconds * set.units_per_s());
        let mean = self.times.iter().map(|time| *time as f64).sum::<f64>() / self.times.len() as f64 / 1e3;
        let per_thousand = |count: u64| count as f64 * 1e3 / self.done as f64;
        let values = vec![
            self.done as f64 / seconds,
            share,
            mean,
            quantile_us(&self.times, 0.5),
            quantile_us(&self.times, 0.99),
            per_thousand(self.redone),
            quantile_us(&self.gaps, 0.5),
            quantile_us(&self.gaps, 0.99),
            per_thousand(self.dead),
        ];
        let dispatcher = self.busy / (seconds * 1e9);
        let (part, used) = super::super::fullest(&[("nodes", share), ("dispatcher", dispatcher)]);
        (values, format!("{part} {:.0} %", used * 100.0))
    }
}

/// The quantile of sorted times (ns) for this fraction, us; not a number without times.
fn quantile_us(times: &[Nanos], part: f64) -> f64 {
    let at = (times.len() as f64 * part).ceil() as usize;
    times.get(at.saturating_sub(1)).map_or(f64::NAN, |time| *time as f64 / 1e3)
}
