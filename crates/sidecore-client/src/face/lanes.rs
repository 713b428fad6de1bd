//! The lanes of this process: an operation takes one, has its request done, and gives it back.
//!
//! So no lock is held while a request is under way, and each operation that waits has a wake-up of its own. A forked child
//! makes lanes of its own; of its parent's it closes those that were idle, and lets go of the connections of those that
//! were in use. A lane has the authority of whoever made it: it is used under the same credentials only, and ends when they
//! are found to have changed.

mod sessions;

use crate::client::{Client, ConnectError, Error, Options};
use crate::face::absence::Absence;
use crate::face::aside::aside;
use crate::face::credentials::Credentials;
use crate::face::failure::{Failure, Reason, Trouble};
use crate::sys::connections::{Connections, Listed};
use crate::sys::own::Own;
use crate::sys::process::PerProcess;
use crate::sys::wake::Ringer;
use sessions::Sessions;
use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// Most lanes of a process. More operations at a time wait for one.
const MAX_LANES: usize = 64;
/// One for each lane, and the same number for lanes in closing.
const MAX_CONNECTIONS: usize = 2 * MAX_LANES;
/// One request is in flight on a lane; this is the least that a lane has.
const SLOTS: u32 = 2;
/// Bytes of a lane's arena. Larger requests get a lane made for them.
const ARENA_BYTES: u32 = 32 << 10;
const PAGE: usize = 4096;

static POOL: PerProcess<Pool> = PerProcess::new();
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The pool of this process.
///
/// # Errors
/// No memory or descriptors are left.
pub fn pool() -> Result<&'static Pool, Failure> {
    POOL.get(|| Ok(Pool::default()), Pool::leave_to_parent).map_err(|error| {
        Failure::new(Reason::Internal, format!("cannot keep lanes: {error}; raise the limits on files and memory"))
    })
}

/// Closes the lanes that are idle, if this process has some.
pub fn close_idle() {
    if let Some(pool) = POOL.peek() {
        pool.end_idle(|_| true);
    }
}

/// Whether the pool is of this process.
pub fn is_current(pool: &Pool) -> bool {
    POOL.peek().is_some_and(|current| current.number == pool.number)
}

/// A connection to the service with one request in flight at most.
pub struct Lane {
    /// No other lane of this process has it.
    pub number: u64,
    /// Before the client, which closes the socket.
    _listed: Listed,
    /// What it is used by.
    pub client: Client,
    /// The sessions that are open on it.
    pub(crate) sessions: Sessions,
    /// Becomes readable when the service wakes the client.
    pub wake: Arc<Own>,
    socket: PathBuf,
    /// Those that it was made under. `None`: they changed meanwhile.
    credentials: Option<Credentials>,
    /// Made for one large request.
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
        let patience = deadline.saturating_duration_since(Instant::now());
        let lane = Options { slots: SLOTS, arena_bytes, patience, reclaimable: true, ..options.clone() };
        let connected = Client::connect(&lane);
        if connected.as_ref().map_or_else(ConnectError::is_starting, Client::took_a_start) {
            pool.absence.waited_for_a_start();
        }
        let mut client = connected?;
        let credentials = Some(Credentials::present()).filter(|after| *after == before);
        let listed = client.connection().and_then(|connection| pool.connections.list(connection));
        let listed = listed.ok_or(io::Error::from(io::ErrorKind::OutOfMemory))?;
        let wake = match client.wake_fd() {
            Ok(wake) => Own::new(wake.try_clone_to_owned()?)?,
            Err(error) => return Err(ConnectError::Protocol(error.to_string())),
        };
        pool.max_request_bytes.store(client.max_request_bytes(), Ordering::Relaxed);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = options.socket.clone();
        let sessions = Sessions::default();
        let wake = Arc::new(wake);
        Ok(Box::new(Self { number, _listed: listed, client, sessions, wake, socket, credentials, large }))
    }

    /// Whether it was made under these credentials.
    pub(crate) fn is_of(&self, present: &Credentials) -> bool {
        self.credentials.as_ref() == Some(present)
    }

    /// Whether the calling thread has the user and group that it was made under.
    pub(crate) fn is_of_caller(&self) -> bool {
        self.credentials.as_ref().is_some_and(Credentials::are_present)
    }
}

/// Lanes that are idle, and who waits for one.
pub struct Pool {
    /// Tells it from the pools of parent and children.
    pub number: u64,
    /// Most bytes of a request's input and of its output, as the service said last; before that, any number.
    pub(crate) max_request_bytes: AtomicU32,
    /// Since when no service answers.
    pub(crate) absence: Absence,
    connections: Connections<MAX_CONNECTIONS>,
    state: Mutex<State>,
    given: Condvar,
}

#[derive(Default)]
struct State {
    idle: VecDeque<Box<Lane>>,
    /// Lanes that there are, idle or not.
    made: usize,
    /// How often a lane came back or ended.
    given: u64,
    /// Threads that wait: without any, nobody is woken, which would be a system call.
    threads: usize,
    /// Who waits by a bell, the longest first.
    waiting: VecDeque<Weak<Ringer>>,
}

/// What became of asking for a lane.
pub enum Take {
    /// Here it is.
    Lane(Taken),
    /// None is free. The number goes into [`Pool::wait`] or [`Pool::ring_when_free`].
    Full(u64),
}

impl Default for Pool {
    fn default() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            number,
            max_request_bytes: AtomicU32::new(u32::MAX),
            absence: Absence::default(),
            connections: Connections::new(),
            state: Mutex::default(),
            given: Condvar::new(),
        }
    }
}

impl Pool {
    /// In a child: closes what the parent had idle, if no thread was just at it, and lets go of all other connections.
    fn leave_to_parent(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.idle.clear();
        }
        self.connections.let_go();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panicking thread left is whole: nothing in here is done by halves.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends idle lanes that are of no use any more.
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
        // Closed without the lock.
        drop(ended);
    }

    /// A lane, `preferred` if it is idle, with room for a request of so many bytes; `under`: made under these credentials.
    /// One that has to be made is made by the deadline.
    ///
    /// # Errors
    /// No service, or one that gives this process no lane at all.
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
                return Ok(Take::Lane(Taken { pool: self, lane: state.idle.remove(place) }));
            }
        }
        if state.made == MAX_LANES {
            // One of another socket makes room.
            if state.idle.is_empty() {
                return Ok(Take::Full(state.given));
            }
            state.idle.pop_front();
            state.made -= 1;
        }
        state.made += 1;
        let (given, others) = (state.given, state.made > 1);
        drop(state);
        match aside(|| Lane::connect(options, bytes, self, deadline)) {
            Ok(lane) => Ok(Take::Lane(Taken { pool: self, lane: Some(lane) })),
            Err(error) => {
                self.ended();
                // Limits of the service or of this process: those who have a lane give it back.
                let limited = matches!(error, ConnectError::Refused(_) | ConnectError::System(_));
                if limited && others {
                    // Its own end is no news to wait for.
                    return Ok(Take::Full(given + 1));
                }
                Err(match error {
                    ConnectError::NoAnswer(..) => Failure::late(options.patience),
                    other => other.into(),
                })
            }
        }
    }

    /// Waits until a lane came back since `seen`; `false`: not until the deadline.
    pub fn wait(&self, seen: u64, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut state = self.state();
        state.threads += 1;
        let waited = self.given.wait_timeout_while(state, left, |state| state.given == seen);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.threads -= 1;
        state.given != seen
    }

    /// Rings the bell when a lane came back since `seen`, perhaps now. It keeps its place in the queue if it has one.
    pub fn ring_when_free(&self, seen: u64, bell: &Arc<Ringer>) {
        let mut state = self.state();
        if state.given != seen {
            bell.ring();
        } else if !state.waiting.iter().any(|other| other.as_ptr() == Arc::as_ptr(bell)) {
            state.waiting.push_back(Arc::downgrade(bell));
        }
    }

    /// The bell is not to be rung any more: who waits by it has a lane, or gave up.
    pub fn forget(&self, bell: &Arc<Ringer>) {
        self.state().waiting.retain(|other| other.as_ptr() != Arc::as_ptr(bell));
    }

    /// Somebody did not want the lane that was offered: another may.
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

    fn news(&self, mut state: MutexGuard<'_, State>) {
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

/// A lane in use. Dropped without being given back, it ends: something may still be in flight on it.
pub struct Taken {
    pool: &'static Pool,
    /// There until given back.
    lane: Option<Box<Lane>>,
}

impl Taken {
    /// The request is done: the next may have the lane.
    pub fn give_back(mut self) {
        if let Some(lane) = self.lane.take() {
            self.pool.give_back(lane);
        }
    }

    /// The lane ended; those that are idle are no better.
    pub(crate) fn gone(self, why: String) -> Trouble {
        let pool = self.pool;
        drop(self);
        pool.end_idle(|_| true);
        Trouble::Stale(why)
    }

    /// What an error means for the operation. The lane ends, for something may be in flight on it.
    pub fn broken(self, error: &Error) -> Trouble {
        if is_gone(error) {
            return self.gone(error.to_string());
        }
        Trouble::Failure(Failure::new(Reason::Service, error.to_string()))
    }

    /// The pool that it was taken from.
    pub fn pool(&self) -> &'static Pool {
        self.pool
    }

    /// Whether it is of the process that forked this one.
    pub fn is_parents(&self) -> bool {
        self.client.forked()
    }
}

impl Deref for Taken {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self.lane.as_ref().expect("a lane in use")
    }
}

impl DerefMut for Taken {
    fn deref_mut(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("a lane in use")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(lane) = self.lane.take() else { return };
        // In a child the lock may be held by a thread that is not here, and the numbers are the parent's.
        if !lane.client.forked() {
            self.pool.ended();
        }
        drop(lane);
    }
}

/// Bytes of arena for two buffers of so many bytes together: they begin at cache lines, and the allocator's sizes are up
/// to an eighth apart.
fn room(bytes: usize) -> usize {
    bytes + bytes / 4 + 256
}

/// Whether the lane is of no use any more, as opposed to the request.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Gone(_) | Error::NoAnswer(_) | Error::System(_) | Error::Connect(_) | Error::ForeignBuffer)
}
