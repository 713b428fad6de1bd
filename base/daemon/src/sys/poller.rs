//! Waiting for one of many events.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock::timespec;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Most events of one wait.
pub const BATCH: usize = 64;
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ONESHOT);

/// An epoll instance with its events.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    numbers: Vec<u64>,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, numbers: Vec::with_capacity(BATCH) })
    }

    /// Reports each new write to an eventfd or a pipe once; nothing has to be read.
    ///
    /// # Errors
    /// Those of the system.
    pub fn add_edge(&self, source: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(number), EventFlags::IN | EventFlags::ET)?)
    }

    /// Reports a source as long as it can be read or has hung up.
    ///
    /// # Errors
    /// Those of the system.
    pub fn add_level(&self, source: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(number), EventFlags::IN | EventFlags::RDHUP)?)
    }

    /// Reports a source once: when it can be read or has hung up. Then not again until [`Poller::watch_again`].
    ///
    /// # Errors
    /// Those of the system.
    pub fn add_once(&self, source: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(number), ONCE)?)
    }

    /// Reports such a source once more.
    ///
    /// # Errors
    /// Those of the system.
    pub fn watch_again(&self, source: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(number), ONCE)?)
    }

    /// Reports a source once: when it takes bytes again, or never will. `known`: it was reported so before.
    ///
    /// # Errors
    /// Those of the system.
    pub fn watch_writable(&self, source: impl AsFd, number: u64, known: bool) -> io::Result<()> {
        let (data, flags) = (EventData::new_u64(number), EventFlags::OUT | EventFlags::ONESHOT);
        let watch = if known { epoll::modify } else { epoll::add };
        Ok(watch(&self.epoll, source.as_fd(), data, flags)?)
    }

    /// Reports nothing of that source any more.
    pub fn remove(&self, source: impl AsFd) {
        // Fails only if the source is not in the set.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Waits at most that long (`None`: no limit) and yields the numbers of the sources with events.
    pub fn wait(&mut self, timeout: Option<Nanos>) -> impl Iterator<Item = u64> + '_ {
        if let Some(nanos @ 1..) = timeout {
            // epoll itself counts in milliseconds before Linux 5.11; an epoll set can be polled, and poll counts in
            // ns. An interrupted wait is only a shorter one.
            let _ = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timespec(nanos)));
        }
        let timeout = timeout.map(|_| timespec(0));
        let mut events = [MaybeUninit::<Event>::uninit(); BATCH];
        self.numbers.clear();
        // An interrupted wait is only a shorter one.
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            self.numbers.extend(events.iter().map(|event| event.data.u64()));
        }
        self.numbers.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_ipc::sys::clock;

    #[test]
    fn short_waits_are_not_rounded_up_to_milliseconds() {
        let mut poller = Poller::new().unwrap();
        let shortest = (0..100).map(|_| {
            let start = clock::now();
            assert_eq!(poller.wait(Some(50_000)).count(), 0);
            clock::now() - start
        });
        let shortest = shortest.min().unwrap();
        assert!((50_000..900_000).contains(&shortest), "{shortest} ns");
    }
}
