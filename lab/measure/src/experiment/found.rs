//! The result of one run, and the sum of a variant's runs.

use super::measured::{Counts, Measured};
use super::series::{times, total_per_s};
use sidecore::core::stage::Stage;
use sidecore_counters::{Histogram, LaneCounter, SidecoreCounter, Snapshot};
use sidecore_report::statistics::{median, spread};
use sidecore_report::{Column, Row, Times, column};

/// Figures of a run, or of several runs of a variant.
#[derive(Default)]
pub struct Run {
    /// Operations a second of all clients, run by run; empty: not measurable here.
    pub(super) rates: Vec<f64>,
    pub(super) missing: Option<String>,
    /// Begun or scheduled operations a second, run by run. Set if some may not complete.
    begun: Vec<f64>,
    /// Figure that replaces the rate in comparisons: its name among the metrics and the better direction. Its values
    /// are `merits`.
    merit: Option<(&'static str, Better)>,
    merits: Vec<f64>,
    measured: Vec<Measured>,
    counted: Option<Counted>,
    pub(super) figures: Vec<(&'static Column, Vec<f64>)>,
}

/// The better direction of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
}

impl Run {
    /// A run of simultaneous clients.
    pub fn of(measured: Vec<Measured>) -> Self {
        Self { rates: vec![total_per_s(&measured)], measured, ..Self::default() }
    }

    /// A run with this rate, operations a second.
    pub fn at(rate: f64) -> Self {
        Self { rates: vec![rate], ..Self::default() }
    }

    /// No run is possible here, for this reason.
    pub fn missing(why: impl Into<String>) -> Self {
        Self { missing: Some(why.into()), ..Self::default() }
    }

    /// Median of operations a second; 0: none.
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// Adds counts of the service.
    #[must_use]
    pub fn counted(self, counted: Counted) -> Self {
        Self { counted: Some(counted), ..self }
    }

    /// Compares this value with baselines, in the place of the rate.
    #[must_use]
    pub fn compared_by(self, name: &'static str, better: Better, value: f64) -> Self {
        Self { merit: Some((name, better)), merits: vec![value], ..self }
    }

    pub(super) fn more_is_better(&self) -> bool {
        self.merit.is_none_or(|(_, better)| better == Better::More)
    }

    pub(super) fn each(&self, key: &'static Column) -> &[f64] {
        self.figures.iter().find(|(known, _)| *known == key).map_or(&[], |(_, values)| values)
    }

    fn figures_of_one(&self) -> impl Iterator<Item = (&'static Column, f64)> + use<> {
        let row = self.row(Row::default(), false);
        let shown = [column::OPS_PER_S, column::TOTAL_P50, column::TOTAL_P99, column::CLIENT_CPU];
        shown.into_iter().filter_map(move |key| Some((key, row.figure(key)?)))
    }

    /// Adds the rate of begun operations, where some may not complete.
    #[must_use]
    pub fn begun(self, per_s: f64) -> Self {
        Self { begun: vec![per_s], ..self }
    }

    pub(super) fn add(&mut self, more: Self) {
        for (key, value) in more.figures_of_one().filter(|_| !more.rates.is_empty()) {
            match self.figures.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => self.figures.push((key, vec![value])),
            }
        }
        self.rates.extend(more.rates);
        self.missing = more.missing.or(self.missing.take());
        self.merit = more.merit.or(self.merit);
        self.merits.extend(more.merits);
        self.begun.extend(more.begun);
        self.measured.extend(more.measured);
        if let Some(more) = more.counted {
            let own = self.counted.get_or_insert_default();
            own.cpu_ns += more.cpu_ns;
            own.add_stages(&more.stages);
            add(&mut own.by_ring, more.by_ring);
            add(&mut own.waits, more.waits);
            add(&mut own.lost, more.lost);
            add(&mut own.batches, more.batches);
        }
    }

    pub(super) fn compared(&self) -> &[f64] {
        if self.merits.is_empty() { &self.rates } else { &self.merits }
    }

    pub(super) fn median_latency(&self) -> Option<f64> {
        Some(self.stage(Stage::Total, |measured| &measured.total)?.p50)
    }

    pub(super) fn row(&self, row: Row, payload: bool) -> Row {
        let rate = self.rate();
        let mbit_per_s = row.number(column::SIZE).filter(|_| payload).map(|size| rate * size * 8.0 / 1e6);
        let row = row
            .with(column::OPS_PER_S, rate)
            .with(column::SENT_PER_S, (!self.begun.is_empty()).then(|| median(&self.begun)))
            .with(column::MBIT_PER_S, mbit_per_s)
            .with_times(column::TOTAL, self.stage(Stage::Total, |measured| &measured.total))
            .with_times(column::QUEUE, self.stage(Stage::Queue, |measured| &measured.queue))
            .with_times(column::DEVICE, self.stage(Stage::Device, |measured| &measured.device))
            .with_times(column::HOST, self.of_service(Stage::Host))
            .with_times(column::DELIVER, self.stage(Stage::Deliver, |measured| &measured.deliver))
            .with(column::REPEATS, self.rates.len())
            .with(column::SPREAD, spread(self.compared()))
            .with(column::METRICS, self.metrics());
        self.costs(row)
    }

    fn stage(&self, stage: Stage, of: fn(&Measured) -> &Counts) -> Option<Times> {
        times(self.measured.iter().map(of)).or_else(|| self.of_service(stage))
    }

    fn of_service(&self, stage: Stage) -> Option<Times> {
        let summary = self.counted.as_ref()?.stages[stage as usize].summary();
        let us = |ns: f64| ns / 1000.0;
        (summary.count > 0).then(|| Times { mean: us(summary.mean), p50: us(summary.p50), p99: us(summary.p99) })
    }

    fn costs(&self, row: Row) -> Row {
        let is_looked_at = self.counted.is_some() || self.measured.iter().any(|measured| !measured.whole.is_empty());
        if !is_looked_at {
            return row;
        }
        let sum = |of: fn(&Measured) -> u64| self.measured.iter().map(of).sum::<u64>();
        let us_per_op = |ns: u64| ns as f64 / 1000.0 / sum(|measured| measured.ops).max(1) as f64;
        let service = self.counted.as_ref().map_or(0, |counted| counted.cpu_ns);
        let waits = self.counted.as_ref().and_then(|counted| counted.waits);
        let by_ring = self.counted.as_ref().and_then(|counted| counted.by_ring).map(|counts| counts.map(|n| n as f64));
        let lost = self.counted.as_ref().and_then(|counted| counted.lost).map(|counts| counts.map(|n| n as f64));
        let batches = self.counted.as_ref().and_then(|counted| counted.batches);
        let batches = batches.filter(|[all, ..]| *all > 0).map(|counts| counts.map(|n| n as f64));
        row.with(column::PER_BATCH, batches.map(|[all, _, requests]| requests / all))
            .with(column::FULL_BATCHES, batches.map(|[all, full, _]| full / all))
            .with(column::CLIENT_CPU, us_per_op(sum(|measured| measured.cpu_ns)))
            .with(column::SERVICE_CPU, us_per_op(service))
            .with(column::TOTAL_CPU, us_per_op(sum(|measured| measured.cpu_ns) + service))
            .with(column::EMPTY_POLLS, waits.map(|[polls, ..]| polls + sum(|measured| measured.empty_polls)))
            .with(column::WAKEUPS_SENT, waits.map(|[_, sent, _]| sent))
            .with(column::WAKEUPS_SAVED, waits.map(|[_, _, saved]| saved))
            .with(
                column::PER_SEND,
                by_ring.filter(|[_, sends, _]| *sends > 0.0).map(|[messages, sends, _]| messages / sends),
            )
            .with(column::RING_SHARE, by_ring.map(|[messages, _, all]| messages / all))
            .with(column::LOST, lost.map(|[lost, all]| lost / all.max(1.0)))
    }

    fn metrics(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        let whole = times(self.measured.iter().map(|measured| &measured.whole));
        let calls =
            whole.map(|call| [("call_us_mean", call.mean), ("call_us_p50", call.p50), ("call_us_p99", call.p99)]);
        let merit = self.merit.map(|(name, _)| (name, median(&self.merits)));
        let metrics = calls.into_iter().flatten().chain(merit);
        let metrics: serde_json::Map<_, _> = metrics.map(|(name, value)| (name.to_owned(), value.into())).collect();
        (!metrics.is_empty()).then_some(metrics)
    }
}

/// Counts of the service for a run.
#[derive(Default)]
pub struct Counted {
    stages: [Histogram; Stage::COUNT],
    cpu_ns: u64,
    /// Empty polls, wake-ups sent and wake-ups saved.
    waits: Option<[u64; 3]>,
    /// Messages through rings, the system calls that moved them, and all messages.
    by_ring: Option<[u64; 3]>,
    /// Datagrams lost and sent.
    lost: Option<[u64; 2]>,
    /// Batches, full ones, and requests in them.
    batches: Option<[u64; 3]>,
}

fn add<const N: usize>(own: &mut Option<[u64; N]>, more: Option<[u64; N]>) {
    if let Some(more) = more {
        own.get_or_insert([0; N]).iter_mut().zip(more).for_each(|(own, more)| *own += more);
    }
}

impl Counted {
    /// Only its CPU time, ns.
    pub fn cpu(cpu_ns: u64) -> Self {
        Self { cpu_ns, ..Self::default() }
    }

    /// CPU time, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns
    }

    /// Adds messages through rings, the system calls that moved them, and all messages.
    #[must_use]
    pub fn by_ring(self, counts: [u64; 3]) -> Self {
        Self { by_ring: Some(counts), ..self }
    }

    /// Adds datagrams: lost, and sent.
    #[must_use]
    pub fn lost(self, lost: u64, all: u64) -> Self {
        Self { lost: Some([lost, all]), ..self }
    }

    /// Adds batches: all, full ones, and requests in them.
    #[must_use]
    pub fn batches(self, counts: [u64; 3]) -> Self {
        Self { batches: Some(counts), ..self }
    }

    /// Waits and CPU time from counters.
    pub fn of(counted: &Snapshot) -> Self {
        Self::with_lanes(counted, counted)
    }

    /// The same with stages and the clients' own reports, which come later; CPU time in ns.
    pub fn with_reports(counted: &Snapshot, reported: &Snapshot, cpu_ns: u64) -> Self {
        let mut own = Self { cpu_ns, ..Self::with_lanes(counted, reported) };
        for lane in &reported.lanes {
            own.add_stages(&lane.stages);
            if let Some([empty_polls, ..]) = &mut own.waits {
                *empty_polls += lane.get(LaneCounter::ClientEmptyPolls);
            }
        }
        own
    }

    fn add_stages(&mut self, more: &[Histogram]) {
        self.stages.iter_mut().zip(more).for_each(|(own, more)| own.merge(more));
    }

    fn with_lanes(counted: &Snapshot, of_lanes: &Snapshot) -> Self {
        let sidecore = |counter| counted.sidecores.iter().map(|one| one.get(counter)).sum::<u64>();
        let lane = |counter| of_lanes.lanes.iter().map(|one| one.get(counter)).sum::<u64>();
        let sent = lane(LaneCounter::WakeupsSent) + sidecore(SidecoreCounter::WakeupsReceived);
        let waits = [sidecore(SidecoreCounter::EmptyPolls), sent, lane(LaneCounter::WakeupsSaved)];
        Self { cpu_ns: sidecore(SidecoreCounter::CpuNs), waits: Some(waits), ..Self::default() }
    }
}
