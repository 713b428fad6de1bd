//! Lanes as their sidecore knows them: joining, leaving, resting, announcing.

use super::super::command::{Event, LaneKey, NewLane};
use super::super::sessions::Sessions;
use super::{QUIET, Reactor, Timers, WATCHED_LANES};
use crate::counters::{LaneBlock, LaneCounter, SidecoreCounter};
use crate::engine::execute::prefetch;
use crate::shm::LaneMemory;
use crate::sys::wake;
use sidecore_core::dispatch::{ClientId, LaneId};
use sidecore_core::policy::notify::Ring;
use sidecore_core::ring::{Consumer, MESSAGE_WORDS, Message, Producer};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Completion, Fault, Submission};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Submissions taken from a ring ahead of their turn, so that their payload is on its way.
const AHEAD: usize = 16;

/// What was taken from the ring and checked, and waits for its turn. Filled only when empty.
#[derive(Debug)]
pub(super) struct Pending {
    places: [Submission; AHEAD],
    first: usize,
    end: usize,
}

impl Pending {
    fn new() -> Self {
        Self { places: [Submission::EMPTY; AHEAD], first: 0, end: 0 }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        (self.end - self.first) as u32
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// The next one; an empty one if none waits.
    #[inline]
    pub(super) fn first(&self) -> &Submission {
        self.places.get(self.first).unwrap_or(&Submission::EMPTY)
    }

    #[inline]
    pub(super) fn drop_first(&mut self) {
        self.first += 1;
        if self.first >= self.end {
            (self.first, self.end) = (0, 0);
        }
    }
}

/// Completions that are written together.
const BATCH: usize = 16;
/// No completion waits for more work than this to be done, ns.
const HOLD: Nanos = 2_000;

/// Completions that wait to be written. The transfers of their slots overlap when they are written one after the other;
/// between two requests each would stop the core until its slot has come from the client's.
#[derive(Debug)]
struct Outbox {
    messages: [Message; BATCH],
    len: usize,
    /// Work that was done meanwhile, ns.
    held: Nanos,
}

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
    pub(super) pending: Pending,
    consumer: Consumer,
    producer: Producer,
    outbox: Outbox,
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
            pending: Pending::new(),
            consumer: Consumer::new(),
            producer: Producer::new(),
            outbox: Outbox { messages: [[0; MESSAGE_WORDS]; BATCH], len: 0, held: 0 },
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

    /// Takes the next submission of the ring, if one is there and a place is free, and starts the transfer of its payload.
    #[inline]
    pub(super) fn receive(&mut self) -> Result<bool, Fault> {
        let Some(place) = self.pending.places.get_mut(self.pending.end) else {
            // There was more than one fill: the next one is likely there as well.
            self.memory.prefetch_submissions(self.consumer.popped(), AHEAD as u64);
            return Ok(false);
        };
        let arena_bytes = self.memory.layout().arena_bytes();
        if !place.receive(&mut self.consumer, self.memory.submission(), arena_bytes)? {
            return Ok(false);
        }
        prefetch(&self.memory, place);
        self.memory.prefetch_completion(self.producer.pushed() + (self.outbox.len + self.pending.end) as u64);
        self.pending.end += 1;
        Ok(true)
    }

    /// Queues a completion, to be written at the latest by [`Lane::flush`].
    #[inline]
    pub(super) fn push(&mut self, completion: &Completion) {
        self.outbox.messages[self.outbox.len] = completion.encode();
        self.outbox.len += 1;
        if self.outbox.len == BATCH {
            self.flush();
        }
    }

    /// So much work comes next: completions that would wait for too much are written now.
    #[inline]
    pub(super) fn hold(&mut self, work: Nanos) {
        self.outbox.held += work;
        if self.outbox.held > HOLD {
            self.flush();
        }
    }

    /// Writes the completions that wait.
    #[inline]
    pub(super) fn flush(&mut self) {
        for message in &self.outbox.messages[..self.outbox.len] {
            self.producer.push(self.memory.completion(), message);
        }
        (self.outbox.len, self.outbox.held) = (0, 0);
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

impl Timers {
    /// Wakes a lane's client now, later, or not at all.
    #[inline]
    pub(super) fn ring(&mut self, lane: &mut Lane, ring: Ring) {
        lane.announce_at = None;
        match ring {
            Ring::Now => {
                if lane.memory.completion_doorbell().must_wake() {
                    wake::ring_pipe(&lane.wake);
                    lane.counters.add(LaneCounter::WakeupsSent, 1);
                } else {
                    lane.counters.add(LaneCounter::WakeupsSaved, 1);
                }
            }
            Ring::At(at) => {
                lane.announce_at = Some(at);
                self.announce = Some(self.announce.map_or(at, |due| due.min(at)));
            }
            Ring::Nothing => {}
        }
    }
}

impl Reactor {
    #[inline]
    pub(super) fn lane(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.lanes.get_mut(id.0 as usize)?.as_deref_mut()
    }

    pub(super) fn lane_of(&mut self, key: LaneKey) -> Option<&mut Lane> {
        let id = *self.keys.get(&key)?;
        self.lane(id)
    }

    pub(super) fn add_lane(&mut self, new: NewLane) {
        let (key, client_key) = (new.key, new.client);
        let Some(id) = self.enter(&new) else { return self.tell(Event::NoRoom(key, Box::new(new))) };
        let index = id.0 as usize;
        // A pipe of our own making can be added unless memory is short; then the lane cannot be served.
        if self.poller.add_edge(&new.doorbell, u64::from(id.0)).is_err() {
            self.dispatch.close_lane(id);
            self.leave(client_key);
            return self.tell(Event::NoRoom(key, Box::new(new)));
        }
        let client = self.clients[&client_key].0;
        let lane = Lane::new(new, client, self.now);
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, || None);
        }
        self.lanes[index] = Some(Box::new(lane));
        self.keys.insert(key, id);
        self.hot.push(id);
    }

    /// Serves the lane no more. What is left of it is to be freed elsewhere: to unmap it can take long.
    pub(super) fn close_lane(&mut self, key: LaneKey) -> Option<Box<Lane>> {
        let id = self.keys.remove(&key)?;
        let lane = self.lanes[id.0 as usize].take()?;
        self.poller.remove(&lane.doorbell);
        self.dispatch.close_lane(id);
        self.hot.retain(|hot| *hot != id);
        self.leave(lane.client_key);
        Some(lane)
    }

    /// The client broke the protocol: its lane ends, nobody else notices.
    pub(super) fn fault(&mut self, id: LaneId, fault: Fault) {
        self.counters.add(SidecoreCounter::Faults, 1);
        let Some(lane) = self.lane(id) else { return };
        lane.counters.set(LaneCounter::Fault, fault as u64 + 1);
        let key = lane.key;
        if let Some(lane) = self.close_lane(key) {
            self.tell(Event::Fault(key, fault, lane));
        }
    }

    /// When the waiter of this lane is woken, after a change of policy.
    pub(super) fn announce(&mut self, id: LaneId) {
        let ring = self.dispatch.due(self.now, id);
        if let Some(lane) = &mut self.lanes[id.0 as usize] {
            self.timers.ring(lane, ring);
        }
    }

    /// The time of a put-off announcement has come.
    pub(super) fn announce_due(&mut self) {
        self.timers.announce = None;
        for id in &self.hot {
            let Some(lane) = &mut self.lanes[id.0 as usize] else { continue };
            let Some(at) = lane.announce_at else { continue };
            let ring = if at > self.now { Ring::At(at) } else { self.dispatch.due(self.now, *id) };
            self.timers.ring(lane, ring);
        }
    }

    /// Stops looking at lanes without traffic, if there are more than can be watched for nothing.
    pub(super) fn rest_quiet_lanes(&mut self) {
        if self.hot.len() <= WATCHED_LANES {
            return;
        }
        let (lanes, dispatch, now) = (&mut self.lanes, &mut self.dispatch, self.now);
        self.hot.retain(|id| {
            let Some(lane) = &mut lanes[id.0 as usize] else { return false };
            let quiet = now.saturating_sub(lane.active_at) > QUIET && lane.announce_at.is_none();
            lane.dormant = quiet && dispatch.in_flight(*id) == 0 && lane.arm();
            if lane.dormant {
                dispatch.idle(lane.client);
            } else if quiet {
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
