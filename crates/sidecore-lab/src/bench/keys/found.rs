//! What the repeats of one case yielded, as a row.

use super::setup::Run;
use crate::bench::series::{median, spread, times, total_per_s};
use crate::bench::task::Measured;
use crate::report::{CpuPerOp, Row, Times};
use sidecore::core::stage::Stage;
use sidecore::counters::{Histogram, LaneCounter, SidecoreCounter};
use std::collections::BTreeMap;

/// Several runs of one case.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rates: Vec<f64>,
    measured: Vec<Measured>,
    stages: [Histogram; Stage::COUNT],
    service_cpu: u64,
    empty_polls: u64,
    wakeups_sent: u64,
    wakeups_saved: u64,
}

impl Found {
    /// Adds a run through the provider.
    pub(super) fn add(&mut self, run: Run) {
        let Run { measured, counted, reported, service_cpu } = run;
        let sidecore = |counter| counted.sidecores.iter().map(|one| one.get(counter)).sum::<u64>();
        let lane = |counter| reported.lanes.iter().map(|one| one.get(counter)).sum::<u64>();
        self.service_cpu += service_cpu;
        self.empty_polls += sidecore(SidecoreCounter::EmptyPolls) + lane(LaneCounter::ClientEmptyPolls);
        self.wakeups_sent += lane(LaneCounter::WakeupsSent) + sidecore(SidecoreCounter::WakeupsReceived);
        self.wakeups_saved += lane(LaneCounter::WakeupsSaved);
        for lane in &reported.lanes {
            self.stages.iter_mut().zip(&lane.stages).for_each(|(own, more)| own.merge(more));
        }
        self.add_own(measured);
    }

    /// Adds a run without the service.
    pub(super) fn add_own(&mut self, measured: Vec<Measured>) {
        self.rates.push(total_per_s(&measured));
        self.measured.extend(measured);
    }

    /// Median operations a second.
    pub(super) fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// The times of a stage. `None`: none was sampled.
    pub(super) fn stage(&self, stage: Stage) -> Option<Times> {
        let summary = self.stages[stage as usize].summary();
        let us = |ns: f64| ns / 1000.0;
        (summary.count > 0).then(|| Times { mean: us(summary.mean), p50: us(summary.p50), p99: us(summary.p99) })
    }

    /// The row, with rate, stages, CPU time and what was counted.
    pub(super) fn row(&self, row: Row) -> Row {
        let ops: u64 = self.measured.iter().map(|m| m.ops).sum();
        let clients: u64 = self.measured.iter().map(|m| m.cpu_ns).sum();
        let us_per_op = |ns: u64| ns as f64 / 1000.0 / ops.max(1) as f64;
        let served = self.stage(Stage::Queue).is_some();
        let counted = |count| served.then_some(count);
        Row {
            ops_per_s: Some(self.rate()),
            total_us: self.stage(Stage::Total),
            queue_us: self.stage(Stage::Queue),
            device_us: self.stage(Stage::Device),
            host_us: self.stage(Stage::Host),
            deliver_us: self.stage(Stage::Deliver),
            cpu_us_per_op: Some(CpuPerOp { client: us_per_op(clients), service: us_per_op(self.service_cpu) }),
            empty_polls: counted(self.empty_polls),
            wakeups_sent: counted(self.wakeups_sent),
            wakeups_saved: counted(self.wakeups_saved),
            repeats: Some(self.rates.len() as u32),
            spread: Some(spread(&self.rates)),
            metrics: self.whole(),
            ..row
        }
    }

    /// How long the program waited for an operation, from call to return.
    fn whole(&self) -> Option<BTreeMap<String, f64>> {
        let Times { mean, p50, p99 } = times(self.measured.iter().map(|m| &m.whole))?;
        let named = [("call_us_mean", mean), ("call_us_p50", p50), ("call_us_p99", p99)];
        Some(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}
