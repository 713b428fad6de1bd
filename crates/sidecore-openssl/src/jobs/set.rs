//! An epoll set in a process that belongs to somebody else, who may close any number and open something else there.
//!
//! Epoll sets and timers share one inode, so they are not told apart by it. But a set knows its members: only what is in it,
//! under this number and with this open file, can be changed there. A pipe of ours that is in no other set marks this one, and
//! what is in this one is known by that.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use sidecore_client::sys::own::{SELECT_LIMIT, above_standard, closed, out_of_the_way};
use sidecore_client::sys::wake::Ringer;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// The kind of error where there is no descriptor that a job could pause on: none below 1024 is free.
pub(crate) const NO_NUMBER: io::ErrorKind = io::ErrorKind::QuotaExceeded;

/// An epoll set with a bell and a timer.
pub(super) struct Set {
    /// There until dropped.
    epoll: Option<OwnedFd>,
    timer: Option<OwnedFd>,
    pub(super) bell: Arc<Ringer>,
}

impl Set {
    /// A set under a number that `select` takes.
    pub(super) fn new() -> io::Result<Self> {
        let epoll = Some(selectable(epoll::create(CreateFlags::CLOEXEC)?)?);
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let set = Self { epoll, timer: Some(out_of_the_way(timer)?), bell: Arc::new(Ringer::bell()?) };
        set.add(set.bell.reader().ok_or_else(closed)?)?;
        set.add(set.timer.as_ref().ok_or_else(closed)?.as_fd())?;
        Ok(set)
    }

    /// Its number.
    pub(super) fn fd(&self) -> RawFd {
        self.epoll.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Whether its number still stands for it.
    pub(super) fn is_ours(&self) -> bool {
        self.bell.reader().is_some_and(|mark| self.has(mark))
    }

    /// What a forked child uses in the place of its parent's set: under the same number, if that is still the set's.
    pub(super) fn succeed(mut self, before: &mut Self) -> io::Result<Self> {
        if before.is_ours() {
            before.close_timer();
            if let (Some(fresh), Some(mut number)) = (self.epoll.take(), before.epoll.take()) {
                dup3(&fresh, &mut number, DupFlags::CLOEXEC)?;
                self.epoll = Some(number);
            }
        }
        Ok(self)
    }

    pub(super) fn add(&self, source: BorrowedFd<'_>) -> io::Result<()> {
        let epoll = self.epoll.as_ref().ok_or_else(closed)?;
        Ok(epoll::add(epoll, source, EventData::new_u64(0), EventFlags::IN)?)
    }

    /// Takes out what may be in it.
    pub(super) fn remove(&self, source: BorrowedFd<'_>) {
        if let Some(epoll) = &self.epoll {
            let _ = epoll::delete(epoll, source);
        }
    }

    /// Has the timer ring so long after now. For a set that is known to be ours.
    pub(super) fn set_timer(&self, after: Duration) -> io::Result<()> {
        let timer = self.timer.as_ref().filter(|timer| self.has(timer.as_fd())).ok_or_else(closed)?;
        // Zero would mean never.
        let after = after.max(Duration::from_nanos(1));
        let it_value = Timespec { tv_sec: after.as_secs().cast_signed(), tv_nsec: i64::from(after.subsec_nanos()) };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        Ok(())
    }

    /// Whether what has this number now is in the set. Changes nothing.
    fn has(&self, member: BorrowedFd<'_>) -> bool {
        let unchanged = |epoll| epoll::modify(epoll, member, EventData::new_u64(0), EventFlags::IN);
        self.epoll.as_ref().is_some_and(|epoll| unchanged(epoll).is_ok())
    }

    fn close_timer(&mut self) {
        if let Some(timer) = self.timer.take() {
            close_if(self.has(timer.as_fd()), timer);
        }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        let ours = self.is_ours();
        if ours {
            self.close_timer();
        }
        for fd in [self.timer.take(), self.epoll.take()].into_iter().flatten() {
            close_if(ours, fd);
        }
    }
}

/// What is not ours any more is forgotten.
fn close_if(ours: bool, fd: OwnedFd) {
    if !ours {
        let _ = fd.into_raw_fd();
    }
}

/// Gives it a number that `select` takes.
fn selectable(fd: OwnedFd) -> io::Result<OwnedFd> {
    let fd = above_standard(fd)?;
    if fd.as_raw_fd() < SELECT_LIMIT {
        return Ok(fd);
    }
    // One may have become free.
    let moved = fcntl_dupfd_cloexec(&fd, 3)?;
    if moved.as_raw_fd() < SELECT_LIMIT { Ok(moved) } else { Err(NO_NUMBER.into()) }
}

#[cfg(test)]
impl Set {
    /// Whether something in it is ready.
    pub(super) fn is_ready(&self) -> bool {
        let mut events = Vec::with_capacity(4);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let epoll = self.epoll.as_ref().unwrap();
        epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap() > 0
    }
}
