//! Cost of silent connections in rings: CPU time and wake-ups of the program and of the service.

use super::door::Door;
use super::laboratory::Laboratory;
use super::peer::Peer;
use super::ring::Ring;
use super::{BASELINE, WORD};
use crate::bench::error::BenchError;
use crate::bench::scenario::Settings;
use crate::bench::task::{Sending, Task, TcpOptions, Traffic};
use crate::bench::testbed::Member;
use crate::report::{Column, Outcome, Row, column};
use sidecore::core::policy::notify::Notify;
use sidecore_ipc::sys::clock;
use sidecore_measure::programs::cpu;
use sidecore_measure::progress::Progress;
use sidecore_report::Better::Less;
use sidecore_report::columns;
use sidecore_report::format::{count, micros};
use sidecore_report::statistics::median;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

columns! {
    pub(in crate::bench) COLUMNS after column::TOTAL_CPU;

    /// CPU time in a second without traffic: of the clients' processes, us.
    CLIENT_IDLE = Column::found("idle_us_per_s.client", "client idle CPU", 4, Less, micros);
    /// The same of the service.
    SERVICE_IDLE = Column::found("idle_us_per_s.service", "service idle CPU", 4, Less, micros);
    /// Wake-ups of threads of either meanwhile.
    IDLE_WAKEUPS = Column::found("idle_wakeups", "woke", 4, Less, |woke| count(woke as u64));
}

pub(super) const NAME: &str = "idle";
const SIZE: usize = 64;
/// Descriptors of a process reserved for other things than connections.
const SPARE: u64 = 200;
/// Longest wait until all connections are in rings, ns.
const MAX_WAIT_NS: u64 = 20_000_000_000;
/// Time to process everything sent before the silence.
const REST: Duration = Duration::from_millis(500);
const SERVICE_THREADS: [&str; 2] = ["sockets-", "closes-"];

const VARIANTS: [(&str, Option<Notify>); 3] =
    [(BASELINE, None), ("ring", Some(Notify::Park)), ("ring-break-even", Some(Notify::BreakEven))];

#[derive(Clone, Copy)]
struct Silence {
    connections: usize,
    time: Duration,
}

#[derive(Clone, Copy, Default)]
struct Used {
    cpu_ns: u64,
    slept: u64,
}

struct Found {
    program: Used,
    service: Used,
    in_rings: usize,
}

pub(super) fn measure(
    laboratory: &Laboratory,
    descriptors: u64,
    settings: &Settings,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    let (wanted, seconds, repeats) = settings.pick((1_000, 1, 1), (10_000, 5, 3));
    // The peer and the service share one process, and each needs a descriptor for each connection.
    let connections = wanted.min(usize::try_from(descriptors.saturating_sub(SPARE) / 2)?);
    let silence = Silence { connections, time: Duration::from_secs(seconds) };
    progress.extend(VARIANTS.len() * repeats);
    let mut found: [Vec<Found>; VARIANTS.len()] = Default::default();
    let mut outcome = Outcome::default();
    for _ in 0..repeats {
        for ((name, waits), found) in VARIANTS.iter().zip(&mut found) {
            progress.begin(&format!("{NAME}, {name}, {connections} connections"));
            if progress.is_stopped() {
                break;
            }
            match waits.map(|waits| laboratory.ring(waits)).transpose()?.transpose() {
                Ok(ring) => found.push(silence.measure(laboratory, ring.as_ref())?),
                Err(why) => outcome.left_out.push(format!("{WORD}: {why}")),
            }
            progress.advance();
        }
    }
    outcome.left_out.dedup();
    let measured = VARIANTS.iter().zip(&found).filter(|(_, found)| !found.is_empty());
    outcome
        .rows
        .extend(measured.map(|((name, waits), found)| {
            silence.row(name, *waits, found).with(column::PINNED, laboratory.describe())
        }));
    let fewer = if connections < wanted {
        format!(", not {wanted}, for a process here may have {descriptors} descriptors")
    } else {
        String::new()
    };
    Ok(outcome.noted(format!(
        "{NAME}: {connections} connections{fewer}, each with a row of messages before, then {seconds} s in which nothing is sent. \
         Of that the CPU time a second of all threads of the program and of the service, and how often one of them woke."
    )))
}

impl Silence {
    fn measure(self, laboratory: &Laboratory, ring: Option<&Ring<'_>>) -> Result<Found, BenchError> {
        let Door::Connections(listener) = Door::open(Traffic::Silence)? else {
            return Err(BenchError::State("no door for connections"));
        };
        let sending = Sending {
            to: listener.local_addr()?,
            connections: self.connections,
            size: SIZE,
            traffic: Traffic::Silence,
            options: TcpOptions::NoDelay,
            checked: false,
            warm_up: 0,
            ns: 0,
        };
        let mut program = laboratory.start(ring)?;
        let peer = connect(&mut program, &listener, &sending)?;
        let in_rings = ring.map_or(Ok(0), |ring| self.until_silent(ring))?;
        thread::sleep(REST);
        let before = (used(program.id(), |_| true)?, service()?);
        thread::sleep(self.time);
        let after = (used(program.id(), |_| true)?, service()?);
        drop(peer);
        let service = if ring.is_some() { after.1.since(before.1) } else { Used::default() };
        Ok(Found { program: after.0.since(before.0), service, in_rings })
    }

    fn until_silent(self, ring: &Ring<'_>) -> Result<usize, BenchError> {
        let until = clock::now() + MAX_WAIT_NS;
        loop {
            let silent = ring.silent()?;
            if silent >= self.connections || clock::now() > until {
                return Ok(silent);
            }
            thread::sleep(REST);
        }
    }

    fn row(self, variant: &str, waits: Option<Notify>, found: &[Found]) -> Row {
        let middle = |of: &dyn Fn(&Found) -> f64| median(&found.iter().map(of).collect::<Vec<_>>());
        let us_per_s = |used: Used| used.cpu_ns as f64 / 1e3 / self.time.as_secs_f64();
        let share = middle(&|found| found.in_rings as f64) / self.connections as f64;
        Row::new(WORD, variant)
            .with(column::OP, NAME)
            .with(column::NOTIFY, waits.map(|waits| waits.to_string()))
            .with(column::CLIENTS, self.connections)
            .with(CLIENT_IDLE, middle(&|found| us_per_s(found.program)))
            .with(SERVICE_IDLE, waits.map(|_| middle(&|found| us_per_s(found.service))))
            .with(IDLE_WAKEUPS, middle(&|found| (found.program.slept + found.service.slept) as f64))
            .with(column::RING_SHARE, waits.map(|_| share))
            .with(column::REPEATS, found.len())
    }
}

fn connect(program: &mut Member, listener: &TcpListener, sending: &Sending) -> Result<Peer, BenchError> {
    thread::scope(|scope| {
        let peer = thread::Builder::new().name("peer".to_owned());
        let peer: thread::ScopedJoinHandle<'_, io::Result<Peer>> =
            peer.spawn_scoped(scope, || Peer::accept(listener, sending))?;
        let connected = program.measure(&Task::Send(sending.clone()));
        let peer = peer.join().map_err(|_| BenchError::State("the program's peer panicked"))?;
        connected?;
        Ok(peer?)
    })
}

impl Used {
    fn since(self, before: Self) -> Self {
        let slept = self.slept.saturating_sub(before.slept);
        Self { cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns), slept }
    }
}

fn service() -> Result<Used, BenchError> {
    used(std::process::id(), |name| SERVICE_THREADS.iter().any(|begin| name.starts_with(begin)))
}

fn used(process: u32, is_counted: impl Fn(&str) -> bool) -> Result<Used, BenchError> {
    let mut used = Used::default();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let path = thread?.path();
        let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        // A thread may end meanwhile.
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        if let Some(thread) = number.filter(|_| is_counted(field("Name:"))) {
            used.cpu_ns += cpu(process, thread)?;
            used.slept += field("voluntary_ctxt_switches:").parse::<u64>()?;
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_and_one_that_wakes_are_seen() {
        let name = "counts-itself";
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let used = || used(std::process::id(), |thread| thread == name).unwrap();
            let before = used();
            thread::sleep(Duration::from_millis(1));
            let until = clock::thread_cpu() + 2_000_000;
            while clock::thread_cpu() < until {}
            used().since(before)
        });
        let used = thread.unwrap().join().unwrap();
        assert!(used.slept >= 1 && used.cpu_ns >= 1_000_000, "{} {}", used.slept, used.cpu_ns);
    }
}
