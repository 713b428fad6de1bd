//! Lanes as their sidecore's thread knows them: the service's ends of both rings.

use super::super::command::{Event, LaneKey, NewLane};
use super::super::sessions::Sessions;
use super::Reactor;
use crate::counters::{LaneBlock, LaneCounter};
use crate::engine::execute::prefetch;
use crate::shm::LaneMemory;
use crate::sys::wake;
use sidecore_core::ring::{Consumer, Producer};
use sidecore_core::sidecore;
use sidecore_core::wire::{Completion, Fault, Submission};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Submissions that are asked for when more are likely there.
const EXPECTED: u64 = 16;

/// One lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    pub(super) memory: Arc<LaneMemory>,
    pub(super) sessions: Sessions,
    pub(super) counters: LaneBlock,
    consumer: Consumer,
    producer: Producer,
    pub(super) doorbell: OwnedFd,
    wake: OwnedFd,
}

impl Lane {
    fn new(new: NewLane) -> Self {
        let mut sessions = Sessions::default();
        for (handle, session) in new.sessions {
            sessions.insert(handle, session);
        }
        Self {
            key: new.key,
            memory: new.memory,
            sessions,
            counters: new.counters,
            consumer: Consumer::new(),
            producer: Producer::new(),
            doorbell: new.doorbell,
            wake: new.wake,
        }
    }

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

impl Reactor {
    pub(super) fn lane_of(&mut self, key: LaneKey) -> Option<&mut Lane> {
        let id = *self.hands.keys.get(&key)?;
        self.sidecore.lane_mut(id)
    }

    pub(super) fn add_lane(&mut self, new: NewLane) {
        let key = new.key;
        let (uid, pid) = new.client;
        let lane = sidecore::NewLane {
            client: u64::from(uid) << 32 | u64::from(pid),
            weight: new.weight,
            credit: new.credit,
            slots: new.memory.layout().slots(),
            end: Lane::new(new),
        };
        let id = match self.sidecore.add_lane(lane) {
            Ok(id) => id,
            Err(lane) => return self.hands.tell(Event::NoRoom(key, Box::new(lane))),
        };
        self.hands.keys.insert(key, id);
        let (Some(lane), Some(poller)) = (self.sidecore.lane_mut(id), &self.hands.poller) else { return };
        // A pipe of our own making can be added unless memory is short; then the lane cannot be served.
        if poller.add_edge(&lane.doorbell, u64::from(id.0)).is_err()
            && let Some(lane) = self.close_lane(key)
        {
            self.hands.tell(Event::NoRoom(key, Box::new(lane)));
        }
    }

    /// Serves the lane no more. What is left of it is to be freed elsewhere: to unmap it can take long.
    pub(super) fn close_lane(&mut self, key: LaneKey) -> Option<Lane> {
        let id = *self.hands.keys.get(&key)?;
        let lane = self.sidecore.close_lane(id)?;
        self.hands.deafen(&lane);
        Some(lane)
    }
}
