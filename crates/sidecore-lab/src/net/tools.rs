//! The laboratory against other tools: the same load on the same path, in turn.

mod case;
mod dialogue;
mod iperf;
mod program;
mod sockperf;
pub(super) mod tool;

use super::end::Order;
use super::error::ToolError;
use super::flow::times;
use super::link::{Link, Settings};
use super::pair::Pair;
use super::path::{Both, Path};
use super::protocol::{Direction, Load, Serving};
use crate::args::PORT;
use crate::error::LabError;
use crate::interrupt::{Interrupt, STOPPED};
use crate::report::Outcome;
use case::{Case, Found, Way, cases};
use indicatif::ProgressBar;
use program::Port;
use sidecore::sys::cpu;
use std::collections::BTreeSet;
use std::time::Duration;
use tool::Tool;

const WARM_UP: Duration = Duration::from_millis(200);
/// Servers use that number of ports in turn: connections of an earlier server do not block a port.
const PORTS: u16 = 1_000;

/// Rate of a line, bit/s.
const RATE: u64 = 500_000_000;
/// Latency of a line, one way, ns.
const DELAY: u64 = 500_000;

struct Laboratory {
    pair: Pair,
    _line: Option<Link>,
    path: Path,
    served: u16,
    time: Duration,
}

pub(crate) const PATHS: [&str; 2] = [Way::ALL[0].name(), Way::ALL[1].name()];

/// Measures with all installed tools, on the paths that `wants` accepts by name.
///
/// Afterwards the calling thread is in its own network namespace, and on one core.
pub(crate) fn measure(
    quick: bool,
    wants: &(dyn Fn(&str) -> bool + Sync),
    (bar, interrupt): (&ProgressBar, &Interrupt),
) -> Outcome {
    let mut outcome = Outcome::default();
    let ways = || Way::ALL.into_iter().filter(|way| wants(way.name()));
    let mut cases: Vec<_> = ways().flat_map(|way| cases(way, quick)).collect();
    let missing = cases.iter().map(|case| case.tool).filter(|tool| !tool.is_there());
    for name in missing.map(Tool::name).collect::<BTreeSet<_>>() {
        outcome.lacks(format!("net: {name} is not installed: apt-get install {name}"));
    }
    cases.retain(|case| case.tool.is_there());
    if cases.is_empty() {
        return outcome;
    }
    let (time, repeats) = (Duration::from_secs(1), if quick { 1 } else { 6 });
    bar.inc_length((cases.len() * repeats) as u64);
    let mut pinned = String::new();
    for way in ways().filter(|_| !interrupt.came()) {
        match Laboratory::new(way, time) {
            Ok((mut laboratory, places)) => {
                rounds(&mut cases, way, &mut laboratory, repeats, (bar, interrupt));
                pinned = places;
            }
            Err(why) => outcome.lacks(format!("net: {why}")),
        }
    }
    if interrupt.came() {
        outcome.lacks(STOPPED);
    }
    for case in &cases {
        case.wrong.iter().for_each(|why| outcome.lacks(format!("net: {}: {why}", case.words())));
    }
    outcome.add_rows(cases.iter().flat_map(|case| case.rows(&pinned)));
    outcome.noted(format!(
        "net-tools: two namespaces joined by veth, {pinned}; both programs inherit their end's core, and so do their servers. Each \
         counts for {} s, this program after {} ms. They take turns, and change who begins. This program serves TCP streams as \
         iperf3 does, by one thread that polls; in `its own way` a thread for each connection reads up to 128 KiB. Round trips \
         are compared with sockperf's by their medians. CPU time is that of the processes at the near end (client CPU) and at the \
         far end (service CPU), for each message, without what a tool does before and after it measures; a ratio to a tool's CPU \
         is of both ends together. Ratios are geometric means over pairs, and their intervals Student's at 95 %: held is what lies \
         within as a whole, missed what lies outside as a whole. net-tools-line: the same over a link of {} Mbit/s, {} us each \
         way, so that no program is the limit.",
        time.as_secs(),
        WARM_UP.as_millis(),
        RATE / 1_000_000,
        DELAY / 1_000,
    ))
}

fn rounds(
    cases: &mut [Case],
    way: Way,
    laboratory: &mut Laboratory,
    repeats: usize,
    (bar, interrupt): (&ProgressBar, &Interrupt),
) {
    for round in 0..repeats {
        for case in cases.iter_mut().filter(|case| case.way == way && case.wrong.is_none()) {
            if interrupt.came() {
                return;
            }
            bar.set_message(case.words());
            // Earlier measurements of the case stay valid.
            case.wrong = case.run(laboratory, round % 2 == 0).err();
            bar.inc(1);
        }
    }
}

impl Laboratory {
    fn new(way: Way, time: Duration) -> Result<(Self, String), LabError> {
        let allowed = cpu::allowed();
        let (first, last) = allowed.first().zip(allowed.last()).ok_or(LabError::broken("no core may be used"))?;
        let pin = |core: &usize| {
            cpu::pin(*core).map_err(|error| LabError::failed(format!("cannot go to core {core}"), error))
        };
        // The far end inherits its core, as do all processes of either end.
        pin(last)?;
        let line = Settings { rate_bits_per_s: Some(RATE), delay: DELAY, ..Settings::default() };
        let (mut pair, line) = Link::or_veth((way == Way::Line).then_some(&line))?;
        pin(first)?;
        let path = pair.path()?;
        let places = format!("the near end on core {first}, the far end on core {last}");
        Ok((Self { pair, _line: line, path, served: 0, time }, places))
    }

    fn own(&mut self, load: &Load) -> Result<Found, LabError> {
        let (Both { near, far }, latencies) = self.path.measure(load, WARM_UP, self.time)?;
        let (sender, receiver) = if load.direction == Direction::Receive { (&far, &near) } else { (&near, &far) };
        let messages = |bytes: u64| bytes as f64 / load.size as f64;
        let cpu =
            [&near, &far].map(|end| end.process_ns as f64 / 1e3 / messages(end.sent.bytes.max(end.received.bytes)));
        Ok(Found {
            rate: messages(receiver.received.bytes) / receiver.seconds(),
            sent: messages(sender.sent.bytes) / sender.seconds(),
            trip: times(&latencies),
            cpu: Some(cpu),
        })
    }

    fn other(&mut self, load: &Load, tool: Tool) -> Result<Found, LabError> {
        self.served += 1;
        let port = Port(PORT + 1 + self.served % PORTS);
        let server = self.pair.far.ask(&Order::Run { tool, arguments: tool.server(load, port) })?;
        let met = port.wait_for(tool, server, tool.meets_by_tcp(load));
        let answer = met.and_then(|()| tool.run(&tool.client(load, port, self.time), self.time, server));
        self.pair.far.order(&Order::End)?;
        let answer = answer?;
        let found = tool.read(&answer.output, load)?;
        // An error in the output comes first: it may explain a short run.
        let spent = answer.cpu.ok_or(ToolError::Early(tool.name()))?;
        let ends =
            if load.direction == Direction::Receive { [found.rate, found.sent] } else { [found.sent, found.rate] };
        Ok(Found { cpu: Some([0, 1].map(|end| spent[end] * 1e6 / ends[end])), ..found })
    }
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        // The servers end together with the far end.
        let _ = self.pair.far.order(&Order::End);
    }
}

impl Case {
    /// Runs once with each. If one fails, none counts.
    fn run(&mut self, laboratory: &mut Laboratory, own_first: bool) -> Result<(), LabError> {
        let early = if own_first { Some(laboratory.own(&self.load)?) } else { None };
        let other = laboratory.other(&self.load, self.tool)?;
        let own = early.map_or_else(|| laboratory.own(&self.load), Ok)?;
        if let Some(plain) = &mut self.plain {
            let load = Load { serving: Serving::default(), ..self.load };
            plain.push(laboratory.own(&load)?);
        }
        self.own.push(own);
        self.other.push(other);
        Ok(())
    }
}
