//! Bytes that a ring still had when its process forked. The child's messages follow them.

use super::Stream;
use crate::shm::BankMemory;
use crate::sockets::attachment::Seat;
use sidecore_core::streams::layout::{HEAD, SHARED, STATE};
use sidecore_core::streams::place::{State, state_of, stream_of};
use sidecore_core::streams::slot::Key;
use sidecore_core::time::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long nothing may move while the kernel has room, ns. Both the service and the parent are dead then, or stopped.
const PATIENCE: Nanos = 60_000_000_000;

/// Bytes that the service, or the parent, moves. A child only looks: it inherits the page with the place's words.
#[derive(Debug)]
pub struct Remains {
    bank: Arc<BankMemory>,
    place: u32,
    number: u32,
    tail: u64,
    /// How far the head was at the last change, and when that was seen, ns.
    head: AtomicU64,
    since: AtomicU64,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All is the kernel's, or lost with a reset of the connection.
    Over,
    /// Not all.
    Moving,
    /// None, for too long.
    Stuck,
}

impl Stream {
    /// The ring's bytes, for a child to look at. `None`: the ring is empty.
    pub fn remains(&self, key: Key) -> Option<Remains> {
        self.with(key, |ring| {
            let is_empty = ring.cursors().is_none_or(|cursors| cursors.waiting() == 0);
            // It fails where there is no memory for a fork either.
            let is_seen = !is_empty && ring.seat.bank.in_children(ring.seat.place).is_ok();
            is_seen.then(|| Remains::new(&ring.seat, ring.tail))
        })
        .flatten()
    }
}

impl Remains {
    fn new(seat: &Seat, tail: u64) -> Self {
        let (bank, place, number) = (seat.bank.clone(), seat.place, seat.number);
        Self { bank, place, number, tail, head: AtomicU64::new(u64::MAX), since: AtomicU64::new(0) }
    }

    /// The same for a child of the child.
    #[must_use]
    pub fn again(&self) -> Self {
        let Self { bank, place, number, tail, .. } = self;
        let (head, since) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Self { bank: bank.clone(), place: *place, number: *number, tail: *tail, head, since }
    }

    /// How far it is now. `has_room`: the kernel takes bytes of the connection.
    pub fn progress(&self, now: Nanos, has_room: bool) -> Progress {
        let word = |word| self.bank.word(self.place, SHARED, word).load(Ordering::Acquire);
        let (state, head) = (word(STATE), word(HEAD));
        // The service says of the stream before until it has taken this one.
        let has_ended = match state_of(state, self.number) {
            Some(state) => state != State::Open,
            None => (stream_of(state).wrapping_sub(self.number)).cast_signed() > 0,
        };
        if has_ended || head >= self.tail {
            return Progress::Over;
        }
        if self.head.swap(head, Ordering::Relaxed) != head || !has_room {
            self.since.store(now, Ordering::Relaxed);
        }
        let is_stuck = now.saturating_sub(self.since.load(Ordering::Relaxed)) > PATIENCE;
        if is_stuck { Progress::Stuck } else { Progress::Moving }
    }
}
