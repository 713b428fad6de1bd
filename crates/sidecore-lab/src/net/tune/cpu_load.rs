//! Permanent load of the first processor with packets: a program would give way to received packets, packets do not.
//!
//! Two bridges are joined by two links, so that broadcasts circulate forever, as in a network with wrong cabling. Each hop
//! is a soft interrupt of the sending processor, and shares its queue with all other received packets. The load ends with its interfaces, and these end with the network namespace. It pauses while the process is
//! stopped from the keyboard (`SIGTSTP`), because a stopped process could not end it. A `SIGSTOP` cannot be handled.

use crate::error::LabError;
use crate::interrupt::SignalError;
use crate::net::links::Links;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use signal_hook::consts::SIGTSTP;
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};

const BRIDGES: [&str; 2] = ["loop", "pool"];
const PORTS: [[&str; 2]; 2] = [["loop1", "pool1"], ["loop2", "pool2"]];
/// From the network reserved for measurements, different from the addresses of the path.
const OWN: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
const ALL: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 255);
const BITS: u8 = 24;
const DISCARD: u16 = 9;
/// Circulating broadcasts, each in both directions. A processor's queue of 1000 packets keeps room.
const BROADCASTS: usize = 150;

/// Whether no load runs: then the handler stops the process as by default. Handlers cannot be removed.
static IS_CALM: LazyLock<io::Result<Arc<AtomicBool>>> = LazyLock::new(|| {
    let is_calm = Arc::new(AtomicBool::new(true));
    let registered = flag::register_conditional_default(SIGTSTP, is_calm.clone());
    registered.map(|_| is_calm)
});

/// Ends on drop. A process has at most one.
pub(super) struct CpuLoad {
    links: Links,
    stops: Handle,
    pauses: Option<JoinHandle<()>>,
}

impl CpuLoad {
    /// Begins in the namespace of this thread.
    pub(super) fn begin() -> Result<Self, LabError> {
        let is_calm = IS_CALM.as_ref().map_err(|error| SignalError(io::Error::new(error.kind(), error.to_string())))?;
        let signals = Signals::new([SIGTSTP]).map_err(SignalError)?;
        let mut cpu_load = Self { links: Links::here()?, stops: signals.handle(), pauses: None };
        let own = Links::here()?;
        cpu_load.pauses = Some(thread::spawn(move || pause_when_stopped(&own, signals)));
        is_calm.store(false, Ordering::SeqCst);
        let links = &cpu_load.links;
        // The kernel's own packets about IPv6 addresses would circulate too, on any processor.
        let quiet = |name: &str| fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        for bridge in BRIDGES {
            links.add_bridge(bridge)?;
        }
        for ends in PORTS {
            links.add_veth(ends[0], ends[1])?;
        }
        for name in BRIDGES.into_iter().chain(PORTS.into_iter().flatten()) {
            // Without this file the kernel has no IPv6.
            let silenced = quiet(name).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            });
            silenced.map_err(|error| LabError::failed(format!("{name} cannot do without IPv6"), error))?;
        }
        for ends in PORTS {
            for (port, bridge) in ends.into_iter().zip(BRIDGES) {
                links.join(port, bridge)?;
            }
        }
        links.up(BRIDGES[1])?;
        links.take(BRIDGES[0], OWN, BITS)?;
        send_from_first()?;
        Ok(cpu_load)
    }
}

impl Drop for CpuLoad {
    fn drop(&mut self) {
        self.stops.close();
        if let Some(pauses) = self.pauses.take() {
            // The thread ends, or has panicked.
            let _ = pauses.join();
        }
        for name in BRIDGES.into_iter().chain(PORTS.map(|ends| ends[0])) {
            // Interfaces that were not made cannot be removed. All end with the namespace.
            let _ = self.links.remove(name);
        }
        if let Ok(is_calm) = &*IS_CALM {
            is_calm.store(true, Ordering::SeqCst);
        }
    }
}

/// At each signal, pauses the load, stops the process, and resumes the load after the process continues.
fn pause_when_stopped(links: &Links, mut signals: Signals) {
    for signal in &mut signals {
        // Fails before the bridge is made and after it is removed: then no load runs.
        let paused = links.down(BRIDGES[1]);
        // SIGTSTP has a known default.
        let _ = emulate_default_handler(signal);
        if paused.is_ok() {
            // An error has no receiver here. Without the load the problem does not hurt, and no cure is found.
            let _ = links.up(BRIDGES[1]).and_then(|()| send_from_first());
        }
    }
}

/// A broadcast circulates on the processor of its sender.
fn send_from_first() -> Result<(), LabError> {
    let broadcast = || -> io::Result<()> {
        let mut first = CpuSet::new();
        first.set(0)?;
        sched_setaffinity(Pid::from_raw(0), &first)?;
        let socket = UdpSocket::bind((OWN, 0))?;
        socket.set_broadcast(true)?;
        for _ in 0..BROADCASTS {
            socket.send_to(&[0], (ALL, DISCARD))?;
        }
        Ok(())
    };
    let sent = thread::spawn(broadcast).join().map_err(|_| LabError::broken("a thread panicked"))?;
    sent.map_err(|error| LabError::failed("the first processor cannot be kept busy", error))
}
