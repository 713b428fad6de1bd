//! Closing and freeing of ended connections, on threads that no client waits for.
//!
//! A client controls how long it takes to close its objects: the last reference to a TCP socket may linger for
//! seconds, and unmapping a large lane takes a hundred milliseconds. So ended sockets and lanes are closed here, each
//! user's by one thread at a time. A user with a blocked thread waits alone, unless no thread is left: then all wait
//! for one. Objects that are not closed yet still count against their user's limits. A thread ends after a while
//! without work: a user that comes and goes starts no thread each time.

use super::command::{Event, LaneKey};
use crate::shm::LaneMemory;
use crate::sys::trim;
use sidecore_core::time::Nanos;
use sidecore_daemon::sys::wake;
use sidecore_daemon::tenants::Tenant;
use sidecore_ipc::sys::clock;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Most simultaneous threads; further users wait for one to end.
const MAX_THREADS: usize = 16;
/// Interval of checks whether a device has dropped a lane's memory.
const RETRY: Duration = Duration::from_millis(5);
/// Time without work after which a thread ends.
const LINGER: Duration = Duration::from_millis(250);
/// Memory of ended sessions that is returned to the system in one step, bytes.
const TRIM_BYTES: u64 = 4 << 20;
/// Least time between two returns, ns: other threads that allocate wait for each.
const TRIM_EVERY: Nanos = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct ClosedConnection {
    /// `None`: the objects are not counted.
    pub(super) key: Option<LaneKey>,
    pub(super) session_bytes: u64,
    /// The memory of its lane. This thread waits until it has the last reference, and frees it.
    pub(super) memory: Option<Arc<LaneMemory>>,
    pub(super) rest: Vec<Box<dyn Any + Send>>,
}

#[derive(Debug, Default)]
struct Queue {
    closed: VecDeque<ClosedConnection>,
    served: bool,
}

#[derive(Debug, Default)]
struct ReaperState {
    users: HashMap<Tenant, Queue>,
    threads: usize,
    idle: usize,
    /// Bytes of sessions freed since the last return of memory, and the time of that.
    freed_bytes: u64,
    trimmed_at: Nanos,
    trimming: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Reaper {
    state: Arc<Mutex<ReaperState>>,
    more: Arc<Condvar>,
    tell: Sender<Event>,
    listener: Arc<OwnedFd>,
}

impl Reaper {
    pub(super) fn new(tell: Sender<Event>, listener: Arc<OwnedFd>) -> Self {
        Self { state: Arc::default(), more: Arc::default(), tell, listener }
    }

    pub(super) fn close(&self, user: Tenant, closed: ClosedConnection) {
        self.state().users.entry(user).or_default().closed.push_back(closed);
    }

    pub(super) fn start_threads(&self) {
        loop {
            let user = {
                let mut state = self.state();
                let waiting = state.users.values().filter(|queue| !queue.served).count();
                (0..waiting.min(state.idle)).for_each(|_| self.more.notify_one());
                if waiting <= state.idle || state.threads >= MAX_THREADS {
                    return;
                }
                let Some(user) = state.next_user() else { return };
                state.threads += 1;
                user
            };
            let reaper = self.clone();
            let work = move || reaper.work(user);
            if thread::Builder::new().name("sidecore-closer".to_owned()).spawn(work).is_err() {
                let mut state = self.state();
                state.threads -= 1;
                if let Some(queue) = state.users.get_mut(&user) {
                    queue.served = false;
                }
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ReaperState> {
        // State after a panic is consistent: no change is left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, first: Tenant) {
        let mut user = Some(first);
        while let Some(current) = user {
            self.serve(current);
            user = self.state().next_user();
            if user.is_none() {
                self.trim();
                user = self.wait_for_user();
            }
        }
    }

    fn wait_for_user(&self) -> Option<Tenant> {
        let mut state = self.state();
        state.idle += 1;
        let nothing = |state: &mut ReaperState| state.users.values().all(|queue| queue.served);
        let waited = self.more.wait_timeout_while(state, LINGER, nothing);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.idle -= 1;
        let user = state.next_user();
        state.threads -= usize::from(user.is_none());
        user
    }

    fn serve(&self, user: Tenant) {
        loop {
            let next = self.state().take(user);
            let Some(mut closed) = next else { return };
            closed.rest.clear();
            if let Some(Err(memory)) = closed.memory.take().map(Arc::try_unwrap) {
                // A device still works on it.
                closed.memory = Some(memory);
                self.close(user, closed);
                thread::sleep(RETRY);
                continue;
            }
            if let Some(key) = closed.key {
                self.state().freed_bytes += closed.session_bytes;
                // Without a control thread the service is ending.
                if self.tell.send(Event::Freed(key)).is_ok() {
                    wake::ring(&*self.listener);
                }
            }
        }
    }

    /// Returns memory to the system once much of it was freed and the interval is over; the allocator would keep it.
    fn trim(&self) {
        let due = {
            let mut state = self.state();
            if state.trimming || state.freed_bytes < TRIM_BYTES {
                return;
            }
            state.trimming = true;
            state.trimmed_at + TRIM_EVERY
        };
        thread::sleep(Duration::from_nanos(due.saturating_sub(clock::now())));
        {
            let mut state = self.state();
            (state.freed_bytes, state.trimmed_at, state.trimming) = (0, clock::now(), false);
        }
        trim();
    }
}

impl ReaperState {
    fn next_user(&mut self) -> Option<Tenant> {
        let (user, queue) = self.users.iter_mut().find(|(_, queue)| !queue.served)?;
        queue.served = true;
        Some(*user)
    }

    fn take(&mut self, user: Tenant) -> Option<ClosedConnection> {
        let closed = self.users.get_mut(&user).and_then(|queue| queue.closed.pop_front());
        if closed.is_none() {
            self.users.remove(&user);
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_daemon::tenants::Subordinates;
    use std::collections::HashSet;
    use std::sync::mpsc::{self, Receiver};

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[derive(Debug)]
    struct Slow(Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    fn user(uid: u32) -> Tenant {
        Subordinates::default().tenant(uid)
    }

    fn reaper() -> (Reaper, Receiver<Event>) {
        let (tell, events) = mpsc::channel();
        (Reaper::new(tell, Arc::new(wake::event().unwrap())), events)
    }

    fn closed(key: u64, rest: Vec<Box<dyn Any + Send>>) -> ClosedConnection {
        ClosedConnection { key: Some(key), rest, ..ClosedConnection::default() }
    }

    fn freed(events: &Receiver<Event>) -> u64 {
        match events.recv_timeout(TIMEOUT).unwrap() {
            Event::Freed(key) => key,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_closes_slowly_keeps_itself_waiting_and_nobody_else() {
        let (reaper, events) = reaper();
        let (let_go, held) = mpsc::channel();
        reaper.close(user(1), closed(10, vec![Box::new(Slow(held))]));
        reaper.close(user(1), closed(11, vec![]));
        for key in 20..30 {
            reaper.close(user(2), closed(key, vec![]));
        }
        reaper.start_threads();
        let others: Vec<u64> = (20..30).map(|_| freed(&events)).collect();
        assert_eq!(others, (20..30).collect::<Vec<_>>());
        drop(let_go);
        assert_eq!([freed(&events), freed(&events)], [10, 11]);
    }

    #[test]
    fn more_slow_users_than_threads_are_closed_in_the_end() {
        let (reaper, events) = reaper();
        let mut holds = Vec::new();
        for user in 0..MAX_THREADS as u32 + 4 {
            let (let_go, held) = mpsc::channel();
            holds.push(let_go);
            reaper.close(self::user(user), closed(user.into(), vec![Box::new(Slow(held))]));
        }
        reaper.start_threads();
        assert_eq!(reaper.state().threads, MAX_THREADS);
        drop(holds);
        let mut all: Vec<u64> = (0..MAX_THREADS + 4).map(|_| freed(&events)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..MAX_THREADS as u64 + 4).collect::<Vec<_>>());
    }

    #[derive(Debug)]
    struct Tells(Sender<thread::ThreadId>);

    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    #[test]
    fn users_who_come_and_go_start_no_thread_each_time() {
        const TIMES: u32 = 20;
        let (reaper, events) = reaper();
        let (tell, threads) = mpsc::channel();
        for user in 0..TIMES {
            reaper.close(self::user(user), closed(user.into(), vec![Box::new(Tells(tell.clone()))]));
            reaper.start_threads();
            assert_eq!(freed(&events), u64::from(user));
            // It waits, or has ended.
            let is_at_work = |state: &ReaperState| state.idle < state.threads;
            while is_at_work(&reaper.state()) {
                thread::yield_now();
            }
            assert!(reaper.state().threads <= 1);
        }
        let threads: HashSet<_> = threads.try_iter().collect();
        assert!(threads.len() < TIMES as usize, "{threads:?}");
    }

    #[test]
    fn memory_that_a_device_still_has_is_waited_for() {
        let (reaper, events) = reaper();
        let layout = sidecore_core::layout::Layout::new(8, 8192).unwrap();
        let memory = Arc::new(LaneMemory::create(layout).unwrap().0);
        let device = memory.clone();
        reaper.close(user(1), ClosedConnection { memory: Some(memory), ..closed(1, vec![]) });
        reaper.close(user(1), closed(2, vec![]));
        reaper.start_threads();
        assert_eq!(freed(&events), 2, "others of the same user are not waited with");
        drop(device);
        assert_eq!(freed(&events), 1);
    }
}
