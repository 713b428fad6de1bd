//! A repeated load, and its row.

use super::parts::Parts;
use super::run::Run;
use crate::error::LabError;
use crate::net::account::{Figure, Processor};
use crate::net::columns;
use crate::net::flow::times;
use crate::net::protocol::{Direction, Load, Transport};
use crate::net::sampling::{Component, Share};
use crate::report::{Column, Row, Times, column, counted};
use serde_json::{Map, Value, json};
use sidecore_measure::caveats::{FEWEST_REPEATS, doubted};
use sidecore_report::statistics::{median, spread};
use std::collections::BTreeMap;

pub(crate) struct Case {
    pub(crate) load: Load,
    /// Number of CPUs of each end's threads; `None`: all.
    pub(super) cpus: Option<usize>,
    pub(crate) runs: Vec<Run>,
    pub(super) wrong: Option<LabError>,
}

impl Case {
    pub(crate) fn new(load: Load) -> Self {
        Self { load, cpus: None, runs: Vec::new(), wrong: None }
    }

    pub(super) fn on(self, cpus: Option<usize>) -> Self {
        Self { cpus, ..self }
    }

    pub(crate) fn words(&self) -> String {
        let Load { size, connections, .. } = self.load;
        let cpus = self.cpus.map_or_else(String::new, |cpus| format!(", {}", counted(cpus as f64, "CPU")));
        let connections = counted(connections as f64, "connection");
        format!("{} {}, {size} B, {connections}{cpus}", self.traffic(), self.direction())
    }

    fn traffic(&self) -> &'static str {
        match (self.load.transport, self.load.direction, self.load.rate) {
            (Transport::Tcp, Direction::RoundTrip, Some(_)) => "tcp paced",
            (Transport::Tcp, ..) => "tcp",
            (Transport::Udp, ..) => "udp",
        }
    }

    fn direction(&self) -> &'static str {
        match self.load.direction {
            Direction::Send => "send",
            Direction::Receive => "receive",
            Direction::RoundTrip => "round trip",
        }
    }

    pub(crate) fn row(&self) -> Row {
        let figure = |of: &dyn Fn(&Run) -> Option<f64>| {
            let found: Vec<f64> = self.runs.iter().filter_map(of).collect();
            (!found.is_empty()).then(|| median(&found))
        };
        let figures = |figure_of| figure(&|run: &Run| run.both.near.per_second(figure_of));
        let kind = |of: fn(&Processor) -> f64| figure(&|run: &Run| Some(run.percent(of)));
        let rates: Vec<f64> = self.runs.iter().map(|run| run.rate(&self.load)).collect();
        let row = self
            .named("net")
            .with(column::OPS_PER_S, median(&rates))
            .with(column::MBIT_PER_S, self.load.mbit_per_s(median(&rates)))
            .with(column::LOST, figure(&|run: &Run| run.lost(&self.load)))
            .with(columns::PACKETS_PER_S, figure(&|run: &Run| run.packets().map(|packets| packets / run.seconds())))
            .with(columns::CPU_PER_PACKET, figure(&Run::cpu_per_packet))
            .with(columns::USER, kind(|cpu| cpu.user))
            .with(columns::SYSTEM, kind(|cpu| cpu.system))
            .with(columns::SOFTIRQ, kind(|cpu| cpu.softirq + cpu.interrupt))
            .with(columns::IDLE, kind(|cpu| cpu.idle))
            .with(columns::SWITCHES_PER_S, figures(Figure::ContextSwitches))
            .with(columns::INTERRUPTS_PER_S, figures(Figure::Interrupts))
            .with(columns::RESCHEDULES_PER_S, figures(Figure::Reschedules))
            .with(columns::SOFTIRQS_PER_S, figure(&Run::softirqs))
            .with(columns::DROPPED_PER_S, figure(&|run: &Run| run.of_both(Figure::Dropped)))
            .with(columns::OVERFLOWED_PER_S, figure(&|run: &Run| run.of_both(Figure::Overflowed)))
            .with(columns::RETRANSMITTED_PER_S, figure(&|run: &Run| run.of_both(Figure::Retransmitted)))
            .with(columns::INSTRUCTIONS_PER_PACKET, figure(&Run::instructions_per_packet))
            .with(columns::FIRST_MISSES_PER_PACKET, figure(&Run::first_misses_per_packet))
            .with(columns::MISSES_PER_PACKET, figure(&Run::misses_per_packet))
            .with(columns::PROCESSORS, self.runs.last().map(|run| json!(run.both.near.processors)))
            .with(column::SPREAD, spread(&rates))
            .with(column::REPEATS, self.runs.len());
        let is_trip = self.load.direction == Direction::RoundTrip;
        row.with_times(column::TOTAL, self.times().filter(|_| is_trip))
    }

    pub(super) fn doubted_row(&self) -> Row {
        doubted(self.row(), FEWEST_REPEATS)
    }

    fn named(&self, scenario: &str) -> Row {
        Row::new(scenario, self.direction())
            .with(column::OP, self.traffic())
            .with(column::SIZE, self.load.size)
            .with(column::CLIENTS, self.load.connections)
            .with(column::CPUS, self.cpus)
    }

    /// CPU time by component, summed over all runs. `None`: it was not sampled.
    pub(crate) fn parts(&self) -> Option<Parts> {
        let mut parts = self.runs.iter().filter_map(|run| run.breakdown.as_ref());
        let mut all = parts.next()?.clone();
        parts.for_each(|more| all.add(more));
        Some(all)
    }

    pub(crate) fn parts_row(&self) -> Option<Row> {
        let parts = self.parts()?;
        let sampled = self.runs.iter().filter(|run| run.breakdown.is_some());
        let packets: f64 = sampled.filter_map(Run::packets).sum();
        let row =
            self.named("net-parts").with(columns::UNPLACED, parts.unplaced()).with(columns::SAMPLED, parts.sampled());
        if packets == 0.0 {
            return Some(row);
        }
        let named = parts.us().into_iter().map(|(component, us)| (per_packet(component), component.name(), us));
        let unplaced = parts.unplaced_us().map(|us| (columns::UNPLACED_PER_PACKET, UNPLACED, us));
        let mut bounds = Map::new();
        let row = named.chain(unplaced).fold(row, |row, (key, name, us)| {
            let Share { seen, low, high } = us.of_all(1.0 / packets);
            bounds.insert(name.to_owned(), json!({"low": low, "high": high}));
            row.with(key, seen)
        });
        Some(row.with(columns::PER_PACKET_BOUNDS, Value::Object(bounds)))
    }

    pub(super) fn stacks(&self) -> Vec<String> {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for (frames, count) in self.runs.iter().flat_map(|run| &run.stacks).filter_map(|line| line.rsplit_once(' ')) {
            *all.entry(frames).or_default() += count.parse::<u64>().unwrap_or(0);
        }
        let load = self.words();
        all.into_iter().map(|(frames, count)| format!("{load};{frames} {count}")).collect()
    }

    fn times(&self) -> Option<Times> {
        let mut all = self.runs.first()?.latencies.clone();
        for run in &self.runs[1..] {
            // All have the same bounds.
            let _ = all.add(&run.latencies);
        }
        times(&all)
    }
}

const UNPLACED: &str = "unplaced";

fn per_packet(component: Component) -> &'static Column {
    match component {
        Component::Driver => columns::DRIVER_PER_PACKET,
        Component::Protocol => columns::PROTOCOL_PER_PACKET,
        Component::Socket => columns::SOCKET_PER_PACKET,
        Component::Buffers => columns::BUFFERS_PER_PACKET,
        Component::Copy => columns::COPY_PER_PACKET,
        Component::Scheduler => columns::SCHEDULER_PER_PACKET,
        Component::Entry => columns::ENTRY_PER_PACKET,
        Component::Program => columns::PROGRAM_PER_PACKET,
        Component::Other => columns::OTHER_PER_PACKET,
    }
}
