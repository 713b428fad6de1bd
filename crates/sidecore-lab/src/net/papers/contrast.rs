//! One load on two links that differ in one property.

use crate::error::LabError;
use crate::interrupt::Interrupt;
use crate::net::columns;
use crate::net::end::End;
use crate::net::flow::times;
use crate::net::link::{Counters, Link, Settings};
use crate::net::measure::{Case, Instruments, Run};
use crate::net::path::Path;
use crate::net::protocol::{Direction, Load, Transport};
use crate::report::{Row, column};
use serde_json::{Map, Value};
use sidecore::core::policy::notify::Notify;
use sidecore_report::statistics::median;
use std::collections::BTreeMap;
use std::time::Duration;

/// By the names of the plan's metrics, if it has them.
pub(super) type Metrics = BTreeMap<&'static str, f64>;

const WHERE: &str = "-where";

pub(super) struct Contrast {
    /// The second is compared with the first.
    pub(super) sides: [Side; 2],
    metrics: fn(&Found) -> Metrics,
    /// Whether CPU time is sampled. Sampling changes the other figures, so such runs have only rows of components.
    takes_apart: bool,
    pub(super) wrong: Vec<String>,
}

pub(super) struct Side {
    pub(super) variant: &'static str,
    link: Settings,
    /// Parameters of the plan that say the same; none: no plan has such a case.
    plan: Vec<(&'static str, String)>,
    case: Case,
    counted: Vec<Counters>,
    pub(super) each: Vec<Metrics>,
}

pub(super) struct Found<'r> {
    pub(super) load: &'r Load,
    pub(super) run: &'r Run,
    pub(super) counted: &'r Counters,
}

impl Contrast {
    pub(super) fn new(sides: [Side; 2], metrics: fn(&Found) -> Metrics) -> Self {
        Self { sides, metrics, takes_apart: false, wrong: Vec::new() }
    }

    pub(super) fn taken_apart(self) -> Self {
        Self { takes_apart: true, ..self }
    }

    pub(super) fn load(&self) -> &Load {
        &self.sides[0].case.load
    }

    pub(super) fn words(&self) -> String {
        let Load { size, connections, .. } = self.load();
        let [first, other] = [&self.sides[0], &self.sides[1]].map(|side| side.variant);
        format!("{}, {size} B, {connections} connections: {first}, {other}", self.load().op())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sides[0].each.is_empty()
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
            found[at] = Some(self.sides[at].run(window, interrupt, self.takes_apart.then_some(&mut lacking))?);
        }
        for (side, found) in self.sides.iter_mut().zip(found) {
            let Some((run, counters)) = found else { continue };
            let counted = counters[usize::from(side.case.load.direction == Direction::Receive)];
            side.each.push((self.metrics)(&Found { load: &side.case.load, run: &run, counted: &counted }));
            side.counted.push(counted);
            side.case.runs.push(run);
        }
        Ok(lacking)
    }

    pub(super) fn rows(&self, scenario: &str) -> [Row; 2] {
        let [first, other] = &self.sides;
        let scenario = if self.takes_apart { scenario.to_owned() + WHERE } else { scenario.to_owned() };
        [first, other].map(|side| {
            let row = side
                .row(!self.takes_apart)
                .with(column::SCENARIO, scenario.as_str())
                .with(column::OP, self.load().op());
            if side.variant == first.variant { row } else { row.with(column::BASELINE, first.variant) }
        })
    }
}

impl Side {
    pub(super) fn new(variant: &'static str, link: Settings, load: Load, plan: Vec<(&'static str, String)>) -> Self {
        Self { variant, link, plan, case: Case::new(load), counted: Vec::new(), each: Vec::new() }
    }

    /// One run on a new link, with its counts in both directions. `lacking` enables samples and receives missing
    /// features.
    fn run(
        &self,
        window: Duration,
        interrupt: &Interrupt,
        lacking: Option<&mut Vec<String>>,
    ) -> Result<(Run, [Counters; 2]), LabError> {
        let mut link_path = PeerLink::start(&self.link)?;
        let mut instruments = Instruments::default().until(interrupt);
        if let Some(lacking) = lacking {
            instruments = instruments.with_breakdown(Some(link_path.far.id()), false, lacking);
        }
        let run = Run::of(&mut link_path.path, &self.case.load, window, &mut instruments)?;
        let counted = link_path.link.counters();
        link_path.link.stop().map(|()| (run, counted))
    }

    fn row(&self, has_cpu: bool) -> Row {
        let link = &self.link;
        let moderation = match link.moderation {
            Some(Notify::Coalesce { count, delay }) => Some((count, delay as f64 / 1e3)),
            _ => None,
        };
        let counted = |of: fn(&Counters) -> f64| median(&self.counted.iter().map(of).collect::<Vec<_>>());
        let settings: Map<_, _> =
            self.plan.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
        let names = self.each.first().into_iter().flat_map(|metrics| metrics.keys());
        let metrics: Map<_, _> = names.map(|name| ((*name).to_owned(), Value::from(self.median(name)))).collect();
        let found = self.case.runs.iter().zip(&self.counted);
        let found: Vec<_> = found.map(|(run, counted)| Found { load: &self.case.load, run, counted }).collect();
        let is_stream = self.case.load.direction != Direction::RoundTrip;
        let parts = self.case.parts_row().unwrap_or_default();
        self.case
            .row()
            .and(&parts)
            .with(column::VARIANT, self.variant)
            .with(column::SENT_PER_S, self.is_datagrams().then(|| middle(&found, Found::sent)))
            .with(columns::CPU_PER_BYTE, (is_stream && has_cpu).then(|| middle(&found, Found::cpu_ns_per_byte)))
            .with(columns::REGISTER_US, link.register as f64 / 1e3)
            .with(column::MTU, link.mtu)
            .with(columns::MODERATE_COUNT, moderation.map(|(count, _)| count))
            .with(columns::MODERATE_US, moderation.map(|(_, us)| us))
            .with(columns::FRAMES_PER_INTERRUPT, counted(frames_per_interrupt))
            .with(columns::BYTES_PER_FRAME, counted(|of| of.bytes as f64 / of.frames.max(1) as f64))
            .with(column::SETTINGS, (!settings.is_empty()).then_some(Value::Object(settings)))
            .with(column::METRICS, metrics)
    }

    fn is_datagrams(&self) -> bool {
        self.case.load.transport == Transport::Udp && self.case.load.direction != Direction::RoundTrip
    }

    fn median(&self, metric: &str) -> f64 {
        median(&self.each.iter().filter_map(|metrics| metrics.get(metric).copied()).collect::<Vec<_>>())
    }
}

fn middle<'r>(found: &[Found<'r>], of: impl Fn(&Found<'r>) -> f64) -> f64 {
    median(&found.iter().map(of).collect::<Vec<_>>())
}

fn frames_per_interrupt(counted: &Counters) -> f64 {
    (counted.delivered + counted.refused) as f64 / counted.interrupts.max(1) as f64
}

impl Found<'_> {
    pub(super) fn mbit_per_s(&self) -> f64 {
        self.load.mbit_per_s(self.run.rate(self.load))
    }

    /// Messages a second that the sender passed to the kernel.
    pub(super) fn sent(&self) -> f64 {
        let sender = if self.load.direction == Direction::Receive { &self.run.both.far } else { &self.run.both.near };
        sender.sent.messages as f64 / sender.seconds()
    }

    /// CPU time of both ends and of the link between them, seconds a second.
    fn cpu(&self) -> f64 {
        let both = &self.run.both;
        [&both.near, &both.far].iter().map(|end| end.process_ns as f64 / 1e9 / end.seconds()).sum()
    }

    pub(super) fn cpu_ns_per_byte(&self) -> f64 {
        self.cpu() * 1e9 / (self.mbit_per_s() * 1e6 / 8.0)
    }

    pub(super) fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu() / self.run.both.near.processors.len().max(1) as f64
    }

    pub(super) fn frames_per_interrupt(&self) -> f64 {
        frames_per_interrupt(self.counted)
    }

    pub(super) fn latency_us(&self) -> Option<f64> {
        times(&self.run.latencies).map(|times| times.p50)
    }
}

/// A link with a listening peer. Fields drop in this order.
struct PeerLink {
    path: Path,
    far: End,
    link: Link,
}

impl PeerLink {
    fn start(settings: &Settings) -> Result<Self, LabError> {
        let (mut pair, link) = Link::start(settings)?;
        Ok(Self { path: pair.path()?, far: pair.far, link })
    }
}
