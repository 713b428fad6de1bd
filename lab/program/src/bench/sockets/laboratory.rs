//! One measurement: a program that sends, started for it, its peer in this process, and the service for rings.

use super::door::Door;
use super::peer::PeerReport;
use super::receiver::UNKNOWN;
use super::ring::{self, Ring};
use crate::bench::error::BenchError;
use crate::bench::experiment::{Better, Counted, Run, Turn};
use crate::bench::task::{Sending, Task, TcpOptions, Traffic};
use crate::bench::testbed::Member;
use crate::report::{Caveat, Reason};
use sidecore::core::policy::notify::Notify;
use sidecore_daemon::sys::cpu;
use sidecore_ipc::sys::clock;
use sidecore_measure::experiment::Measured;
use sidecore_measure::pinning::Pinning;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const CPU: &str = "cpu_us";

/// Duration of a comparison of bytes before a measurement, ns.
const CHECK: u64 = 30_000_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) traffic: Traffic,
    pub(super) connections: usize,
    pub(super) size: usize,
    pub(super) warm_up: u64,
    pub(super) ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    Kernel(TcpOptions),
    /// A ring, for a program that sets `TCP_NODELAY`. The policy is the service's.
    Ring(Notify),
}

pub(super) struct Laboratory {
    places: Places,
    library: Option<PathBuf>,
    checked: bool,
}

/// Cores of the program, its peer and the service; `None`: not pinned.
#[derive(Debug, Clone, Copy)]
struct Places {
    program: Option<usize>,
    peer: Option<usize>,
    service: Option<usize>,
}

impl Places {
    fn new(pinning: &Pinning) -> Self {
        let service = pinning.sidecores.first().copied();
        let peer = pinning.clients.get(1).copied().or(service);
        Self { program: pinning.client(0), peer, service }
    }

    fn describe(&self) -> String {
        let (Some(program), Some(peer), Some(service)) = (self.program, self.peer, self.service) else {
            return "one core, nothing pinned".to_owned();
        };
        if peer == service {
            format!("program {program}, peer and service {service}")
        } else {
            format!("program {program}, peer {peer}, service {service}")
        }
    }
}

impl Laboratory {
    pub(super) fn new(checked: bool) -> Self {
        Self { places: Places::new(&Pinning::new(1)), library: ring::library(), checked }
    }

    pub(super) fn describe(&self) -> String {
        self.places.describe()
    }

    pub(super) fn crowded(&self) -> Option<Caveat> {
        let is_crowded = self.places.peer == self.places.service;
        is_crowded.then(|| Caveat::new(Reason::Crowded, "the peer shares the service's core"))
    }

    /// One run; all its bytes must arrive. The first run of a ring variant follows a short one with compared bytes.
    pub(super) fn run(&self, load: &Load, way: Way, turn: &Turn<'_>) -> Result<Run, BenchError> {
        let waits = match way {
            Way::Kernel(options) => return self.measure(load, options, self.checked, None),
            Way::Ring(waits) => waits,
        };
        let by_ring = |load: &Load, checked| match self.ring(waits)? {
            Ok(ring) => self.measure(load, TcpOptions::NoDelay, checked, Some(&ring)),
            Err(why) => Ok(Run::missing(why.to_string())),
        };
        if turn.is_first() && !self.checked {
            by_ring(&Load { ns: CHECK, ..*load }, true)?;
        }
        by_ring(load, self.checked)
    }

    fn measure(
        &self,
        load: &Load,
        options: TcpOptions,
        checked: bool,
        ring: Option<&Ring<'_>>,
    ) -> Result<Run, BenchError> {
        let Load { traffic, connections, size, warm_up, ns } = *load;
        let door = Door::open(traffic)?;
        let sending = Sending { to: door.address()?, connections, size, traffic, options, checked, warm_up, ns };
        let (process, own) = (clock::process_cpu(), clock::thread_cpu());
        let (measured, report, by_ring) = self.exchange(&door, &sending, ring)?;
        let service = (clock::process_cpu() - process).saturating_sub(clock::thread_cpu() - own + report.cpu_ns);
        let counted = match by_ring {
            // Its threads ran from the first message to the last. Only the share of counted messages is charged.
            Some([messages, sends]) => {
                let all = (measured.bytes / size as u64).max(1);
                let share = measured.ops.min(all) as f64 / all as f64;
                Counted::cpu((service as f64 * share) as u64).by_ring([messages, sends, all])
            }
            None => Counted::cpu(0),
        };
        match traffic {
            Traffic::Datagrams => {
                let (all, begun) = (measured.bytes / size as u64, measured.per_s());
                let counted = counted.lost(all.saturating_sub(report.bytes / size as u64), all);
                Ok(found(&sending, measured, &report)?.counted(counted).begun(begun))
            }
            Traffic::Paced(_) => {
                let cpu_us = (measured.cpu_ns + counted.cpu_ns()) as f64 / 1000.0 / measured.ops.max(1) as f64;
                Ok(found(&sending, measured, &report)?.counted(counted).compared_by(CPU, Better::Less, cpu_us))
            }
            _ => Ok(found(&sending, measured, &report)?.counted(counted)),
        }
    }

    /// Starts the program on its core. It sends nothing yet.
    pub(super) fn start(&self, ring: Option<&Ring<'_>>) -> Result<Member, BenchError> {
        let environment = ring.map(Ring::environment);
        let mut program = Member::start(environment.as_ref().map_or(&[], |both| &both[..]))?;
        if let Some(cpu) = self.places.program {
            program.measure(&Task::Pin { cpu })?;
        }
        Ok(program)
    }

    pub(super) fn ring(&self, waits: Notify) -> Result<Result<Ring<'_>, BenchError>, BenchError> {
        match &self.library {
            None => Ok(Err(ring::missing())),
            Some(_) if waits == Notify::Spin && self.places.service.is_none() => {
                Ok(Err(BenchError::Machine("a service that spins takes a second core")))
            }
            Some(library) => Ok(Ok(Ring::start(library, self.places.service, waits)?)),
        }
    }

    fn exchange(&self, door: &Door, sending: &Sending, ring: Option<&Ring<'_>>) -> Result<Exchanged, BenchError> {
        let mut program = self.start(ring)?;
        let sent = AtomicU64::new(UNKNOWN);
        thread::scope(|scope| {
            let peer = thread::Builder::new().name("peer".to_owned());
            let peer = peer.spawn_scoped(scope, || hear(door, sending, &sent, self.places.peer))?;
            let measured = program.measure(&Task::Send(sending.clone()));
            let by_ring = ring.map(Ring::counted).transpose();
            // The end of the program closes its connections; sent bytes arrive all the same.
            drop(program);
            // A receiver of datagrams cannot detect the end by itself.
            sent.store(measured.as_ref().map_or(0, |measured| measured.bytes), Ordering::Release);
            let report = peer.join().map_err(|_| BenchError::State("the program's peer panicked"))?;
            match (measured, report) {
                (Ok(measured), Ok(report)) => Ok((measured, report, by_ring?)),
                // Both failed: one of them ended the other's connections.
                (Err(program), Err(peer)) => Err(BenchError::Both { program: Box::new(program), peer }),
                (Err(program), Ok(_)) => Err(program),
                (Ok(_), Err(peer)) => Err(peer.into()),
            }
        })
    }
}

/// The program's result, the peer's result, and messages through rings with the system calls that moved them.
type Exchanged = (Measured, PeerReport, Option<[u64; 2]>);

fn hear(door: &Door, sending: &Sending, sent: &AtomicU64, place: Option<usize>) -> io::Result<PeerReport> {
    if let Some(cpu) = place {
        cpu::pin(cpu)?;
    }
    door.hear(sending, sent)
}

/// Result of a run. Its rate counts bytes that arrived in the measured time, so bytes in flight at its beginning and
/// end do not count.
fn found(sending: &Sending, mut measured: Measured, report: &PeerReport) -> Result<Run, BenchError> {
    let may_be_lost = sending.traffic == Traffic::Datagrams && report.bytes < measured.bytes;
    if report.bytes != measured.bytes && !may_be_lost {
        return Err(BenchError::Bytes { sent: measured.bytes, came: report.bytes });
    }
    if !matches!(sending.traffic, Traffic::Answers(_)) {
        let came = report.between(measured.began, measured.began + measured.ns) / sending.size as f64;
        // Time until the number of sent messages arrived.
        measured.ns = (measured.ns as f64 * measured.ops as f64 / came.max(1.0)) as u64;
    }
    measured.total = report.latencies();
    Ok(Run::of(vec![measured]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_and_service_are_apart_where_there_are_two_cores() {
        let places = |clients: &[usize], sidecores: &[usize]| {
            Places::new(&Pinning { clients: clients.to_vec(), sidecores: sidecores.to_vec(), is_unknown: false })
                .describe()
        };
        assert_eq!(places(&[], &[]), "one core, nothing pinned");
        assert_eq!(places(&[0], &[1]), "program 0, peer and service 1");
        assert_eq!(places(&[0, 1, 2], &[3]), "program 0, peer 1, service 3");
    }
}
