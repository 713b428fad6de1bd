//! One load on two links that differ in one property.

use super::file::{PaperLink, PaperLoad};
use super::metric::{Found, Needs};
use crate::error::LabError;
use crate::net::columns;
use crate::net::link::{Counters, Link};
use crate::net::measure::{Case, Instruments, Run};
use crate::net::protocol::{Direction, Load, Transport};
use crate::report::{Row, column};
use serde_json::json;
use sidecore::core::policy::notify::Notify;
use sidecore_measure::interrupt::Interrupt;
use sidecore_report::statistics::median;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) type Metrics = BTreeMap<&'static str, f64>;

const WHERE: &str = "-where";

pub(super) struct Contrast<'p> {
    pub(super) load: &'p PaperLoad,
    /// The second is compared with the first.
    pub(super) sides: [Side<'p>; 2],
    pub(super) wrong: Vec<String>,
}

pub(super) struct Side<'p> {
    pub(super) link: &'p PaperLink,
    case: Case,
    counted: Vec<Counters>,
    pub(super) each: Vec<Metrics>,
}

impl<'p> Contrast<'p> {
    pub(super) fn new(load: &'p PaperLoad, links: [&'p PaperLink; 2], loads: [Load; 2]) -> Self {
        let [first, other] = links;
        let side = |link, load| Side { link, case: Case::new(load), counted: Vec::new(), each: Vec::new() };
        Self { load, sides: [side(first, loads[0]), side(other, loads[1])], wrong: Vec::new() }
    }

    pub(super) fn connections(&self) -> usize {
        self.sides[0].case.load.connections
    }

    pub(super) fn words(&self) -> String {
        let load @ Load { size, connections, .. } = &self.sides[0].case.load;
        let [first, other] = [&self.sides[0], &self.sides[1]].map(|side| &side.link.name);
        format!("{}, {size} B, {connections} connections: {first}, {other}", load.op())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sides[0].each.is_empty()
    }

    fn needs(&self, needs: Needs) -> bool {
        self.load.metrics().any(|metric| metric.needs() == needs)
    }

    /// One run on each link; they count only together. Returns missing features.
    pub(super) fn run(
        &mut self,
        window: Duration,
        swapped: bool,
        interrupt: &Interrupt,
    ) -> Result<Vec<String>, LabError> {
        let mut lacking = Vec::new();
        let order = if swapped { [1, 0] } else { [0, 1] };
        let mut found = [None, None];
        for at in order {
            found[at] = Some(self.run_on(at, window, interrupt, &mut lacking)?);
        }
        for (side, found) in self.sides.iter_mut().zip(found) {
            let Some((run, counters)) = found else { continue };
            let load = &side.case.load;
            let counted = counters[usize::from(load.direction == Direction::Receive)];
            let found = Found { load, run: &run, counted: &counted };
            side.each.push(self.load.metrics().filter_map(|metric| metric.of(&found)).collect());
            side.counted.push(counted);
            side.case.runs.push(run);
        }
        Ok(lacking)
    }

    /// One run on a new link, with its counts in both directions.
    fn run_on(
        &self,
        at: usize,
        window: Duration,
        interrupt: &Interrupt,
        lacking: &mut Vec<String>,
    ) -> Result<(Run, [Counters; 2]), LabError> {
        let Side { link, case, .. } = &self.sides[at];
        let (mut pair, mut link) = Link::start(&link.link.0)?;
        let mut path = pair.path()?;
        let counts = self.needs(Needs::HardwareCounters).then(|| Instruments::counters(lacking));
        let mut instruments = counts.unwrap_or_default().until(interrupt);
        if self.needs(Needs::Samples) {
            instruments = instruments.with_breakdown(Some(pair.far.id()), false, lacking);
        }
        let run = Run::of(&mut path, &case.load, window, &mut instruments)?;
        let counted = link.counters();
        link.stop().map(|()| (run, counted))
    }

    /// Sampling changes the other figures, so such runs have only rows of components.
    pub(super) fn rows(&self, scenario: &str) -> [Row; 2] {
        let [first, other] = &self.sides;
        let is_sampled = self.needs(Needs::Samples);
        let scenario = if is_sampled { scenario.to_owned() + WHERE } else { scenario.to_owned() };
        [(first, None), (other, Some(first.link.name.as_str()))].map(|(side, baseline)| {
            let row = side.row(!is_sampled).with(column::SCENARIO, scenario.as_str());
            row.with(column::OP, side.case.load.op()).with(column::BASELINE, baseline)
        })
    }
}

impl Side<'_> {
    fn row(&self, has_cpu: bool) -> Row {
        let (load, PaperLink { name, link, plan }) = (&self.case.load, self.link);
        let link = &link.0;
        let moderation = match link.moderation {
            Some(Notify::Coalesce { count, delay }) => Some((count, delay as f64 / 1e3)),
            _ => None,
        };
        let found = self.case.runs.iter().zip(&self.counted).map(|(run, counted)| Found { load, run, counted });
        let found: Vec<_> = found.collect();
        let is_stream = load.direction != Direction::RoundTrip;
        let is_datagrams = is_stream && load.transport == Transport::Udp;
        self.case
            .row()
            .and(&self.case.parts_row().unwrap_or_default())
            .with(column::VARIANT, name.as_str())
            .with(column::SENT_PER_S, is_datagrams.then(|| middle(&found, Found::sent)))
            .with(columns::CPU_PER_BYTE, (is_stream && has_cpu).then(|| middle(&found, Found::cpu_ns_per_byte)))
            .with(columns::REGISTER_US, link.register as f64 / 1e3)
            .with(column::MTU, link.mtu)
            .with(columns::MODERATE_COUNT, moderation.map(|(count, _)| count))
            .with(columns::MODERATE_US, moderation.map(|(_, us)| us))
            .with(columns::FRAMES_PER_INTERRUPT, middle(&found, Found::frames_per_interrupt))
            .with(columns::BYTES_PER_FRAME, middle(&found, Found::bytes_per_frame))
            .with(column::SETTINGS, (!plan.is_empty()).then(|| json!(plan)))
            .with(column::METRICS, json!(self.medians()))
    }

    pub(super) fn medians(&self) -> Metrics {
        let names = self.each.first().into_iter().flat_map(|metrics| metrics.keys().copied());
        let all = |name| self.each.iter().filter_map(|metrics| metrics.get(name).copied()).collect::<Vec<_>>();
        names.map(|name| (name, median(&all(name)))).collect()
    }
}

fn middle<'r>(found: &[Found<'r>], of: impl Fn(&Found<'r>) -> f64) -> f64 {
    median(&found.iter().map(of).collect::<Vec<_>>())
}
