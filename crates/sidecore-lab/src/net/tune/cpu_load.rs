//! Work without end for the first processor, of the kind that packets have to wait behind: other packets.
//!
//! Two bridges are joined by two links, so that a broadcast goes round for ever, as in a network whose cables were put in
//! wrongly. Each hop is a soft interrupt of the processor that sent it first, and shares that processor's queue with all other
//! packets that are to be taken in there. A program would give way to them. It ends with its interfaces, and these with
//! the network namespace. It also pauses while somebody has stopped the process from the keyboard (`SIGTSTP`): it would go on
//! for as long as that lasts. Nobody is told of a `SIGSTOP`.

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

/// The bridges, and of each link the end at either.
const BRIDGES: [&str; 2] = ["loop", "pool"];
const PORTS: [[&str; 2]; 2] = [["loop1", "pool1"], ["loop2", "pool2"]];
/// Of the network for measurements, beside the addresses of the path.
const OWN: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
const ALL: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 255);
const BITS: u8 = 24;
/// A port at which nobody listens.
const DISCARD: u16 = 9;
/// Broadcasts that go round, each both ways: with room left in a processor's queue, which takes 1000.
const BROADCASTS: usize = 150;

/// Whether there is no storm: being stopped is as it always is then. A handler cannot be taken away again, so it looks here.
static IS_CALM: LazyLock<Result<Arc<AtomicBool>, String>> = LazyLock::new(|| {
    let is_calm = Arc::new(AtomicBool::new(true));
    let registered = flag::register_conditional_default(SIGTSTP, is_calm.clone());
    registered.map(|_| is_calm).map_err(|error| format!("cannot handle signals: {error}"))
});

/// It lasts until it is dropped. A process has one at a time.
pub(super) struct CpuLoad {
    links: Links,
    /// Ends the thread that pauses it.
    stops: Handle,
    pauses: Option<JoinHandle<()>>,
}

impl CpuLoad {
    /// In the namespace that this thread is in.
    ///
    /// # Errors
    /// The kernel has no bridges, or this process may not run on the first processor.
    pub(super) fn begin() -> Result<Self, String> {
        let is_calm = IS_CALM.clone()?;
        let signals = Signals::new([SIGTSTP]).map_err(|error| format!("cannot handle signals: {error}"))?;
        let mut cpu_load = Self { links: Links::here()?, stops: signals.handle(), pauses: None };
        let own = Links::here()?;
        cpu_load.pauses = Some(thread::spawn(move || pause_when_stopped(&own, signals)));
        is_calm.store(false, Ordering::SeqCst);
        let links = &cpu_load.links;
        // What the kernel says of its own accord about addresses would go round as well, on any processor.
        let quiet = |name: &str| fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        for bridge in BRIDGES {
            links.add_bridge(bridge)?;
        }
        for ends in PORTS {
            links.add_veth(ends[0], ends[1])?;
        }
        for name in BRIDGES.into_iter().chain(PORTS.into_iter().flatten()) {
            // Without such a file there is no IPv6 to be silenced.
            let silenced = quiet(name).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            });
            silenced.map_err(|error| format!("{name} cannot do without IPv6: {error}"))?;
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
            // It ends, or has panicked.
            let _ = pauses.join();
        }
        for name in BRIDGES.into_iter().chain(PORTS.map(|ends| ends[0])) {
            // One that was never made cannot be removed; all are gone with the namespace.
            let _ = self.links.remove(name);
        }
        if let Ok(is_calm) = &*IS_CALM {
            is_calm.store(true, Ordering::SeqCst);
        }
    }
}

/// Until the storm is over: at each signal it is calm, then the process is stopped, and once that goes on so does the storm.
fn pause_when_stopped(links: &Links, mut signals: Signals) {
    for signal in &mut signals {
        // Where there is none yet, or none any more, there is nothing to pause.
        let paused = links.down(BRIDGES[1]);
        // It is a signal whose default is known.
        let _ = emulate_default_handler(signal);
        if paused.is_ok() {
            // Nobody is here to be told. Without it the problem does not hurt, and no cure is found.
            let _ = links.up(BRIDGES[1]).and_then(|()| send_from_first());
        }
    }
}

/// Who sends a broadcast decides on which processor it goes round.
fn send_from_first() -> Result<(), String> {
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
    let sent = thread::spawn(broadcast).join().map_err(|_| "a thread panicked".to_owned())?;
    sent.map_err(|error| format!("the first processor cannot be kept busy: {error}"))
}
