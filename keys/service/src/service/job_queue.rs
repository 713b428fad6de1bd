//! Threads for [slow jobs](ControlJob), one for each [`JobThread`].
//!
//! Each connection has one job at most: nothing more is read from it until that is answered. Users take turns by time, each with its
//! subordinate users.

use super::command::LaneKey;
use super::jobs::{ControlJob, JobResult, JobThread};
use sidecore_core::policy::fair_queue::FairQueue;
use sidecore_core::time::Nanos;
use sidecore_daemon::tenants::Tenant;
use sidecore_ipc::sys::clock;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

pub(super) struct JobQueues {
    parser: JobQueue,
    maker: JobQueue,
    keeper: JobQueue,
    sealer: JobQueue,
}

impl JobQueues {
    /// Starts the threads, which pass each job's connection and result to `tell`.
    pub(super) fn start(tell: impl Fn(LaneKey, JobResult) + Clone + Send + 'static) -> io::Result<Self> {
        Ok(Self {
            parser: JobQueue::start("sidecore-opener", tell.clone())?,
            maker: JobQueue::start("sidecore-maker", tell.clone())?,
            keeper: JobQueue::start("sidecore-keeper", tell.clone())?,
            sealer: JobQueue::start("sidecore-sealer", tell)?,
        })
    }

    pub(super) fn push(&self, user: Tenant, key: LaneKey, job: ControlJob) {
        let queue = match job.thread() {
            JobThread::Parser => &self.parser,
            JobThread::Maker => &self.maker,
            JobThread::Keeper => &self.keeper,
            JobThread::Sealer => &self.sealer,
        };
        queue.push(user, key, job);
    }

    pub(super) fn generations(&self) -> usize {
        self.keeper.0.state().jobs.len()
    }

    pub(super) fn generations_of(&self, user: Tenant) -> usize {
        self.keeper.0.state().jobs.len_of(user)
    }

    /// The connection is gone: forgets its job, unless that makes a stored key or seals the stored keys again.
    pub(super) fn forget(&self, user: Tenant, key: LaneKey) {
        for queue in [&self.parser, &self.maker] {
            let forgotten = queue.0.state().jobs.forget(user, key);
            // Keys are wiped outside the lock.
            drop(forgotten);
        }
    }
}

#[derive(Default)]
struct Jobs {
    waiting: FairQueue<Tenant, (LaneKey, ControlJob)>,
    /// User of the running job.
    running: Option<Tenant>,
}

impl Jobs {
    fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.running.is_some())
    }

    fn len_of(&self, user: Tenant) -> usize {
        self.waiting.len_of(&user) + usize::from(self.running == Some(user))
    }

    fn push(&mut self, user: Tenant, key: LaneKey, job: ControlJob) {
        self.waiting.push(&user, (key, job));
    }

    fn next(&mut self) -> Option<(Tenant, (LaneKey, ControlJob))> {
        let next = self.waiting.next();
        self.running = next.as_ref().map(|(user, _)| *user);
        next
    }

    fn finished(&mut self, user: Tenant, took: Nanos) {
        self.waiting.charge(&user, took);
        self.running = None;
    }

    fn forget(&mut self, user: Tenant, key: LaneKey) -> Vec<(LaneKey, ControlJob)> {
        self.waiting.withdraw(&user, |(of, _)| *of == key)
    }
}

#[derive(Default)]
struct QueueState {
    jobs: Jobs,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<QueueState>,
    changed: Condvar,
}

/// When it is dropped, the thread ends after its present job.
struct JobQueue(Arc<Shared>);

impl JobQueue {
    fn start(name: &str, tell: impl Fn(LaneKey, JobResult) + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let work = move || {
            while let Some((user, (key, job))) = theirs.next() {
                let start = clock::now();
                let result = job.run();
                theirs.state().jobs.finished(user, clock::now() - start);
                tell(key, result);
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self(shared))
    }

    fn push(&self, user: Tenant, key: LaneKey, job: ControlJob) {
        self.0.state().jobs.push(user, key, job);
        self.0.changed.notify_one();
    }
}

impl Drop for JobQueue {
    fn drop(&mut self) {
        self.0.state().stop = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        // State after a panic is consistent: no change is left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(Tenant, (LaneKey, ControlJob))> {
        let idle = |state: &mut QueueState| state.jobs.waiting.is_empty() && !state.stop;
        let mut state = self.changed.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        if state.stop { None } else { state.jobs.next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Kind;
    use sidecore_daemon::tenants::Subordinates;

    fn user(uid: u32) -> Tenant {
        Subordinates::default().tenant(uid)
    }

    fn job() -> ControlJob {
        ControlJob::PublicPart { kind: Kind::Ed25519, raw: vec![7; 32].as_slice().into() }
    }

    fn next(jobs: &mut Jobs) -> Option<(u32, LaneKey)> {
        jobs.next().map(|(user, (key, _))| (user.uid(), key))
    }

    #[test]
    fn users_take_turns_by_the_time_of_their_jobs() {
        let mut jobs = Jobs::default();
        for (user, key) in [(1, 10), (1, 11), (1, 12), (2, 20)] {
            jobs.push(self::user(user), key, job());
        }
        assert_eq!((jobs.len(), next(&mut jobs)), (4, Some((1, 10))));
        assert_eq!((jobs.len(), jobs.len_of(user(1)), jobs.len_of(user(2))), (4, 3, 1), "the running one counts");
        jobs.finished(user(1), 1_000_000);
        assert_eq!((jobs.len(), next(&mut jobs)), (3, Some((2, 20))));
        assert_eq!((jobs.len_of(user(1)), jobs.len_of(user(2)), jobs.len_of(user(3))), (2, 1, 0));
        jobs.finished(user(2), 1_000);
        assert_eq!((next(&mut jobs), next(&mut jobs), next(&mut jobs)), (Some((1, 11)), Some((1, 12)), None));
        assert_eq!(jobs.len(), 0);
    }

    #[test]
    fn the_job_of_a_connection_that_is_gone_is_forgotten_alone() {
        let mut jobs = Jobs::default();
        for (user, key) in [(1, 10), (1, 11), (2, 20)] {
            jobs.push(self::user(user), key, job());
        }
        assert_eq!(jobs.forget(user(1), 10).len(), 1);
        assert_eq!(jobs.forget(user(2), 10).len(), 0, "another user's");
        let mut left = [next(&mut jobs), next(&mut jobs)];
        left.sort_unstable();
        assert_eq!(left, [Some((1, 11)), Some((2, 20))]);
    }
}
