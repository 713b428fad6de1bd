//! What a paused job waits on: one descriptor per wait context, which stays the same from request to request.
//!
//! It is an epoll instance. In it are the wake-up pipe of the lane that the job uses, a timer or a bell where there is
//! no completion to wait for, and the alarm of the process.

use crate::lanes::{Pool, Taken};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::{DupFlags, dup3, read, write};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use sidecore_core::time::Nanos;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often paused jobs are woken to look at their deadline.
const ALARM: Duration = Duration::from_secs(10);

/// Rings every now and then while jobs are paused.
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// When it rings.
    due: Mutex<Option<Instant>>,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { timer: timer()?, due: Mutex::new(None) })
    }

    /// A job is about to pause.
    fn set(&self) -> io::Result<()> {
        // Only ever held for the few lines below, by threads of this process: a child has an alarm of its own.
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if due.is_none_or(|due| due <= now) {
            set_timer(&self.timer, ALARM)?;
            *due = Some(now + ALARM);
        }
        Ok(())
    }
}

/// Tells a job that a lane is free.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) {
        // A full counter has rung already.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// Whether it rang since it was asked last.
    fn rang(&self) -> bool {
        read(&self.0, &mut [0; 8]).is_ok()
    }
}

/// The state of one wait context.
pub(crate) struct Waiting {
    pool: &'static Pool,
    epoll: OwnedFd,
    /// The wake-up pipe that is in the set.
    watched: Option<(u64, Arc<OwnedFd>)>,
    timer: Option<OwnedFd>,
    bell: Option<Arc<Bell>>,
    /// The bell is in the pool's queue, or was rung so that the job does not wait.
    queued: bool,
    /// The lane of the job while it is paused, so that it is not lost if the job is never resumed.
    held: Option<Taken>,
}

impl Waiting {
    pub(crate) fn new(pool: &'static Pool) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let waiting = Self { pool, epoll, watched: None, timer: None, bell: None, queued: false, held: None };
        waiting.add(&pool.alarm.timer)?;
        Ok(waiting)
    }

    /// The descriptor that the program is given.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// In a forked child: makes it this process's own under the same number, and lets go of what is the parent's.
    pub(crate) fn renew(&mut self, pool: &'static Pool) -> io::Result<()> {
        if self.pool.number == pool.number {
            return Ok(());
        }
        let fresh = Self::new(pool)?;
        dup3(&fresh.epoll, &mut self.epoll, DupFlags::CLOEXEC)?;
        self.pool = pool;
        (self.watched, self.timer, self.bell, self.queued) = (None, None, None, false);
        Ok(())
    }

    /// The lane that is in the set: no system call is needed to wait on it again.
    pub(crate) fn favourite(&self) -> Option<u64> {
        self.watched.as_ref().map(|(number, _)| *number)
    }

    /// Waits for the lane's wake-up.
    pub(crate) fn watch(&mut self, lane: &Taken) -> io::Result<()> {
        self.pool.alarm.set()?;
        if self.favourite() == Some(lane.number) {
            return Ok(());
        }
        if let Some((_, wake)) = self.watched.take() {
            epoll::delete(&self.epoll, wake)?;
        }
        self.add(&*lane.wake)?;
        self.watched = Some((lane.number, Arc::clone(&lane.wake)));
        Ok(())
    }

    /// Waits for a moment `after` from now.
    pub(crate) fn watch_time(&mut self, after: Nanos) -> io::Result<()> {
        // The alarm is in the set: one that rang would do so on and on.
        self.pool.alarm.set()?;
        if self.timer.is_none() {
            let timer = timer()?;
            self.add(&timer)?;
            self.timer = Some(timer);
        }
        self.timer.as_ref().map_or(Ok(()), |timer| set_timer(timer, Duration::from_nanos(after.max(1))))
    }

    /// Does not wait: the program comes back as soon as it looked at its other descriptors.
    pub(crate) fn watch_nothing(&mut self) -> io::Result<()> {
        self.pool.alarm.set()?;
        if !self.queued {
            self.bell()?.ring();
            self.queued = true;
        }
        Ok(())
    }

    /// Waits for a lane to come back.
    pub(crate) fn watch_pool(&mut self, seen: u64) -> io::Result<()> {
        self.pool.alarm.set()?;
        let bell = self.bell()?;
        bell.rang();
        self.pool.ring_when_free(seen, &bell);
        self.queued = true;
        Ok(())
    }

    /// Waits for a lane no more. What was offered since the job went on is passed on.
    pub(crate) fn leave_pool(&mut self) {
        self.queued = false;
        if let Some(bell) = &self.bell {
            self.pool.forget(bell);
            // Nobody rings it any more: the answer is the last.
            if bell.rang() {
                self.pool.pass_on();
            }
        }
    }

    /// The job goes on: nothing rings without need.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        self.queued = false;
        // A bell that was rung for nothing would resume the jobs of this context in vain.
        if let Some(bell) = &self.bell {
            bell.rang();
        }
        match &self.timer {
            Some(timer) => set_timer(timer, Duration::ZERO),
            None => Ok(()),
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
        self.held.take()
    }

    fn bell(&mut self) -> io::Result<Arc<Bell>> {
        if let Some(bell) = &self.bell {
            return Ok(Arc::clone(bell));
        }
        let bell = Arc::new(Bell::new()?);
        self.add(&bell.0)?;
        self.bell = Some(Arc::clone(&bell));
        Ok(bell)
    }

    fn add(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(0), EventFlags::IN)?)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A lane may have been offered to a job that does not come back for it.
        let offered = self.queued && self.bell.as_ref().is_some_and(|bell| bell.rang());
        if offered && crate::lanes::is_current(self.pool) {
            self.pool.pass_on();
        }
    }
}

fn timer() -> io::Result<OwnedFd> {
    Ok(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?)
}

/// Zero: not at all.
fn set_timer(timer: &OwnedFd, after: Duration) -> io::Result<()> {
    let it_value = Timespec { tv_sec: after.as_secs().cast_signed(), tv_nsec: i64::from(after.subsec_nanos()) };
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready(waiting: &Waiting) -> bool {
        let mut events = Vec::with_capacity(4);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&waiting.epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap() > 0
    }

    fn two() -> (&'static Pool, Waiting, Waiting) {
        let pool: &'static Pool = Box::leak(Box::new(Pool::new().unwrap()));
        (pool, Waiting::new(pool).unwrap(), Waiting::new(pool).unwrap())
    }

    #[test]
    fn who_waits_no_more_is_not_rung() {
        let (pool, mut first, mut second) = two();
        first.watch_pool(0).unwrap();
        second.watch_pool(0).unwrap();
        first.settle().unwrap();
        first.leave_pool();
        pool.pass_on();
        assert!(!is_ready(&first));
        assert!(is_ready(&second));
    }

    #[test]
    fn an_offer_to_one_who_has_a_lane_goes_to_the_next() {
        let (pool, mut first, mut second) = two();
        first.watch_pool(0).unwrap();
        second.watch_pool(0).unwrap();
        first.settle().unwrap();
        pool.pass_on();
        assert!(is_ready(&first));
        first.leave_pool();
        assert!(!is_ready(&first));
        assert!(is_ready(&second));
    }

    #[test]
    fn who_asks_again_keeps_its_place() {
        let (pool, mut first, mut second) = two();
        first.watch_pool(0).unwrap();
        second.watch_pool(0).unwrap();
        first.settle().unwrap();
        first.watch_pool(0).unwrap();
        pool.pass_on();
        assert!(is_ready(&first));
        assert!(!is_ready(&second));
    }

    #[test]
    fn a_late_ring_is_taken_back_by_the_next_resume() {
        let (pool, mut first, _) = two();
        first.watch_pool(0).unwrap();
        first.settle().unwrap();
        pool.pass_on();
        assert!(is_ready(&first));
        first.settle().unwrap();
        assert!(!is_ready(&first));
    }
}
