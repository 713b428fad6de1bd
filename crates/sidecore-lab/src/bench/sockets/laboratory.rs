//! One measurement: a program that sends, started for it, its peer in this process, and the service where there is one.

use super::peer::{Heard, Peer};
use crate::bench::BenchError;
use crate::bench::crew::{Member, Pinning};
use crate::bench::experiment::{Counted, Run};
use crate::bench::programs::service_cpu;
use crate::bench::task::{Measured, Sending, Task, TcpOptions, Traffic};
use sidecore::sys::cpu;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

/// The name under which a paced program's CPU time is among the metrics.
const PROGRAM_CPU: &str = "program_cpu_us";

/// Not among those of the service.
pub(super) const PEER_THREAD: &str = "peer";

/// What is sent, whatever the way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) traffic: Traffic,
    pub(super) connections: usize,
    pub(super) size: usize,
    pub(super) ns: u64,
}

/// The way of a message to its peer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    /// The kernel's, by a program that sets these options.
    Kernel(TcpOptions),
}

/// Where measurements are made.
pub(super) struct Laboratory {
    places: Places,
    checked: bool,
}

/// Who runs on which core; `None`: where the system likes.
#[derive(Debug, Clone, Copy)]
struct Places {
    program: Option<usize>,
    peer: Option<usize>,
    service: Option<usize>,
}

impl Places {
    /// The program and the service have cores of their own if there are two, the peer if there are three.
    fn new(pinning: &Pinning) -> Self {
        let service = pinning.sidecores.first().copied();
        let peer = pinning.clients.get(1).copied().or(service);
        Self { program: pinning.client(0), peer, service }
    }

    /// In words, for rows.
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
        Self { places: Places::new(&Pinning::new(1)), checked }
    }

    pub(super) fn describe(&self) -> String {
        self.places.describe()
    }

    /// One run, all of whose bytes arrived.
    pub(super) fn run(&self, load: &Load, way: Way) -> Result<Run, BenchError> {
        let Way::Kernel(options) = way;
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let sending = Sending {
            to: listener.local_addr()?,
            connections: load.connections,
            size: load.size,
            traffic: load.traffic,
            options,
            checked: self.checked,
            ns: load.ns,
        };
        let cpu_before = service_cpu()?;
        let (measured, heard) = self.exchange(&listener, &sending)?;
        let service_cpu = service_cpu()?.saturating_sub(cpu_before);
        found(&sending, measured, &heard, service_cpu)
    }

    /// What the program sent, and what came.
    fn exchange(&self, listener: &TcpListener, sending: &Sending) -> Result<(Measured, Heard), BenchError> {
        let mut program = Member::start(&[])?;
        if let Some(cpu) = self.places.program {
            program.measure(&Task::Pin { cpu })?;
        }
        thread::scope(|scope| {
            let peer = thread::Builder::new().name(PEER_THREAD.to_owned());
            let peer = peer.spawn_scoped(scope, || hear(listener, sending, self.places.peer))?;
            let measured = program.measure(&Task::Send(sending.clone()));
            // The program ends, and its connections with it: what it sent arrives all the same.
            drop(program);
            let heard = peer.join().map_err(|_| "the program's peer panicked")?;
            Ok((measured?, heard?))
        })
    }
}

fn hear(listener: &TcpListener, sending: &Sending, place: Option<usize>) -> io::Result<Heard> {
    if let Some(cpu) = place {
        cpu::pin(cpu)?;
    }
    Peer::accept(listener, sending)?.run()
}

/// Rates are of what arrived: until the last byte did.
fn found(sending: &Sending, mut measured: Measured, heard: &Heard, service_cpu: u64) -> Result<Run, BenchError> {
    if heard.bytes != measured.bytes {
        return Err(format!("{} bytes were sent, and {} came", measured.bytes, heard.bytes).into());
    }
    measured.ns = heard.last.saturating_sub(measured.began);
    measured.total = heard.latencies();
    let program_cpu = measured.cpu_ns as f64 / 1000.0 / measured.ops.max(1) as f64;
    let run = Run::of(vec![measured]).counted(Counted::cpu(service_cpu));
    Ok(match sending.traffic {
        Traffic::Paced(_) => run.compared_by(PROGRAM_CPU, program_cpu),
        _ => run,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_and_service_are_apart_where_there_are_two_cores() {
        let places = |clients: &[usize], sidecores: &[usize]| {
            Places::new(&Pinning { clients: clients.to_vec(), sidecores: sidecores.to_vec() }).describe()
        };
        assert_eq!(places(&[], &[]), "one core, nothing pinned");
        assert_eq!(places(&[0], &[1]), "program 0, peer and service 1");
        assert_eq!(places(&[0, 1, 2], &[3]), "program 0, peer 1, service 3");
    }
}
