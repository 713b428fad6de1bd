//! What one run yielded, and what the runs of one variant add up to.

use super::super::series::{median, spread, times, total_per_s};
use super::super::task::{Counts, Measured};
use crate::report::{Key, Row, Times};
use sidecore::core::stage::Stage;
use sidecore::counters::{Histogram, LaneCounter, SidecoreCounter, Snapshot};

/// One run of a variant.
#[derive(Default)]
pub(in crate::bench) struct Run {
    /// Operations a second of all clients; none: this cannot be measured here.
    rate: Option<f64>,
    missing: Option<String>,
    /// What is compared instead of the rate, by its name among the metrics.
    merit: Option<(&'static str, f64)>,
    measured: Vec<Measured>,
    counted: Option<Counted>,
}

impl Run {
    /// What clients did at the same time.
    pub(in crate::bench) fn of(measured: Vec<Measured>) -> Self {
        Self { rate: Some(total_per_s(&measured)), measured, ..Self::default() }
    }

    /// Nothing but so many operations a second.
    pub(in crate::bench) fn at(rate: f64) -> Self {
        Self { rate: Some(rate), ..Self::default() }
    }

    /// What cannot be measured here, for that reason.
    pub(in crate::bench) fn missing(why: impl Into<String>) -> Self {
        Self { missing: Some(why.into()), ..Self::default() }
    }

    /// Operations a second; 0: none.
    pub(in crate::bench) fn rate(&self) -> f64 {
        self.rate.unwrap_or_default()
    }

    /// With what the service counted meanwhile.
    pub(in crate::bench) fn counted(self, counted: Counted) -> Self {
        Self { counted: Some(counted), ..self }
    }

    /// To be compared by another figure than its rate.
    pub(in crate::bench) fn compared_by(self, name: &'static str, value: f64) -> Self {
        Self { merit: Some((name, value)), ..self }
    }
}

/// What the service counted.
#[derive(Default)]
pub(in crate::bench) struct Counted {
    stages: [Histogram; Stage::COUNT],
    cpu_ns: u64,
    /// Empty polls, wake-ups sent and saved, where they were looked at.
    waits: Option<[u64; 3]>,
}

impl Counted {
    /// Nothing but CPU time, ns.
    pub(in crate::bench) fn cpu(cpu_ns: u64) -> Self {
        Self { cpu_ns, ..Self::default() }
    }

    /// All that the service itself knows.
    pub(in crate::bench) fn of(counted: &Snapshot) -> Self {
        Self::with_lanes(counted, counted)
    }

    /// That, with what clients report, and the CPU time of all its threads, ns.
    pub(in crate::bench) fn with_reports(counted: &Snapshot, reported: &Snapshot, cpu_ns: u64) -> Self {
        let mut own = Self { cpu_ns, ..Self::with_lanes(counted, reported) };
        for lane in &reported.lanes {
            own.stages.iter_mut().zip(&lane.stages).for_each(|(own, more)| own.merge(more));
            if let Some([empty_polls, ..]) = &mut own.waits {
                *empty_polls += lane.get(LaneCounter::ClientEmptyPolls);
            }
        }
        own
    }

    fn with_lanes(counted: &Snapshot, of_lanes: &Snapshot) -> Self {
        let sidecore = |counter| counted.sidecores.iter().map(|one| one.get(counter)).sum::<u64>();
        let lane = |counter| of_lanes.lanes.iter().map(|one| one.get(counter)).sum::<u64>();
        let sent = lane(LaneCounter::WakeupsSent) + sidecore(SidecoreCounter::WakeupsReceived);
        let waits = [sidecore(SidecoreCounter::EmptyPolls), sent, lane(LaneCounter::WakeupsSaved)];
        Self { cpu_ns: sidecore(SidecoreCounter::CpuNs), waits: Some(waits), ..Self::default() }
    }
}

/// The runs of one variant.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rates: Vec<f64>,
    pub(super) missing: Option<String>,
    merit: Option<&'static str>,
    merits: Vec<f64>,
    measured: Vec<Measured>,
    counted: Option<Counted>,
}

impl Found {
    pub(super) fn add(&mut self, run: Run) {
        self.rates.extend(run.rate);
        self.missing = run.missing.or(self.missing.take());
        if let Some((name, value)) = run.merit {
            self.merit = Some(name);
            self.merits.push(value);
        }
        self.measured.extend(run.measured);
        if let Some(more) = run.counted {
            let own = self.counted.get_or_insert_default();
            own.cpu_ns += more.cpu_ns;
            own.stages.iter_mut().zip(&more.stages).for_each(|(own, more)| own.merge(more));
            if let Some(more) = more.waits {
                let own = own.waits.get_or_insert_default();
                own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
            }
        }
    }

    /// What ratios are of.
    pub(super) fn compared(&self) -> &[f64] {
        if self.merits.is_empty() { &self.rates } else { &self.merits }
    }

    pub(super) fn median_latency(&self) -> Option<f64> {
        Some(self.stage(Stage::Total, |measured| &measured.total)?.p50)
    }

    /// The row, with all that was found.
    pub(super) fn row(&self, row: Row, payload: bool) -> Row {
        let rate = median(&self.rates);
        let mbit_per_s = row.number(Key::Size).filter(|_| payload).map(|size| rate * size * 8.0 / 1e6);
        let row = row
            .with(Key::OpsPerS, rate)
            .with(Key::MbitPerS, mbit_per_s)
            .with_times(Key::TotalMean, self.stage(Stage::Total, |measured| &measured.total))
            .with_times(Key::QueueMean, self.stage(Stage::Queue, |measured| &measured.queue))
            .with_times(Key::DeviceMean, self.stage(Stage::Device, |measured| &measured.device))
            .with_times(Key::HostMean, self.of_service(Stage::Host))
            .with_times(Key::DeliverMean, self.stage(Stage::Deliver, |measured| &measured.deliver))
            .with(Key::Repeats, self.rates.len())
            .with(Key::Spread, spread(self.compared()))
            .with(Key::Metrics, self.metrics());
        self.costs(row)
    }

    /// The times of a stage: as clients stamped it, or else as the service counted it.
    fn stage(&self, stage: Stage, of: fn(&Measured) -> &Counts) -> Option<Times> {
        times(self.measured.iter().map(of)).or_else(|| self.of_service(stage))
    }

    fn of_service(&self, stage: Stage) -> Option<Times> {
        let summary = self.counted.as_ref()?.stages[stage as usize].summary();
        let us = |ns: f64| ns / 1000.0;
        (summary.count > 0).then(|| Times { mean: us(summary.mean), p50: us(summary.p50), p99: us(summary.p99) })
    }

    /// CPU time and what waiting took, where somebody looked: at the service, or at whole calls of a program.
    fn costs(&self, row: Row) -> Row {
        let is_looked_at = self.counted.is_some() || self.measured.iter().any(|measured| !measured.whole.is_empty());
        if !is_looked_at {
            return row;
        }
        let sum = |of: fn(&Measured) -> u64| self.measured.iter().map(of).sum::<u64>();
        let us_per_op = |ns: u64| ns as f64 / 1000.0 / sum(|measured| measured.ops).max(1) as f64;
        let service = self.counted.as_ref().map_or(0, |counted| counted.cpu_ns);
        let waits = self.counted.as_ref().and_then(|counted| counted.waits);
        row.with(Key::ClientCpu, us_per_op(sum(|measured| measured.cpu_ns)))
            .with(Key::ServiceCpu, us_per_op(service))
            .with(Key::EmptyPolls, waits.map(|[polls, ..]| polls + sum(|measured| measured.empty_polls)))
            .with(Key::WakeupsSent, waits.map(|[_, sent, _]| sent))
            .with(Key::WakeupsSaved, waits.map(|[_, _, saved]| saved))
    }

    /// How long programs waited for an operation, from call to return, and what is compared instead of the rate.
    fn metrics(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        let whole = times(self.measured.iter().map(|measured| &measured.whole));
        let calls =
            whole.map(|Times { mean, p50, p99 }| [("call_us_mean", mean), ("call_us_p50", p50), ("call_us_p99", p99)]);
        let merit = self.merit.map(|name| (name, median(&self.merits)));
        let metrics: serde_json::Map<_, _> =
            calls.into_iter().flatten().chain(merit).map(|(name, value)| (name.to_owned(), value.into())).collect();
        (!metrics.is_empty()).then_some(metrics)
    }
}
