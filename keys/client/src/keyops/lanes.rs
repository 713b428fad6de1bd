//! The lanes of this process: an operation takes one, runs its request, and returns it.
//!
//! So no lock is held during a request, and each waiting operation has a wake-up of its own. A forked child makes
//! lanes of its own; it closes its parent's idle lanes, and drops the connections of those in use. A lane has the
//! authority of the thread that made it: it is used under the same credentials only, and ends when they are found to
//! have changed.

mod parked;
mod sessions;

pub use parked::Parked;
pub use sessions::Sessions;

use crate::client::{Client, ConnectError, Error, Options};
use crate::control::RefusalCode;
use crate::keyops::credentials::Credentials;
use crate::keyops::failure::{Failure, FailureKind, Reason};
use crate::keyops::large_stack::on_large_stack;
use crate::keyops::outage::Outage;
use sidecore_ipc::sys::connections::{Connections, Listed};
use sidecore_ipc::sys::poll::wait_readable;

use parked::Thread;
use sidecore_ipc::sys::process::PerProcess;
use sidecore_ipc::sys::verified_fd::VerifiedFd;
use sidecore_ipc::sys::wake::Ringer;
use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// Limit of lanes of a process. Further operations wait for one.
const MAX_LANES: usize = 64;
/// One for each lane, and the same number for lanes being closed.
const MAX_CONNECTIONS: usize = 2 * MAX_LANES;
/// The smallest ring; one request is in flight on a lane.
const SLOTS: u32 = 2;
/// Arena of a lane, bytes. A larger request gets a lane of its own.
const ARENA_BYTES: u32 = 32 << 10;
const PAGE: usize = 4096;

static POOL: PerProcess<Pool> = PerProcess::empty();
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The pool of this process.
///
/// # Errors
/// The process has no memory or descriptors left.
pub fn pool() -> Result<&'static Pool, Failure> {
    POOL.get(|| Ok(Pool::default()), Pool::leave_to_parent).map_err(|error| {
        Failure::new(Reason::Internal, format!("cannot keep lanes: {error}; raise the limits on files and memory"))
    })
}

/// Closes the idle lanes of this process.
pub fn close_idle() {
    if let Some(pool) = POOL.peek() {
        pool.end_idle(|_| true);
    }
}

/// Whether the pool belongs to this process.
pub fn is_current(pool: &Pool) -> bool {
    POOL.peek().is_some_and(|current| current.number == pool.number)
}

/// A connection to the service with at most one request in flight.
pub struct Lane {
    /// Unique in this process.
    pub number: u64,
    _listed: Listed,
    /// The lane's client.
    pub client: Client,
    pub(crate) sessions: Sessions,
    /// Becomes readable when the service wakes the client.
    pub wake: Arc<VerifiedFd>,
    socket: PathBuf,
    /// The credentials that it was made under. `None`: they changed during the connect.
    credentials: Option<Credentials>,
    large: bool,
}

impl Lane {
    fn connect(
        options: &Options,
        bytes: usize,
        pool: &'static Pool,
        deadline: Instant,
    ) -> Result<Box<Self>, ConnectError> {
        let needed = room(bytes).next_multiple_of(PAGE);
        let large = needed > ARENA_BYTES as usize;
        let arena_bytes = u32::try_from(needed).unwrap_or(u32::MAX).max(ARENA_BYTES);
        let before = Credentials::present();
        let timeout = deadline.saturating_duration_since(Instant::now());
        let lane = Options { slots: SLOTS, arena_bytes, timeout, reclaimable: true, ..options.clone() };
        let connected = Client::connect(&lane);
        if connected.as_ref().map_or_else(ConnectError::is_starting, Client::took_a_start) {
            pool.outage.waited_for_a_start();
        }
        let mut client = connected?;
        let credentials = Some(Credentials::present()).filter(|after| *after == before);
        let listed = client.connection().and_then(|connection| pool.connections.list(connection));
        let listed = listed.ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        let wake = match client.wake_fd() {
            Ok(wake) => VerifiedFd::new(wake.try_clone_to_owned()?)?,
            Err(error) => return Err(ConnectError::Protocol(error.to_string())),
        };
        pool.max_request_bytes.store(client.max_request_bytes(), Ordering::Relaxed);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = options.socket.clone();
        let sessions = Sessions::default();
        let wake = Arc::new(wake);
        Ok(Box::new(Self { number, _listed: listed, client, sessions, wake, socket, credentials, large }))
    }

    pub(crate) fn is_of(&self, present: &Credentials) -> bool {
        self.credentials.as_ref() == Some(present)
    }

    pub(crate) fn is_of_caller(&self) -> bool {
        self.credentials.as_ref().is_some_and(Credentials::are_present)
    }
}

/// Idle lanes, and the operations that wait for one.
pub struct Pool {
    /// Distinguishes it from the pools of parent and children.
    pub number: u64,
    /// Limit of a request's input and of its output, bytes, as last stated by the service; at first any number.
    pub(crate) max_request_bytes: AtomicU32,
    pub(crate) outage: Outage,
    connections: Connections<MAX_CONNECTIONS>,
    state: Mutex<PoolState>,
    given: Condvar,
}

#[derive(Default)]
struct PoolState {
    idle: VecDeque<Box<Lane>>,
    made: usize,
    given: u64,
    /// Waiting threads: a wake-up is a system call, so it is made only if there are any.
    threads: usize,
    waiting: VecDeque<Weak<Ringer>>,
    /// The thread of each lane whose operation is paused.
    parked: Vec<Thread>,
}

/// Answer to a request for a lane.
pub enum Take {
    /// A lane.
    Lane(LaneGuard),
    /// No lane is free. Pass the number to [`Pool::wait`] or [`Pool::ring_when_free`].
    Full(u64),
}

impl Default for Pool {
    fn default() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            number,
            max_request_bytes: AtomicU32::new(u32::MAX),
            outage: Outage::default(),
            connections: Connections::empty(),
            state: Mutex::default(),
            given: Condvar::new(),
        }
    }
}

impl Pool {
    /// In a child: closes the parent's idle lanes, unless a thread held the lock at the fork, and drops all other
    /// connections.
    fn leave_to_parent(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.idle.clear();
        }
        self.connections.let_go();
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        // The state is consistent even after a panic: no update under the lock can stop halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_idle(&self, over: impl Fn(&Lane) -> bool) {
        let mut state = self.state();
        if !state.idle.iter().any(|lane| over(lane)) {
            return;
        }
        let idle = std::mem::take(&mut state.idle).into_iter();
        let (ended, kept): (VecDeque<_>, _) = idle.partition(|lane| over(lane));
        state.idle = kept;
        state.made -= ended.len();
        self.news(state);
        // The lanes are closed without the lock.
        drop(ended);
    }

    /// Takes a lane with room for a request of `bytes` bytes, `preferred` if it is idle. `under`: only lanes made
    /// under these credentials. A new lane is made before the deadline.
    ///
    /// # Errors
    /// No service, or a service that gives this process no lane at all.
    pub fn take(
        &'static self,
        options: &Options,
        preferred: Option<u64>,
        bytes: usize,
        under: Option<&Credentials>,
        deadline: Instant,
    ) -> Result<Take, Failure> {
        if let Some(present) = under {
            self.end_idle(|lane| !lane.is_of(present));
        }
        let mut state = self.state();
        let fits = |lane: &Lane| lane.socket == options.socket && under.is_none_or(|present| lane.is_of(present));
        if room(bytes) <= ARENA_BYTES as usize {
            let favourite = state.idle.iter().position(|lane| Some(lane.number) == preferred && fits(lane));
            if let Some(place) = favourite.or_else(|| state.idle.iter().rposition(|lane| fits(lane))) {
                return Ok(Take::Lane(LaneGuard { pool: self, lane: state.idle.remove(place) }));
            }
        }
        if state.made == MAX_LANES {
            // An idle lane, of another socket, makes room.
            if state.idle.is_empty() {
                return Ok(Take::Full(state.given));
            }
            state.idle.pop_front();
            state.made -= 1;
        }
        state.made += 1;
        let (given, others) = (state.given, state.made > 1);
        drop(state);
        match on_large_stack(|| Lane::connect(options, bytes, self, deadline)) {
            Ok(lane) => Ok(Take::Lane(LaneGuard { pool: self, lane: Some(lane) })),
            Err(error) => {
                self.ended();
                // A limit of the service or of this process: lanes in use will be returned.
                let limited = match &error {
                    ConnectError::Refused(refused) => refused.code != RefusalCode::OtherVersion,
                    error => matches!(error, ConnectError::System(_)),
                };
                if limited && others {
                    // The caller need not be woken by the end of its own attempt.
                    return Ok(Take::Full(given + 1));
                }
                Err(match error {
                    ConnectError::NoAnswer(_, waited) => Failure::late(options.timeout.max(waited)),
                    other => other.into(),
                })
            }
        }
    }

    /// Blocks the thread until a lane was returned after `seen`; `Ok(false)`: not before the deadline.
    ///
    /// # Errors
    /// This thread has paused operations that have lanes. They cannot return them while it is blocked.
    pub fn wait(&self, seen: u64, deadline: Instant) -> Result<bool, Failure> {
        let left = deadline.saturating_duration_since(Instant::now());
        let (mut state, this) = (self.state(), Thread::this());
        if state.given == seen && state.parked.contains(&this) {
            return Err(Failure::new(
                Reason::Limit,
                "all lanes of this process are in use, some by jobs that this thread has paused, and this operation \
                 cannot pause: raise the limits on files (ulimit -n, LimitNOFILE=), or give the process fewer connections",
            ));
        }
        state.threads += 1;
        let waited = self.given.wait_timeout_while(state, left, |state| state.given == seen);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.threads -= 1;
        Ok(state.given != seen)
    }

    /// Rings the bell when a lane is returned after `seen`, immediately if that has happened. A bell already in the
    /// queue keeps its place.
    pub fn ring_when_free(&self, seen: u64, bell: &Arc<Ringer>) {
        let mut state = self.state();
        if state.given != seen {
            bell.ring();
        } else if !state.waiting.iter().any(|other| other.as_ptr() == Arc::as_ptr(bell)) {
            state.waiting.push_back(Arc::downgrade(bell));
        }
    }

    /// Removes the bell: its operation has a lane or has stopped waiting.
    pub fn forget(&self, bell: &Arc<Ringer>) {
        self.state().waiting.retain(|other| other.as_ptr() != Arc::as_ptr(bell));
    }

    /// Wakes the next waiting operation, after one did not take the lane it was offered.
    pub fn pass_on(&self) {
        self.news(self.state());
    }

    fn give_back(&self, lane: Box<Lane>) {
        let mut state = self.state();
        if lane.large {
            state.made -= 1;
        } else {
            state.idle.push_back(lane);
        }
        self.news(state);
    }

    fn ended(&self) {
        let mut state = self.state();
        state.made -= 1;
        self.news(state);
    }

    fn news(&self, mut state: MutexGuard<'_, PoolState>) {
        state.given += 1;
        while let Some(bell) = state.waiting.pop_front() {
            if let Some(bell) = bell.upgrade() {
                bell.ring();
                break;
            }
        }
        let threads_wait = state.threads > 0;
        drop(state);
        if threads_wait {
            self.given.notify_one();
        }
    }
}

/// A lane in use. If it is dropped without being returned it ends, because a request may still be in flight on it.
pub struct LaneGuard {
    pool: &'static Pool,
    lane: Option<Box<Lane>>,
}

impl LaneGuard {
    /// Returns the lane to the pool after its request.
    pub fn give_back(mut self) {
        if let Some(lane) = self.lane.take() {
            self.pool.give_back(lane);
        }
    }

    /// Returns the lane of an operation that will never continue, if its answer is there; else ends it.
    fn abandon(mut self) {
        if self.client.recover() {
            self.give_back();
        }
    }

    /// Ends this lane and all idle ones, which belong to the same service that is gone.
    pub(crate) fn gone(self, why: String) -> FailureKind {
        let pool = self.pool;
        // A service that is stopped keeps its connections, and an answer that is late closes this one here.
        if self.client.connection().is_some_and(|socket| wait_readable(socket, Some(0)).unwrap_or(false)) {
            pool.outage.service_ended();
        }
        drop(self);
        pool.end_idle(|_| true);
        FailureKind::Stale(why)
    }

    /// Converts an error for the operation. The lane ends, because a request may be in flight on it.
    pub fn broken(self, error: &Error) -> FailureKind {
        if is_gone(error) {
            return self.gone(error.to_string());
        }
        FailureKind::Failure(Failure::new(Reason::Service, error.to_string()))
    }

    /// The pool of the lane.
    pub fn pool(&self) -> &'static Pool {
        self.pool
    }

    /// Whether it belongs to the process that forked this one.
    pub fn is_parents(&self) -> bool {
        self.client.forked()
    }
}

impl Deref for LaneGuard {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self.lane.as_ref().expect("a lane in use")
    }
}

impl DerefMut for LaneGuard {
    fn deref_mut(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("a lane in use")
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        let Some(lane) = self.lane.take() else { return };
        // In a child, a thread that does not exist may hold the lock, and the counts are the parent's.
        if !lane.client.forked() {
            self.pool.ended();
        }
        drop(lane);
    }
}

/// Arena bytes for two buffers of `bytes` bytes in all: buffers begin at cache lines, and the allocator's sizes are up
/// to an eighth apart.
fn room(bytes: usize) -> usize {
    bytes + bytes / 4 + 256
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Gone(_) | Error::NoAnswer(_) | Error::System(_) | Error::Connect(_) | Error::ForeignBuffer)
}
