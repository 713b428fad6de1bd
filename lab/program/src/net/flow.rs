//! Traffic over the connections of a load: one thread for each connection.

mod cpus;
mod pace;
mod tcp;
mod udp;

use super::account::{Account, Counted};
use super::protocol::{Direction, Load, is_only_a_look};
use crate::report::Times;
use cpus::Limited;
pub(super) use cpus::choose as choose_cpus;
use hdrhistogram::Histogram;
use pace::Pace;
use sidecore_ipc::sys::clock;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const MAX_CALL_WAIT: Duration = Duration::from_millis(100);
/// Latencies, ns.
pub(super) type Latencies = Histogram<u64>;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Sends,
    Receives,
    Asks,
    Answers,
}

#[derive(Debug)]
pub(super) enum Connection {
    Tcp(TcpStream),
    /// With the token that opened the socket. Tokens may arrive late or repeatedly, and do not count as traffic.
    Udp(UdpSocket, u64),
}

#[derive(Debug)]
struct Shared {
    ended: AtomicBool,
    kept: AtomicBool,
}

/// Counts of one thread, in their own cache line.
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
    /// Single writer: the thread that owns the counters.
    fn add(&self, messages: u64, bytes: usize) {
        self.messages.store(self.messages.load(Ordering::Relaxed) + messages, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
    }

    fn read(&self) -> Counted {
        Counted { messages: self.messages.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

struct Worker {
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    size: usize,
    pace: Pace,
    latencies: Latencies,
}

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
    /// Starts the threads on those CPUs; none: on all that this process may use.
    pub(super) fn begin(
        load: &Load,
        side: Side,
        cpus: &[usize],
        connections: Vec<Connection>,
    ) -> std::io::Result<Self> {
        // New threads inherit the CPUs of their parent.
        let _limited = Limited::to(cpus)?;
        let shared = Arc::new(Shared { ended: AtomicBool::new(false), kept: AtomicBool::new(false) });
        let mut flow = Self { shared, counters: Vec::new(), threads: Vec::new() };
        let role = Role::of(side, load.direction);
        for connection in connections {
            let worker = flow.worker(load);
            match connection {
                Connection::Tcp(stream) => {
                    stream.set_read_timeout(Some(MAX_CALL_WAIT))?;
                    stream.set_write_timeout(Some(MAX_CALL_WAIT))?;
                    flow.spawn(move || tcp::run(worker, stream, role))?;
                }
                Connection::Udp(socket, token) => {
                    socket.set_read_timeout(Some(MAX_CALL_WAIT))?;
                    socket.set_write_timeout(Some(MAX_CALL_WAIT))?;
                    flow.spawn(move || udp::run(worker, &socket, role, token))?;
                }
            }
        }
        Ok(flow)
    }

    fn worker(&mut self, load: &Load) -> Worker {
        let counters = Arc::<Counters>::default();
        self.counters.push(counters.clone());
        Worker {
            shared: self.shared.clone(),
            counters,
            size: load.size,
            pace: Pace::new(load.rate),
            latencies: latencies(),
        }
    }

    fn spawn(&mut self, work: impl FnOnce() -> Latencies + Send + 'static) -> std::io::Result<()> {
        self.threads.push(thread::Builder::new().name("flow".to_owned()).spawn(work)?);
        Ok(())
    }

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

    pub(super) fn keep_latencies(&self, kept: bool) {
        self.shared.kept.store(kept, Ordering::Relaxed);
    }

    pub(super) fn has_traffic(&self) -> bool {
        let any = |counters: &Arc<Counters>| counters.sent.read().messages + counters.received.read().messages > 0;
        self.counters.iter().any(any)
    }

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

    fn answered(&mut self, began: u64) {
        if self.shared.kept.load(Ordering::Relaxed) {
            self.latencies.saturating_record(clock::now().saturating_sub(began).max(1));
        }
    }
}

/// Mean and percentiles, us. `None`: there are none.
pub(super) fn times(latencies: &Latencies) -> Option<Times> {
    let us = |ns: f64| ns / 1e3;
    let quantile = |part| us(latencies.value_at_quantile(part) as f64);
    let times = || Times { mean: us(latencies.mean()), p50: quantile(0.5), p99: quantile(0.99) };
    (!latencies.is_empty()).then(times)
}

fn latencies() -> Latencies {
    sidecore_report::statistics::histogram()
}
