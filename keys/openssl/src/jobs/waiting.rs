//! The descriptor of a paused job: one per wait context, the same for all requests.
//!
//! It is an epoll instance with three members: the wake-up pipe of the job's lane, a bell for waits without a
//! completion, and a timer, which ends the wait at the deadline at the latest.

use super::set::Set;
use sidecore_client::keyops::lanes::{self, LaneGuard, Parked, Pool};
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::verified_fd::{VerifiedFd, closed};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) struct Waiting {
    pool: &'static Pool,
    set: Set,
    watched: Option<(u64, Arc<VerifiedFd>)>,
    due: Option<Instant>,
    /// The bell was rung to end the job's wait.
    rung: bool,
    /// The bell is in the pool's queue, or was offered a lane.
    queued: bool,
    held: Option<Parked>,
    /// The program has paused a job with this descriptor, so it knows of it.
    pub(super) seen: bool,
    /// Number of jobs that are paused with it: one, unless jobs share the wait context.
    pub(super) paused: u32,
}

impl Waiting {
    /// Without anything to wait for. An error of the kind [`NO_NUMBER`](super::set::NO_NUMBER): a job cannot pause.
    pub(crate) fn new(pool: &'static Pool) -> io::Result<Self> {
        let set = Set::new()?;
        Ok(Self { pool, set, watched: None, due: None, rung: false, queued: false, held: None, seen: false, paused: 0 })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.set.fd()
    }

    /// In a forked child: makes the state this process's own, and drops the parent's objects.
    pub(crate) fn renew(&mut self, pool: &'static Pool) -> io::Result<()> {
        if self.pool.number == pool.number {
            return Ok(());
        }
        self.put(true)?;
        self.pool = pool;
        self.held = None;
        Ok(())
    }

    /// Whether it is of this process, and not of the one that forked it.
    pub(super) fn is_current(&self) -> bool {
        lanes::is_current(self.pool)
    }

    /// The lane in the set: waiting on it again takes no system call.
    pub(crate) fn favourite(&self) -> Option<u64> {
        self.watched.as_ref().map(|(number, _)| *number)
    }

    /// Waits for the lane's wake-up, at most until the deadline. If nothing changes, the set needs no check: the
    /// lane's pipe, which was just checked, was in it.
    pub(crate) fn watch(&mut self, lane: &LaneGuard, deadline: Instant) -> io::Result<()> {
        let is_watched = self.favourite() == Some(lane.number);
        if is_watched && self.rings_by(deadline) {
            return Ok(());
        }
        self.keep()?;
        self.ring_by(deadline)?;
        if self.favourite() == Some(lane.number) {
            return Ok(());
        }
        if let Some((_, before)) = self.watched.take()
            && let Some(before) = before.get()
        {
            self.set.remove(before);
        }
        self.set.add(lane.wake.get().ok_or_else(closed)?)?;
        self.watched = Some((lane.number, Arc::clone(&lane.wake)));
        Ok(())
    }

    pub(crate) fn watch_time(&mut self, after: Nanos) -> io::Result<()> {
        self.keep()?;
        self.ring_at(Instant::now(), Duration::from_nanos(after))
    }

    /// Ends the wait: the program resumes the job after checking its other descriptors.
    pub(crate) fn watch_nothing(&mut self) -> io::Result<()> {
        if !self.rung && !self.set.bell.ring() {
            self.keep()?;
            self.set.bell.ring();
        }
        self.rung = true;
        Ok(())
    }

    pub(crate) fn watch_pool(&mut self, seen: u64, deadline: Instant) -> io::Result<()> {
        self.keep()?;
        self.ring_by(deadline)?;
        self.set.bell.rang();
        self.pool.ring_when_free(seen, &self.set.bell);
        self.queued = true;
        Ok(())
    }

    /// Ends the wait for a lane. An offer made since then goes to the next operation.
    pub(crate) fn leave_pool(&mut self) {
        if std::mem::take(&mut self.queued) {
            self.pool.forget(&self.set.bell);
            // The bell is out of the queue, so this answer is final.
            if self.set.bell.rang() {
                self.pool.pass_on();
            }
        }
    }

    /// The job continues: a stale ring of the bell would resume the jobs of this context needlessly.
    pub(crate) fn settle(&mut self) {
        if std::mem::take(&mut self.rung) || self.queued {
            self.set.bell.rang();
        }
    }

    /// Whether another job is paused with a lane: two jobs share the wait context.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Keeps the job's lane while it is paused, so that the lane is not lost if the job is never resumed.
    pub(crate) fn hold(&mut self, lane: Option<LaneGuard>) {
        self.held = lane.map(LaneGuard::park);
    }

    pub(crate) fn take(&mut self) -> Option<LaneGuard> {
        self.settle();
        self.held.take().map(Parked::resume)
    }

    fn keep(&mut self) -> io::Result<()> {
        if self.set.is_ours() { Ok(()) } else { self.put(false) }
    }

    /// Replaces this set by a new one, in a child also that of its parent.
    fn put(&mut self, is_childs: bool) -> io::Result<()> {
        let fresh = Set::new()?;
        if !is_childs && self.queued {
            self.pool.forget(&self.set.bell);
        }
        (self.watched, self.due, self.rung, self.queued) = (None, None, false, false);
        self.set = if is_childs { fresh.succeed(&mut self.set)? } else { fresh };
        Ok(())
    }

    fn rings_by(&self, deadline: Instant) -> bool {
        self.due.is_some_and(|due| due <= deadline && due > Instant::now())
    }

    fn ring_by(&mut self, deadline: Instant) -> io::Result<()> {
        if self.rings_by(deadline) {
            return Ok(());
        }
        let now = Instant::now();
        self.ring_at(now, deadline.saturating_duration_since(now))
    }

    fn ring_at(&mut self, now: Instant, after: Duration) -> io::Result<()> {
        self.set.set_timer(after)?;
        self.due = Some(now + after);
        Ok(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A lane may have been offered to a job that never resumes. A parent's bell is not a child's to answer.
        if self.queued && self.is_current() && self.set.bell.rang() {
            self.pool.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(waiting: &Waiting) -> bool {
        waiting.set.is_ready()
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(1000)
    }

    fn two() -> (&'static Pool, Waiting, Waiting) {
        super::super::permit_all_numbers();
        let pool: &'static Pool = Box::leak(Box::new(Pool::default()));
        (pool, Waiting::new(pool).unwrap(), Waiting::new(pool).unwrap())
    }

    #[test]
    fn who_waits_no_more_is_not_rung() {
        let (pool, mut first, mut second) = two();
        first.watch_pool(0, later()).unwrap();
        second.watch_pool(0, later()).unwrap();
        first.settle();
        first.leave_pool();
        pool.pass_on();
        assert!(!is_ready(&first));
        assert!(is_ready(&second));
    }

    #[test]
    fn an_offer_to_one_who_has_a_lane_goes_to_the_next() {
        let (pool, mut first, mut second) = two();
        first.watch_pool(0, later()).unwrap();
        second.watch_pool(0, later()).unwrap();
        first.settle();
        pool.pass_on();
        assert!(is_ready(&first));
        first.leave_pool();
        assert!(!is_ready(&first));
        assert!(is_ready(&second));
    }

    #[test]
    fn who_asks_again_keeps_its_place() {
        let (pool, mut first, mut second) = two();
        first.watch_pool(0, later()).unwrap();
        second.watch_pool(0, later()).unwrap();
        first.settle();
        first.watch_pool(0, later()).unwrap();
        pool.pass_on();
        assert!(is_ready(&first));
        assert!(!is_ready(&second));
    }

    #[test]
    fn a_late_ring_is_taken_back_by_the_next_resume() {
        let (pool, mut first, _) = two();
        first.watch_pool(0, later()).unwrap();
        first.settle();
        pool.pass_on();
        assert!(is_ready(&first));
        first.settle();
        assert!(!is_ready(&first));
    }
}
