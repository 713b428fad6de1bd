//! Lanes as their sidecore knows them: joining, leaving, resting, announcing.

use super::super::command::{Event, LaneKey, NewLane};
use super::super::sessions::Sessions;
use super::{QUIET, Reactor, WATCHED_LANES};
use crate::counters::{LaneBlock, LaneCounter, SidecoreCounter};
use crate::shm::LaneMemory;
use crate::sys::wake;
use sidecore_core::dispatch::{ClientId, LaneId};
use sidecore_core::policy::notify::Ring;
use sidecore_core::ring::{Consumer, Producer};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Completion, Fault, Submission};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Submissions taken from a ring ahead of their turn, so that their payload is on its way.
pub(super) const AHEAD: usize = 16;

/// One lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    pub(super) client: ClientId,
    client_key: (u32, u32),
    pub(super) memory: Arc<LaneMemory>,
    pub(super) sessions: Sessions,
    pub(super) counters: LaneBlock,
    /// Taken from the ring, parsed, not yet placed.
    pub(super) pending: VecDeque<Submission>,
    consumer: Consumer,
    producer: Producer,
    doorbell: OwnedFd,
    wake: OwnedFd,
    /// Its next request waits until a device has answered: there is no use in looking before.
    pub(super) waits_for_device: bool,
    /// When traffic was last seen.
    active_at: Nanos,
    dormant: bool,
    /// An announcement that was put off to this time.
    announce_at: Option<Nanos>,
}

impl Lane {
    fn new(new: NewLane, client: ClientId, now: Nanos) -> Self {
        let mut sessions = Sessions::default();
        for (handle, session) in new.sessions {
            sessions.insert(handle, session);
        }
        Self {
            key: new.key,
            client,
            client_key: new.client,
            memory: new.memory,
            sessions,
            counters: new.counters,
            pending: VecDeque::with_capacity(AHEAD),
            consumer: Consumer::new(),
            producer: Producer::new(),
            doorbell: new.doorbell,
            wake: new.wake,
            waits_for_device: false,
            active_at: now,
            dormant: false,
            announce_at: None,
        }
    }

    /// Whether a submission waits.
    #[inline]
    pub(super) fn ready(&self) -> bool {
        !self.pending.is_empty() || self.consumer.ready(self.memory.submission())
    }

    /// The next message of the ring.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<[u64; 7]> {
        self.consumer.pop(self.memory.submission())
    }

    #[inline]
    pub(super) fn push(&mut self, completion: &Completion) {
        self.producer.push(self.memory.completion(), &completion.encode());
    }

    #[inline]
    pub(super) fn touch(&mut self, now: Nanos) {
        self.active_at = now;
    }

    /// Arms the doorbell. `false`: a submission is there.
    pub(super) fn arm(&self) -> bool {
        self.memory.submission_doorbell().arm();
        !self.ready()
    }

    pub(super) fn disarm(&self) {
        self.memory.submission_doorbell().disarm();
    }

    /// A ring came. `true`: the lane was dormant and must be looked at again.
    pub(super) fn waken(&mut self, now: Nanos) -> bool {
        self.active_at = now;
        self.disarm();
        std::mem::take(&mut self.dormant)
    }

}

impl Reactor {
    #[inline]
    pub(super) fn lane(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.lanes.get_mut(id.0 as usize)?.as_mut()
    }

    pub(super) fn lane_of(&mut self, key: LaneKey) -> Option<&mut Lane> {
        let id = *self.keys.get(&key)?;
        self.lane(id)
    }

    pub(super) fn add_lane(&mut self, new: NewLane) {
        let (key, client_key) = (new.key, new.client);
        let Some(id) = self.enter(&new) else { return self.tell(Event::NoRoom(key)) };
        let index = id.0 as usize;
        // An eventfd of our own making can be added unless memory is short; then the lane cannot be served.
        if self.poller.add_edge(&new.doorbell, u64::from(id.0)).is_err() {
            self.dispatch.close_lane(id);
            self.leave(client_key);
            return self.tell(Event::NoRoom(key));
        }
        let client = self.clients[&client_key].0;
        let lane = Lane::new(new, client, self.now);
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, || None);
        }
        self.lanes[index] = Some(lane);
        self.keys.insert(key, id);
        self.hot.push(id);
    }

    pub(super) fn close_lane(&mut self, key: LaneKey) {
        let Some(id) = self.keys.remove(&key) else { return };
        if let Some(lane) = self.lanes[id.0 as usize].take() {
            self.poller.remove(&lane.doorbell);
            self.dispatch.close_lane(id);
            self.hot.retain(|hot| *hot != id);
            self.leave(lane.client_key);
        }
    }

    /// The client broke the protocol: its lane ends, nobody else notices.
    pub(super) fn fault(&mut self, id: LaneId, fault: Fault) {
        self.counters.add(SidecoreCounter::Faults, 1);
        let Some(lane) = self.lane(id) else { return };
        lane.counters.set(LaneCounter::Fault, fault as u64 + 1);
        let key = lane.key;
        self.close_lane(key);
        self.tell(Event::Fault(key, fault));
    }

    /// When the waiter of this lane is woken, after completions were written.
    #[inline]
    pub(super) fn announce(&mut self, id: LaneId) {
        let ring = self.dispatch.announce(self.now, id);
        self.ring(id, ring);
    }

    /// The time of a put-off announcement has come.
    pub(super) fn announce_due(&mut self) {
        self.timers.announce = None;
        for index in 0..self.hot.len() {
            let id = self.hot[index];
            let Some(at) = self.lane(id).and_then(|lane| lane.announce_at.take()) else { continue };
            if at > self.now {
                self.ring(id, Ring::At(at));
            } else {
                let ring = self.dispatch.due(self.now, id);
                self.ring(id, ring);
            }
        }
    }

    #[inline]
    fn ring(&mut self, id: LaneId, ring: Ring) {
        let Some(lane) = self.lanes.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        match ring {
            Ring::Now => {
                lane.announce_at = None;
                if lane.memory.completion_doorbell().must_wake() {
                    wake::ring_pipe(&lane.wake);
                    lane.counters.add(LaneCounter::WakeupsSent, 1);
                } else {
                    lane.counters.add(LaneCounter::WakeupsSaved, 1);
                }
            }
            Ring::At(at) => {
                lane.announce_at = Some(at);
                self.timers.announce = Some(self.timers.announce.map_or(at, |due| due.min(at)));
            }
            Ring::Nothing => {}
        }
    }

    /// Stops looking at lanes without traffic, if there are more than can be watched for nothing.
    pub(super) fn rest_quiet_lanes(&mut self) {
        if self.hot.len() <= WATCHED_LANES {
            return;
        }
        let (lanes, dispatch, now) = (&mut self.lanes, &self.dispatch, self.now);
        self.hot.retain(|id| {
            let Some(lane) = &mut lanes[id.0 as usize] else { return false };
            let quiet = now.saturating_sub(lane.active_at) > QUIET && lane.announce_at.is_none();
            lane.dormant = quiet && dispatch.in_flight(*id) == 0 && lane.arm();
            if quiet && !lane.dormant {
                lane.disarm();
            }
            !lane.dormant
        });
    }

    /// Enters the lane and its client in the tables. `None`: they are full.
    fn enter(&mut self, new: &NewLane) -> Option<LaneId> {
        let known = self.clients.get(&new.client).copied();
        let (client, lanes) = match known {
            Some(known) => known,
            None => (self.dispatch.add_client(new.weight, new.credit)?, 0),
        };
        self.clients.insert(new.client, (client, lanes + 1));
        let lane = self.dispatch.add_lane(client, self.notify.client);
        if lane.is_none() {
            self.leave(new.client);
        }
        lane
    }

    /// One lane less of this client.
    fn leave(&mut self, key: (u32, u32)) {
        let Some((client, lanes)) = self.clients.get_mut(&key) else { return };
        *lanes -= 1;
        if *lanes == 0 {
            self.dispatch.remove_client(*client);
            self.clients.remove(&key);
        }
    }
}
