//! An epoll set in a program that may close any number and reuse it.
//!
//! Epoll sets and timers share one inode, so inodes do not identify them. But a member of a set can be changed only by
//! its number and open file. A pipe of ours that is in no other set therefore identifies this set, and its members are
//! identified in the same way.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use sidecore_client::sys::verified_fd::{SELECT_LIMIT, above_standard, closed, out_of_the_way};
use sidecore_client::sys::wake::Ringer;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// The kind of error if no descriptor below 1024 is free, which a job needs to pause.
pub(crate) const NO_NUMBER: io::ErrorKind = io::ErrorKind::QuotaExceeded;

pub(super) struct Set {
    /// `None` only during drop.
    epoll: Option<OwnedFd>,
    timer: Option<OwnedFd>,
    pub(super) bell: Arc<Ringer>,
}

impl Set {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = Some(selectable(epoll::create(CreateFlags::CLOEXEC)?)?);
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let set = Self { epoll, timer: Some(out_of_the_way(timer)?), bell: Arc::new(Ringer::bell()?) };
        set.add(set.bell.reader().ok_or_else(closed)?)?;
        set.add(set.timer.as_ref().ok_or_else(closed)?.as_fd())?;
        Ok(set)
    }

    pub(super) fn fd(&self) -> RawFd {
        self.epoll.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    pub(super) fn is_ours(&self) -> bool {
        self.bell.reader().is_some_and(|mark| self.has(mark))
    }

    /// Replaces the parent's set in a forked child: under the same number, if that still refers to the set.
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

    pub(super) fn remove(&self, source: BorrowedFd<'_>) {
        if let Some(epoll) = &self.epoll {
            let _ = epoll::delete(epoll, source);
        }
    }

    pub(super) fn set_timer(&self, after: Duration) -> io::Result<()> {
        let timer = self.timer.as_ref().filter(|timer| self.has(timer.as_fd())).ok_or_else(closed)?;
        // Zero would disable the timer.
        let after = after.max(Duration::from_nanos(1));
        let it_value = Timespec { tv_sec: after.as_secs().cast_signed(), tv_nsec: i64::from(after.subsec_nanos()) };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        Ok(())
    }

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

/// Closes our descriptor; one that the program reused is only forgotten.
fn close_if(ours: bool, fd: OwnedFd) {
    if !ours {
        let _ = fd.into_raw_fd();
    }
}

fn selectable(fd: OwnedFd) -> io::Result<OwnedFd> {
    let fd = above_standard(fd)?;
    if fd.as_raw_fd() < SELECT_LIMIT {
        return Ok(fd);
    }
    // One may have become free.
    let moved = fcntl_dupfd_cloexec(&fd, 3)?;
    if moved.as_raw_fd() < SELECT_LIMIT {
        Ok(moved)
    } else {
        Err(io::Error::new(NO_NUMBER, "no number below 1024 is free"))
    }
}

#[cfg(test)]
impl Set {
    pub(super) fn is_ready(&self) -> bool {
        let mut events = Vec::with_capacity(4);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let epoll = self.epoll.as_ref().unwrap();
        epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&now)).unwrap() > 0
    }
}
