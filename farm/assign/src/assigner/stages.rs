//! Times of the stages of a node's events, over the last seconds.

use crate::status::{self, Quantiles};
use hdrhistogram::Histogram;
use sidecore_core::time::Nanos;

/// Length of a span, ns. The display shows the last complete one.
const SPAN: Nanos = 5_000_000_000;
const MAX_TIME_US: u64 = 3_600_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Queue,
    Network,
    Work,
    Return,
}

const STAGES: usize = 4;

#[derive(Debug)]
pub(super) struct Stages {
    since: Nanos,
    now: [Histogram<u32>; STAGES],
    before: [Histogram<u32>; STAGES],
}

impl Stages {
    pub(super) fn new(now: Nanos) -> Self {
        // The bounds are constants, and in order.
        let empty = || Histogram::new_with_bounds(1, MAX_TIME_US, 2).expect("bounds of a histogram");
        let all = || std::array::from_fn(|_| empty());
        Self { since: now, now: all(), before: all() }
    }

    pub(super) fn record(&mut self, stage: Stage, took: Nanos) {
        self.now[stage as usize].saturating_record(took / 1000);
    }

    pub(super) fn show(&mut self, now: Nanos) -> status::Stages {
        if now.saturating_sub(self.since) > SPAN {
            self.since = now;
            std::mem::swap(&mut self.now, &mut self.before);
            self.now.iter_mut().for_each(Histogram::reset);
        }
        let [queue, network, work, back] = [Stage::Queue, Stage::Network, Stage::Work, Stage::Return]
            .map(|stage| quantiles(&self.before[stage as usize], &self.now[stage as usize]));
        status::Stages { queue, network, work, back }
    }
}

/// Of the complete span, or of the current one if the former has no values.
fn quantiles(before: &Histogram<u32>, now: &Histogram<u32>) -> Quantiles {
    let shown = if before.is_empty() { now } else { before };
    Quantiles { p50_us: shown.value_at_quantile(0.5), p99_us: shown.value_at_quantile(0.99) }
}
