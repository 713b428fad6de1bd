//! Small messages over TCP, sent by a program that knows nothing of sidecore: on the kernel's own path, with its options
//! that gather messages, and through rings.

pub(super) mod content;
pub(super) mod ffi;
mod laboratory;
mod peer;

use super::experiment::{By, Case, Turn, Variant, measure_all};
use super::task::{TcpOptions, Traffic};
use super::{BenchError, Outcome, Settings};
use crate::progress::Progress;
use crate::report::Key;
use laboratory::{Laboratory, Load, Way};

/// What the rows are measured against: as most programs are that send small messages.
const BASELINE: &str = "direct";
/// Sent for each message received where replies are pipelined.
const ANSWERS: usize = 16;
/// Messages a second on all connections together where they are paced.
const PACE: u64 = 100_000;

/// One kind of traffic, at these sizes and numbers of connections.
struct Part {
    name: &'static str,
    traffic: Traffic,
    sizes: &'static [usize],
    connections: &'static [usize],
}

const fn part(name: &'static str, traffic: Traffic, sizes: &'static [usize], connections: &'static [usize]) -> Part {
    Part { name, traffic, sizes, connections }
}

const SIZES: &[usize] = &[1, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const ANSWERED: &[usize] = &[64, 1 << 10, 16 << 10];

const FULL: [Part; 7] = [
    part("stream", Traffic::Flood, SIZES, &[1]),
    part("fan-out", Traffic::Flood, SIZES, &[16, 64, 256, 1024]),
    part("paced", Traffic::Paced(PACE), &[64, 1 << 10], &[16, 64, 256, 1024]),
    part("pipelined", Traffic::Answers(ANSWERS), &[64, 1 << 10], &[1, 4, 16, 64]),
    part("echo", Traffic::Answers(1), ANSWERED, &[1, 4, 16, 64]),
    part("slow-peer", Traffic::Slow, &[64, 1 << 10], &[16, 256]),
    part("quiet", Traffic::Quiet, &[64, 1 << 10], &[257]),
];

const QUICK: [Part; 7] = [
    part("stream", Traffic::Flood, &[64, 1 << 10], &[1]),
    part("fan-out", Traffic::Flood, &[64], &[64, 256]),
    part("paced", Traffic::Paced(PACE), &[64], &[16]),
    part("pipelined", Traffic::Answers(ANSWERS), &[64], &[1, 4]),
    part("echo", Traffic::Answers(1), &[64], &[1, 16]),
    part("slow-peer", Traffic::Slow, &[64], &[16]),
    part("quiet", Traffic::Quiet, &[64], &[257]),
];

/// Names of all traffic that is measured.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    FULL.iter().map(|part| part.name)
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    ffi::raise_descriptors()?;
    let mut laboratory = Laboratory::new(settings.check);
    let (repeats, ns) = settings.pick((3, 100_000_000), (5, 250_000_000));
    let parts = settings.pick(&QUICK, &FULL);
    let wanted = parts.iter().filter(|part| settings.wants(part.name));
    let cases = wanted.flat_map(|part| part.cases(&laboratory, ns)).collect();
    Ok(measure_all(&mut laboratory, cases, repeats, progress)?.noted(
        "sockets: messages a second that arrived, of one program with one thread over loopback; client CPU is that of the \
         program, service CPU that of the service, per message. direct, cork and the rings set TCP_NODELAY or what replaces it, \
         nagle does not; cork is let go after 64 messages and after each answer. The peer is one thread that takes all there is \
         without copying it. paced: one message to each connection, then a pause, 100,000 a second together; the ratio is of \
         the program's CPU time. pipelined: 16 messages for each received; their times are those of all 16. slow-peer: one \
         connection is read at 1 MB/s and does not count. quiet: times of one connection's messages, one a millisecond, from \
         before send to the peer's socket, while the others are flooded; the ratio is of their medians. Published for IsoStack \
         (Shalev et al., USENIX ATC 2010): 10 Gbit/s at 64 B at 40 % CPU, 11 x the native stack, with a stack of its own on a \
         core of its own.",
    ))
}

impl Part {
    fn cases<'p>(&'p self, laboratory: &Laboratory, ns: u64) -> impl Iterator<Item = Case<'static, Laboratory>> + 'p {
        let places = laboratory.describe();
        let points = self.sizes.iter().flat_map(|size| self.connections.iter().map(move |many| (*size, *many)));
        points.map(move |(size, connections)| self.case(&places, Load { traffic: self.traffic, connections, size, ns }))
    }

    fn case(&self, places: &str, load: Load) -> Case<'static, Laboratory> {
        let kernel = |name, options| {
            let run = move |laboratory: &mut Laboratory, _: &Turn<'_>| laboratory.run(&load, Way::Kernel(options));
            Variant::new(name, run)
        };
        let by = match load.traffic {
            Traffic::Quiet => By::Median,
            _ => By::Rate,
        };
        Case::new("sockets")
            .with(Key::Op, self.name)
            .with(Key::Size, load.size)
            .with(Key::Clients, load.connections)
            .with(Key::Pinned, places)
            .payload(true)
            .variant(kernel(BASELINE, TcpOptions::NoDelay))
            .variant(kernel("nagle", TcpOptions::Nagle).against(by, BASELINE))
            .variant(kernel("cork", TcpOptions::Cork).against(by, BASELINE))
    }
}
