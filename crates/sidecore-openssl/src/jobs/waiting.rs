//! What a paused job waits on: one descriptor per wait context, which stays the same from request to request.
//!
//! It is an epoll instance. In it are the wake-up pipe of the lane that the job uses, a bell where there is no completion to
//! wait for, and a timer, which rings at the deadline at the latest.

use super::set::Set;
use sidecore_client::face::lanes::{self, Pool, Taken};
use sidecore_client::sys::own::{Own, closed};
use sidecore_core::time::Nanos;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The state of one wait context.
pub(crate) struct Waiting {
    pool: &'static Pool,
    set: Set,
    /// The wake-up pipe that is in the set.
    watched: Option<(u64, Arc<Own>)>,
    /// When the timer rings.
    due: Option<Instant>,
    /// The bell was rung so that the job does not wait.
    rung: bool,
    /// The bell is in the pool's queue, or was offered a lane.
    queued: bool,
    /// The lane of the job while it is paused, so that it is not lost if the job is never resumed.
    held: Option<Taken>,
}

impl Waiting {
    /// Nothing to wait for yet. An error of the kind of [`NO_NUMBER`](super::set::NO_NUMBER): a job cannot pause.
    pub(crate) fn new(pool: &'static Pool) -> io::Result<Self> {
        let set = Set::new()?;
        Ok(Self { pool, set, watched: None, due: None, rung: false, queued: false, held: None })
    }

    /// The descriptor that the program is given.
    pub(crate) fn fd(&self) -> RawFd {
        self.set.fd()
    }

    /// In a forked child: makes it this process's own, and lets go of what is the parent's.
    pub(crate) fn renew(&mut self, pool: &'static Pool) -> io::Result<()> {
        if self.pool.number == pool.number {
            return Ok(());
        }
        self.pool = pool;
        self.put(true)
    }

    /// The lane that is in the set: no system call is needed to wait on it again.
    pub(crate) fn favourite(&self) -> Option<u64> {
        self.watched.as_ref().map(|(number, _)| *number)
    }

    /// Waits for the lane's wake-up, at most until the deadline. Where nothing has to be changed the set is not looked at: the
    /// lane's pipe, which was just looked at, was in it.
    pub(crate) fn watch(&mut self, lane: &Taken, deadline: Instant) -> io::Result<()> {
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

    /// Waits for a moment `after` from now.
    pub(crate) fn watch_time(&mut self, after: Nanos) -> io::Result<()> {
        self.keep()?;
        self.ring_at(Instant::now(), Duration::from_nanos(after))
    }

    /// Does not wait: the program comes back as soon as it looked at its other descriptors.
    pub(crate) fn watch_nothing(&mut self) -> io::Result<()> {
        if !self.rung && !self.set.bell.ring() {
            self.keep()?;
            self.set.bell.ring();
        }
        self.rung = true;
        Ok(())
    }

    /// Waits for a lane to come back, at most until the deadline.
    pub(crate) fn watch_pool(&mut self, seen: u64, deadline: Instant) -> io::Result<()> {
        self.keep()?;
        self.ring_by(deadline)?;
        self.set.bell.rang();
        self.pool.ring_when_free(seen, &self.set.bell);
        self.queued = true;
        Ok(())
    }

    /// Waits for a lane no more. What was offered since the job went on is passed on.
    pub(crate) fn leave_pool(&mut self) {
        if std::mem::take(&mut self.queued) {
            self.pool.forget(&self.set.bell);
            // Nobody rings it any more: the answer is the last.
            if self.set.bell.rang() {
                self.pool.pass_on();
            }
        }
    }

    /// The job goes on: a bell that was rung for nothing would resume the jobs of this context in vain.
    pub(crate) fn settle(&mut self) {
        if std::mem::take(&mut self.rung) || self.queued {
            self.set.bell.rang();
        }
    }

    /// Keeps a lane while the job is paused. Gives it back if there is one already: two jobs share the wait context.
    pub(crate) fn hold(&mut self, lane: Taken) -> Result<(), Taken> {
        if self.held.is_some() {
            return Err(lane);
        }
        self.held = Some(lane);
        Ok(())
    }

    /// The lane, when the job goes on.
    pub(crate) fn take(&mut self) -> Option<Taken> {
        self.settle();
        self.held.take()
    }

    /// Makes another set where the program closed this one.
    fn keep(&mut self) -> io::Result<()> {
        if self.set.is_ours() { Ok(()) } else { self.put(false) }
    }

    /// Puts a new set in the place of this one: a child's in that of its parent.
    fn put(&mut self, is_childs: bool) -> io::Result<()> {
        let fresh = Set::new()?;
        if !is_childs && self.queued {
            self.pool.forget(&self.set.bell);
        }
        (self.watched, self.due, self.rung, self.queued) = (None, None, false, false);
        self.set = if is_childs { fresh.succeed(&mut self.set)? } else { fresh };
        Ok(())
    }

    /// Whether the timer rings until then.
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
        // A lane may have been offered to a job that does not come back for it.
        let offered = self.queued && self.set.bell.rang();
        if offered && lanes::is_current(self.pool) {
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
