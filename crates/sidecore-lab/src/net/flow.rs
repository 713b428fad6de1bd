//! Traffic over the connections of a load: a thread for each, as programs have it.

mod cpus;
mod pace;
mod tcp;
mod udp;

use super::account::{Account, Counted};
use super::protocol::{Direction, Load};
use cpus::Limited;
pub(super) use cpus::choose as choose_cpus;
use hdrhistogram::Histogram;
use pace::Pace;
use sidecore::sys::clock;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a call waits before it looks whether the load has ended.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of the buffer of whoever only receives.
const RECEIVE_BUFFER: usize = 128 * 1024;

/// Latencies, ns.
pub(super) type Latencies = Histogram<u64>;

/// Which of the two ends this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Near,
    Far,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// What an end does on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Sends,
    Receives,
    Asks,
    Answers,
}

/// A connection of the load.
#[derive(Debug)]
pub(super) enum Connection {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// What all threads of a flow look at.
#[derive(Debug)]
struct Shared {
    ended: AtomicBool,
    /// Latencies are kept from now on.
    kept: AtomicBool,
}

/// What one thread counts, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    sent: Pair,
    received: Pair,
}

#[derive(Debug, Default)]
struct Pair {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Pair {
    /// Only its own thread counts there.
    fn add(&self, messages: u64, bytes: usize) {
        self.messages.store(self.messages.load(Ordering::Relaxed) + messages, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
    }

    fn read(&self) -> Counted {
        Counted { messages: self.messages.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// One thread of a flow.
struct Worker {
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    size: usize,
    pace: Pace,
    latencies: Latencies,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Flow {
    shared: Arc<Shared>,
    counters: Vec<Arc<Counters>>,
    threads: Vec<JoinHandle<Latencies>>,
}

impl Role {
    fn of(side: Side, direction: Direction) -> Self {
        match (side, direction) {
            (Side::Near, Direction::Send) | (Side::Far, Direction::Receive) => Self::Sends,
            (Side::Far, Direction::Send) | (Side::Near, Direction::Receive) => Self::Receives,
            (Side::Near, Direction::RoundTrip) => Self::Asks,
            (Side::Far, Direction::RoundTrip) => Self::Answers,
        }
    }
}

impl Flow {
    /// Begins, on those CPUs; none: on all that this process may use.
    ///
    /// # Errors
    /// No thread is left, a CPU is gone, or a socket takes no time limit.
    pub(super) fn begin(
        load: &Load,
        side: Side,
        cpus: &[usize],
        connections: Vec<Connection>,
    ) -> std::io::Result<Self> {
        // Threads are where the one is that starts them.
        let _limited = Limited::to(cpus)?;
        let shared = Arc::new(Shared { ended: AtomicBool::new(false), kept: AtomicBool::new(false) });
        let mut flow = Self { shared, counters: Vec::new(), threads: Vec::new() };
        let role = Role::of(side, load.direction);
        for connection in connections {
            let counters = Arc::<Counters>::default();
            flow.counters.push(counters.clone());
            let worker = Worker {
                shared: flow.shared.clone(),
                counters,
                size: load.size,
                pace: Pace::new(load.rate),
                latencies: latencies(),
            };
            let thread = thread::Builder::new().name("flow".to_owned());
            flow.threads.push(match connection {
                Connection::Tcp(stream) => {
                    stream.set_read_timeout(Some(LOOK))?;
                    stream.set_write_timeout(Some(LOOK))?;
                    thread.spawn(move || tcp::run(worker, stream, role))?
                }
                Connection::Udp(socket) => {
                    socket.set_read_timeout(Some(LOOK))?;
                    socket.set_write_timeout(Some(LOOK))?;
                    thread.spawn(move || udp::run(worker, &socket, role))?
                }
            });
        }
        Ok(flow)
    }

    /// What was counted by now, also by the kernel.
    pub(super) fn count(&self) -> Account {
        let mut account = Account::of_kernel();
        account.at_ns = clock::now();
        account.process_ns = clock::process_cpu();
        for counters in &self.counters {
            account.sent.add(counters.sent.read());
            account.received.add(counters.received.read());
        }
        account
    }

    /// Latencies count from now on, or do not.
    pub(super) fn keep_latencies(&self, kept: bool) {
        self.shared.kept.store(kept, Ordering::Relaxed);
    }

    /// Whether a message was sent or received.
    pub(super) fn has_traffic(&self) -> bool {
        let any = |counters: &Arc<Counters>| counters.sent.read().messages + counters.received.read().messages > 0;
        self.counters.iter().any(any)
    }

    /// Ends it. The latencies of all connections.
    pub(super) fn end(mut self) -> Latencies {
        self.stop()
    }

    fn stop(&mut self) -> Latencies {
        self.shared.ended.store(true, Ordering::Relaxed);
        let mut all = latencies();
        for thread in self.threads.drain(..) {
            if let Ok(own) = thread.join() {
                // Both have the same bounds.
                let _ = all.add(own);
            }
        }
        all
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Worker {
    fn is_over(&self) -> bool {
        self.shared.ended.load(Ordering::Relaxed)
    }

    /// A round trip that began then has ended.
    fn answered(&mut self, began: u64) {
        if self.shared.kept.load(Ordering::Relaxed) {
            self.latencies.saturating_record(clock::now().saturating_sub(began).max(1));
        }
    }
}

/// Whether a call only came back so that its thread can look around.
fn is_only_a_look(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Up to a minute.
fn latencies() -> Latencies {
    crate::bench::histogram()
}
