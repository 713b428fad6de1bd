//! Bytes still in a ring when its process forked. The child's messages must follow them.

use super::Stream;
use crate::attachment::StreamSlot;
use crate::shm::BankMemory;
use rustix::io::Errno;
use sidecore_core::time::Nanos;
use sidecore_streams::layout::{ERROR, HEAD, SHARED, STATE};
use sidecore_streams::place::{PlaceState, state_of, stream_of};
use sidecore_streams::slot::Key;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest time without a move while the kernel has room, ns. After it, service and parent count as dead or stopped.
const STUCK_AFTER_NS: Nanos = 60_000_000_000;

/// Bytes that the service or the parent moves. A child only reads: it inherits the page with the place's words.
#[derive(Debug)]
pub struct Remains {
    bank: Arc<BankMemory>,
    place: u32,
    number: u32,
    tail: u64,
    /// The head at its last change, and the time of observing that, ns.
    head: AtomicU64,
    since: AtomicU64,
}

/// Progress of the remaining bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The kernel has all of them, or a reset of the connection lost them.
    Over,
    /// Some are left.
    Moving,
    /// No progress for too long.
    Stuck,
}

impl Stream {
    /// The ring's bytes, for a child to observe. `None`: the ring is empty.
    pub fn remains(&self, key: Key) -> Option<Remains> {
        self.with(key, |ring| {
            let is_empty = ring.cursors().is_none_or(|cursors| cursors.waiting() == 0);
            // Fails only without memory, as would the fork.
            let is_seen = !is_empty && ring.slot.bank.in_children(ring.slot.place).is_ok();
            is_seen.then(|| Remains::new(&ring.slot, ring.tail))
        })
        .flatten()
    }
}

impl Remains {
    fn new(slot: &StreamSlot, tail: u64) -> Self {
        let (bank, place, number) = (slot.bank.clone(), slot.place, slot.number);
        Self { bank, place, number, tail, head: AtomicU64::new(u64::MAX), since: AtomicU64::new(0) }
    }

    /// The same for a child of the child.
    #[must_use]
    pub fn again(&self) -> Self {
        let Self { bank, place, number, tail, .. } = self;
        let (head, since) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Self { bank: bank.clone(), place: *place, number: *number, tail: *tail, head, since }
    }

    /// The kernel's error for these bytes, which a call on the socket would have met; once.
    pub fn take_error(&self) -> Option<Errno> {
        let word = |word| self.bank.word(self.place, SHARED, word);
        let is_of_next = stream_of(word(STATE).load(Ordering::Acquire)).wrapping_sub(self.number).cast_signed() > 0;
        let error = if is_of_next { 0 } else { word(ERROR).swap(0, Ordering::Relaxed) };
        i32::try_from(error).ok().filter(|error| *error != 0).map(Errno::from_raw_os_error)
    }

    /// The present progress. `has_room`: the kernel has room for bytes of the connection.
    pub fn progress(&self, now: Nanos, has_room: bool) -> Progress {
        let word = |word| self.bank.word(self.place, SHARED, word).load(Ordering::Acquire);
        let (state, head) = (word(STATE), word(HEAD));
        // Until the service has accepted this stream, the state is that of the previous one.
        let has_ended = match state_of(state, self.number) {
            Some(state) => state != PlaceState::Open,
            None => (stream_of(state).wrapping_sub(self.number)).cast_signed() > 0,
        };
        if has_ended || head >= self.tail {
            return Progress::Over;
        }
        if self.head.swap(head, Ordering::Relaxed) != head || !has_room {
            self.since.store(now, Ordering::Relaxed);
        }
        let is_stuck = now.saturating_sub(self.since.load(Ordering::Relaxed)) > STUCK_AFTER_NS;
        if is_stuck { Progress::Stuck } else { Progress::Moving }
    }
}
