//! An epoll set in a program that may close any number and reuse it.
//!
//! Epoll sets and timers share one inode, so inodes do not identify them. But a member of a set can be changed only by
//! its number and open file. A pipe of ours that is in no other set therefore identifies this set, and its members are
//! identified in the same way.

use super::sys::is_internet_socket;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use sidecore_ipc::sys::verified_fd::{SELECT_LIMIT, above_standard, closed, out_of_the_way};
use sidecore_ipc::sys::wake::Ringer;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The kind of error if no number is free that a program takes, which a job needs to pause.
pub(crate) const NO_NUMBER: io::ErrorKind = io::ErrorKind::QuotaExceeded;

/// Every program with jobs takes numbers below this one: `HAProxy` with `maxconn` of 50, for example.
const LOW: RawFd = 128;
/// Numbers at which a connection is looked for.
const PROBED: RawFd = 64;
/// The highest number seen of a connection.
static HIGHEST: AtomicI32 = AtomicI32::new(0);

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

/// Moves the descriptor to a number that the program takes.
fn selectable(fd: OwnedFd) -> io::Result<OwnedFd> {
    let fd = above_standard(fd)?;
    if is_taken_by_programs(fd.as_raw_fd()) {
        return Ok(fd);
    }
    // One may have become free.
    let moved = fcntl_dupfd_cloexec(&fd, 3)?;
    if is_taken_by_programs(moved.as_raw_fd()) {
        return Ok(moved);
    }
    Err(io::Error::new(NO_NUMBER, "no number is free below 1024 and below those of the program's own connections"))
}

/// Whether a program can be expected to take a descriptor with this number. `select` takes numbers below 1024. `HAProxy`
/// has room for as many as its connections may need, and ends itself when a job's number is beyond. It has used every
/// number that is below one of its connections.
fn is_taken_by_programs(number: RawFd) -> bool {
    number < SELECT_LIMIT && (number < LOW || number < HIGHEST.load(Ordering::Relaxed) || is_below_a_connection(number))
}

fn is_below_a_connection(number: RawFd) -> bool {
    let above = (number + 1..=number + PROBED).find(|above| is_internet_socket(*above));
    if let Some(above) = above {
        HIGHEST.fetch_max(above, Ordering::Relaxed);
    }
    above.is_some()
}

/// As if the program had a connection at the last number that `select` takes.
#[cfg(test)]
pub(crate) fn permit_all_numbers() {
    HIGHEST.store(SELECT_LIMIT, Ordering::Relaxed);
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
