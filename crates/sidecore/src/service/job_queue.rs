//! Slow jobs, on four threads. The first parses clients' keys: a private RSA key takes milliseconds, and the client
//! chooses how many it sends. The second makes keys for programs, which takes seconds. The third makes the service's
//! own keys. The fourth seals the keys at rest again, which cannot be changed meanwhile.
//!
//! Each connection has one job at most: nothing more is read from it until that is answered. Users take turns.

use super::command::LaneKey;
use crate::sys::clock;
use sidecore_core::policy::fair_queue::FairQueue;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

type Work<T> = Box<dyn FnOnce() -> T + Send>;

struct QueueState<T> {
    jobs: FairQueue<u32, (LaneKey, Work<T>)>,
    /// A job is running, outside the queue.
    at_work: bool,
    stop: bool,
}

struct Shared<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

/// The control thread's end. When it is dropped, the thread ends after its present job.
pub(super) struct JobQueue<T>(Arc<Shared<T>>);

impl<T: 'static> JobQueue<T> {
    /// Starts the thread of this name, which passes each job's connection and result to `tell`.
    ///
    /// # Errors
    /// The system makes no thread.
    pub(super) fn start(name: &str, tell: impl Fn(LaneKey, T) + Send + 'static) -> io::Result<Self> {
        let state = Mutex::new(QueueState { jobs: FairQueue::default(), at_work: false, stop: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let theirs = shared.clone();
        let work = move || {
            while let Some((user, (key, work))) = theirs.next() {
                let start = clock::now();
                let made = work();
                theirs.state().jobs.charge(&user, clock::now() - start);
                tell(key, made);
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self(shared))
    }

    pub(super) fn push(&self, user: u32, key: LaneKey, work: impl FnOnce() -> T + Send + 'static) {
        self.0.state().jobs.push(&user, (key, Box::new(work)));
        self.0.changed.notify_one();
    }

    pub(super) fn len(&self) -> usize {
        let state = self.0.state();
        state.jobs.len() + usize::from(state.at_work)
    }

    /// The connection is gone: forgets its job.
    pub(super) fn forget(&self, user: u32, key: LaneKey) {
        let forgotten = self.0.state().jobs.withdraw(&user, |(of, _)| *of == key);
        // Keys are wiped outside the lock.
        drop(forgotten);
    }
}

impl<T> Drop for JobQueue<T> {
    fn drop(&mut self) {
        self.0.state().stop = true;
        self.0.changed.notify_one();
    }
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, QueueState<T>> {
        // State after a panic is consistent: no change is left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job and its user; `None` when the service ends.
    fn next(&self) -> Option<(u32, (LaneKey, Work<T>))> {
        let idle = |state: &mut QueueState<T>| state.jobs.is_empty() && !state.stop;
        let mut state = self.state();
        state.at_work = false;
        state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        state.at_work = !state.stop;
        if state.stop { None } else { state.jobs.next() }
    }
}
