//! Lanes as their sidecore's thread knows them: the service's ends of both rings.

use super::sessions::Sessions;
use crate::counters::{LaneBlock, LaneCounter};
use crate::engine::execute::prefetch;
use crate::shm::LaneMemory;
use crate::sys::wake;
use sidecore_core::ring::{Consumer, Producer};
use sidecore_core::wire::{Completion, Fault, Submission};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Submissions that are asked for when more are likely there.
const EXPECTED: u64 = 16;

/// Names a connection, and with it its lane, as long as the service runs.
pub(super) type LaneKey = u64;

/// One lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    pub(super) memory: Arc<LaneMemory>,
    pub(super) sessions: Sessions,
    pub(super) counters: LaneBlock,
    pub(super) consumer: Consumer,
    pub(super) producer: Producer,
    /// The pipe that the client rings.
    pub(super) doorbell: OwnedFd,
    /// The pipe that wakes the client.
    pub(super) wake: OwnedFd,
}

impl Lane {
    /// Whether a submission is in the ring.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.consumer.ready(self.memory.submission())
    }

    /// Takes the next submission of the ring, if one is there, and starts the transfers of its payload and of the slot
    /// for its completion, before which `ahead` others are written.
    #[inline]
    pub(super) fn receive(&mut self, place: &mut Submission, ahead: usize) -> Result<bool, Fault> {
        let arena_bytes = self.memory.layout().arena_bytes();
        if !place.receive(&mut self.consumer, self.memory.submission(), arena_bytes)? {
            return Ok(false);
        }
        prefetch(&self.memory, place);
        self.memory.prefetch_completion(self.producer.pushed() + ahead as u64);
        Ok(true)
    }

    /// Starts the transfers of the submissions that come next.
    #[inline]
    pub(super) fn expect(&self) {
        self.memory.prefetch_submissions(self.consumer.popped(), EXPECTED);
    }

    #[inline]
    pub(super) fn write(&mut self, completion: &Completion) {
        completion.push(&mut self.producer, self.memory.completion());
    }

    /// Wakes the client, if it must be woken.
    #[inline]
    pub(super) fn ring(&self) {
        if self.memory.completion_doorbell().must_wake() {
            wake::ring_pipe(&self.wake);
            self.counters.add(LaneCounter::WakeupsSent, 1);
        } else {
            self.counters.add(LaneCounter::WakeupsSaved, 1);
        }
    }
}
