//! Small messages over TCP and UDP, sent by a program without knowledge of sidecore: on the kernel's path, with its
//! options that gather messages, and through rings.

pub(super) mod content;
mod door;
pub(super) mod ffi;
mod idle;
mod laboratory;
mod peer;
mod receiver;
mod ring;

use super::error::BenchError;
use super::experiment::{By, Case, Turn, Variant, measure_all};
use super::scenario::{NO_SERVICE, Scenario, Settings};
use super::task::{TcpOptions, Traffic};
use crate::report::figures::{LARGE, Series, along, figure, rates};
use crate::report::{Caveat, Column, Group, Outcome, Row, column, counted, grouped, section};
#[cfg(test)]
pub(super) use idle::COLUMNS;
use laboratory::{Laboratory, Load, Way};
use sidecore::core::policy::notify::Notify;
use sidecore_measure::progress::Progress;
use std::fs;

pub(super) static SCENARIO: Scenario = Scenario::new(
    WORD,
    "Small messages over TCP and UDP, by an unmodified program; not among all",
    measure,
    &[section(
    "sockets",
    "Sockets: small messages of an unmodified program",
    "Messages a second that arrive over TCP or UDP, against the same program on the kernel's own path without \
     delay. Of paced traffic the ratio is of the CPU time of program and service, of quiet connections of latencies: there less is better.",
).plots(|rows| vec![by_connections(rows), payload_curves(rows)])],
).ops(ops).alone(NO_SERVICE);

const WORD: &str = "sockets";
const BASELINE: &str = "direct";
/// Messages sent for each message received where replies are pipelined.
const ANSWERS: usize = 16;

struct Part {
    name: &'static str,
    traffic: Traffic,
    sizes: &'static [usize],
    connections: &'static [usize],
}

const fn part(name: &'static str, traffic: Traffic, sizes: &'static [usize], connections: &'static [usize]) -> Part {
    Part { name, traffic, sizes, connections }
}

const SIZES: &[usize] = &[1, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20];
const ANSWERED: &[usize] = &[64, 1 << 10, 16 << 10];

const FULL: [Part; 14] = [
    part("stream", Traffic::Flood, SIZES, &[1]),
    part("fan-out", Traffic::Flood, SIZES, &[16, 64, 256]),
    // Larger messages would put gigabytes in flight.
    part("fan-out", Traffic::Flood, &[64, 1 << 10], &[1024]),
    part("paced-1k", Traffic::Paced(1_000), &[64], &[1, 16]),
    part("paced-10k", Traffic::Paced(10_000), &[64], &[1, 16]),
    part("paced-50k", Traffic::Paced(50_000), &[64], &[1, 16]),
    part("paced-100k", Traffic::Paced(100_000), &[64, 1 << 10], &[1, 16, 64, 256, 1024]),
    part("pipelined", Traffic::Answers(ANSWERS), &[64, 1 << 10], &[1, 4, 16, 64]),
    part("pipelined", Traffic::Answers(ANSWERS), &[64], &[256, 1024]),
    // One connection gives the curve that NetPIPE draws.
    part("echo", Traffic::Answers(1), SIZES, &[1]),
    part("echo", Traffic::Answers(1), ANSWERED, &[4, 16, 64, 256]),
    part("slow-peer", Traffic::Slow, &[64, 1 << 10], &[16, 256, 1024]),
    part("quiet", Traffic::Quiet, &[64, 1 << 10], &[257]),
    part("udp", Traffic::Datagrams, &[64, 1 << 10], &[1]),
];

const QUICK: [Part; 11] = [
    part("stream", Traffic::Flood, &[64, 256, 1 << 10], &[1]),
    part("fan-out", Traffic::Flood, &[64], &[64, 256]),
    part("paced-1k", Traffic::Paced(1_000), &[64], &[1]),
    part("paced-10k", Traffic::Paced(10_000), &[64], &[1]),
    part("paced-50k", Traffic::Paced(50_000), &[64], &[1]),
    part("paced-100k", Traffic::Paced(100_000), &[64], &[16]),
    part("pipelined", Traffic::Answers(ANSWERS), &[64], &[1, 4]),
    part("echo", Traffic::Answers(1), &[64], &[1, 16]),
    part("slow-peer", Traffic::Slow, &[64], &[16]),
    part("quiet", Traffic::Quiet, &[64], &[257]),
    part("udp", Traffic::Datagrams, &[64, 1 << 10], &[1]),
];

/// Promised least ratio of a ring, by traffic, size and connections.
const REACH: [((&str, usize, usize), f64); 7] = [
    (("stream", 64, 1), 40.0),
    (("stream", 256, 1), 10.0),
    (("stream", 1 << 10, 1), 2.5),
    (("fan-out", 64, 64), 40.0),
    (("fan-out", 64, 256), 40.0),
    (("pipelined", 64, 1), 3.0),
    (("pipelined", 64, 4), 5.0),
];
/// Promised least ratio of traffic that waits for each reply: it uses the kernel's path.
const ECHO_REACH: f64 = 0.97;
/// Promised highest ratio of the CPU time of program and service together for paced messages.
const PACED_REACH: f64 = 1.05;

const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

fn ops() -> Vec<&'static str> {
    let mut names: Vec<_> = FULL.iter().map(|part| part.name).collect();
    names.dedup();
    names.push(idle::NAME);
    names
}

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let descriptors = ffi::raise_descriptors()?;
    let mut laboratory = Laboratory::new(settings.check);
    let (repeats, warm_up, ns) = settings.pick((3, 40_000_000, 80_000_000), (5, 100_000_000, 250_000_000));
    let parts = settings.pick(&QUICK[..], &FULL[..]);
    let wanted = parts.iter().filter(|part| settings.wants(part.name));
    let least = settings.pick(400, 2_000);
    let cases = wanted.flat_map(|part| part.cases(&laboratory, (warm_up, part.lasts(ns, least)))).collect();
    let congestion = fs::read_to_string(CONGESTION).unwrap_or_default();
    let outcome = measure_all(&mut laboratory, cases, repeats, progress)?;
    let mut outcome = outcome.noted(format!(
        "sockets: messages a second of a program with one thread over loopback, to one thread that takes all there is without \
         copying it. batch: the program gathers 64 messages, or those of an answer, and sends them by one call. paced: one to each \
         connection and then a pause, so that there are so many thousand a second; the ratio is of the CPU time of program and \
         service together, where less is better, and the times are from the send to the peer. pipelined: 16 messages for each received; their times are those of all 16. slow-peer: one \
         connection is read at 1 MB/s and does not count. quiet: times of one connection's messages, one a millisecond, while the \
         others are flooded; the ratio is of medians, where less is better. udp: datagrams to one receiver; what was sent and did \
         not come is lost. Published for IsoStack (Shalev and others, USENIX ATC \
         2010): 10 Gbit/s with messages of 64 B at 40 % CPU, 11 x the native stack, by a stack of its own on a core of its own. \
         TCP's congestion control here is {}.",
        congestion.trim()
    ));
    if settings.wants(idle::NAME) && !progress.is_stopped() {
        outcome.add(idle::measure(&laboratory, descriptors, settings, progress)?);
    }
    Ok(outcome)
}

impl Part {
    /// Duration of a measurement, ns: `ns`, or the time of `least` paced messages.
    fn lasts(&self, ns: u64, least: u64) -> u64 {
        match self.traffic {
            Traffic::Paced(per_s) => ns.max(least * 1_000_000_000 / per_s),
            _ => ns,
        }
    }

    fn cases<'p>(
        &'p self,
        laboratory: &Laboratory,
        (warm_up, ns): (u64, u64),
    ) -> impl Iterator<Item = Case<'static, Laboratory>> + 'p {
        let (places, crowded) = (laboratory.describe(), laboratory.crowded());
        let points = self.sizes.iter().flat_map(|size| self.connections.iter().map(move |many| (*size, *many)));
        points.map(move |(size, connections)| {
            self.case((&places, crowded.clone()), Load { traffic: self.traffic, connections, size, warm_up, ns })
        })
    }

    fn case(&self, (places, crowded): (&str, Option<Caveat>), load: Load) -> Case<'static, Laboratory> {
        let sent = |name, way| {
            let run = move |laboratory: &mut Laboratory, turn: &Turn<'_>| laboratory.run(&load, way, turn);
            Variant::new(name, run)
        };
        let kernel = |name, options| sent(name, Way::Kernel(options));
        let ring = |name, waits: Notify| sent(name, Way::Ring(waits)).with(column::NOTIFY, waits.to_string());
        let by = match load.traffic {
            Traffic::Quiet => By::Median,
            _ => By::Rate,
        };
        let parks = ring("ring", Notify::Park).against(by, BASELINE);
        let case = Case::new(WORD)
            .with(column::OP, self.name)
            .with(column::SIZE, load.size)
            .with(column::CLIENTS, load.connections)
            .with(column::PINNED, places)
            .crowded(crowded)
            .payload(true)
            .variant(kernel(BASELINE, TcpOptions::NoDelay));
        let case = match load.traffic {
            // Options of TCP only.
            Traffic::Datagrams => case,
            _ => case
                .variant(kernel("nagle", TcpOptions::Nagle).against(by, BASELINE))
                .variant(kernel("cork", TcpOptions::Cork).against(by, BASELINE)),
        };
        let case = match load.traffic {
            // Such traffic has no messages to gather.
            Traffic::Datagrams | Traffic::Paced(_) | Traffic::Answers(1) => case,
            _ => case.variant(kernel("batch", TcpOptions::Batch).against(by, BASELINE)),
        };
        case.variant(match self.reach(&load) {
            Some((key, reach)) => parks.with(key, reach),
            None => parks,
        })
        .variant(ring("ring-spin", Notify::Spin).against(by, BASELINE))
    }

    fn reach(&self, load: &Load) -> Option<(&'static Column, f64)> {
        let point = (self.name, load.size, load.connections);
        match load.traffic {
            Traffic::Answers(1) => Some((column::AT_LEAST, ECHO_REACH)),
            Traffic::Paced(_) => Some((column::AT_MOST, PACED_REACH)),
            _ => REACH.iter().find(|(known, _)| *known == point).map(|(_, least)| (column::AT_LEAST, *least)),
        }
    }
}

fn by_connections(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[column::OP, column::SIZE, column::LOAD, column::CLIENTS]);
    let panels = grouped(rows, |row| (row.text(column::OP), row.number(column::CLIENTS)));
    let figures = panels.into_iter().map(|((op, clients), rows)| {
        let clients = clients.map_or_else(String::new, |clients| format!(", {}", counted(clients, "connection")));
        figure(&format!("{}{clients}", op.unwrap_or("all traffic")), rates(&mut series, &rows))
    });
    let figures = figures.collect();
    Group { legend: series.names, figures }
}

fn payload_curves(rows: &[&Row]) -> Group {
    let mut rows = rows.to_vec();
    rows.retain(|row| row.number(column::CLIENTS) == Some(1.0));
    let mut series = Series::of(&rows, &[column::OP, column::SIZE]);
    let curves = [("stream", "Payload on one connection"), ("echo", "Payload of echoes on one connection")];
    let figures = curves.map(|(op, title)| {
        let rows: Vec<_> = rows.iter().copied().filter(|row| row.text(column::OP) == Some(op)).collect();
        figure(title, series.line_plot(LARGE, &rows, along::SIZE, along::PAYLOAD))
    });
    Group { legend: series.names, figures: figures.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_is_measured() {
        for ((kind, size, connections), _) in REACH {
            let mut parts = FULL.iter().filter(|part| part.name == kind);
            assert!(
                parts.any(|part| part.sizes.contains(&size) && part.connections.contains(&connections)),
                "{kind} {size} {connections}"
            );
        }
    }

    #[test]
    fn a_short_run_has_all_traffic() {
        assert!(QUICK.iter().map(|part| part.name).chain([idle::NAME]).eq(ops()));
    }
}
