//! Figures of a run by name.

use crate::error::LabError;
use crate::net::account::Figure;
use crate::net::flow::times;
use crate::net::link::Counters;
use crate::net::measure::Run;
use crate::net::protocol::{Direction, Load};
use crate::net::sampling::Component;
use Needs::{HardwareCounters, Nothing, Samples};
use serde::Deserialize;

pub(super) struct Found<'r> {
    pub(super) load: &'r Load,
    pub(super) run: &'r Run,
    pub(super) counted: &'r Counters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// Sampling changes the other figures.
    Samples,
    HardwareCounters,
}

/// Its name is that of a plan's metric, if a plan has it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Metric(&'static Known);

type Known = (&'static str, Needs, fn(&Found) -> Option<f64>);

static METRICS: [Known; 19] = [
    ("bandwidth_gbit_per_s", Nothing, |found| Some(found.mbit_per_s() / 1e3)),
    ("tcp_mbit_per_s", Nothing, |found| Some(found.mbit_per_s())),
    ("udp_sent_mbit_per_s", Nothing, |found| Some(found.load.mbit_per_s(found.sent()))),
    ("udp_received_mbit_per_s", Nothing, |found| Some(found.mbit_per_s())),
    ("cpu_percent", Nothing, |found| Some(found.cpu_percent())),
    ("tcp_cpu_ns_per_byte", Nothing, |found| Some(found.cpu_ns_per_byte())),
    ("udp_cpu_ns_per_byte", Nothing, |found| Some(found.cpu_ns_per_byte())),
    ("packets_per_interrupt", Nothing, |found| Some(found.frames_per_interrupt())),
    ("latency_us", Nothing, |found| times(&found.run.latencies).map(|times| times.p50)),
    ("context_switches_per_s", Nothing, |found| found.run.both.near.per_second(Figure::ContextSwitches)),
    ("cross_calls_per_s", Nothing, |found| found.run.both.near.per_second(Figure::CrossCalls)),
    ("instructions_per_packet", HardwareCounters, |found| found.run.instructions_per_packet()),
    ("first_cache_misses_per_packet", HardwareCounters, |found| found.run.first_misses_per_packet()),
    ("last_cache_misses_per_packet", HardwareCounters, |found| found.run.misses_per_packet()),
    ("driver_us_per_packet", Samples, |found| found.us_per_packet(&[Component::Driver])),
    ("stack_us_per_packet", Samples, |found| found.us_per_packet(&[Component::Protocol, Component::Socket])),
    ("copy_us_per_packet", Samples, |found| found.us_per_packet(&[Component::Copy, Component::Buffers])),
    ("path_us_per_packet", Samples, |found| found.us_per_packet(&PATH)),
    ("scheduler_us_per_packet", Samples, |found| found.us_per_packet(&[Component::Scheduler])),
];

/// The parts of HOTI's path. The scheduler is no part of it.
const PATH: [Component; 5] =
    [Component::Driver, Component::Protocol, Component::Socket, Component::Copy, Component::Buffers];

impl TryFrom<String> for Metric {
    type Error = LabError;

    fn try_from(name: String) -> Result<Self, LabError> {
        let found = METRICS.iter().find(|(known, ..)| *known == name).map(Self);
        found.ok_or_else(|| {
            let names: Vec<_> = METRICS.iter().map(|(name, ..)| *name).collect();
            LabError::Usage(format!("no metric is called {name:?}; there are {}", names.join(", ")))
        })
    }
}

impl Metric {
    pub(super) fn needs(self) -> Needs {
        self.0.1
    }

    pub(super) fn of(self, found: &Found) -> Option<(&'static str, f64)> {
        let (name, _, of) = self.0;
        // Time for each byte, if no byte arrived, has no value.
        Some((name, of(found).filter(|figure| figure.is_finite())?))
    }
}

impl Found<'_> {
    fn mbit_per_s(&self) -> f64 {
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

    fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu() / self.run.both.near.processors.len().max(1) as f64
    }

    pub(super) fn frames_per_interrupt(&self) -> f64 {
        (self.counted.delivered + self.counted.refused) as f64 / self.counted.interrupts.max(1) as f64
    }

    pub(super) fn bytes_per_frame(&self) -> f64 {
        self.counted.bytes as f64 / self.counted.frames.max(1) as f64
    }

    fn us_per_packet(&self, wanted: &[Component]) -> Option<f64> {
        let us = self.run.breakdown.as_ref()?.us();
        let of_wanted = us.iter().filter(|(part, _)| wanted.contains(part)).map(|(_, share)| share.seen);
        Some(of_wanted.sum::<f64>() / self.run.packets()?).filter(|_| !us.is_empty())
    }
}
