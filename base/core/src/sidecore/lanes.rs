//! Lanes of a sidecore: joining, leaving, resting, announcing.

use super::{Lanes, Sidecore, rounds::Timers};
use crate::dispatch::UserShare;
use crate::dispatch::record::Call;
use crate::policy::notify::WakeDecision;
use crate::stage::Stamps;
use crate::time::Nanos;
use crate::wire::{Completion, Fault, Status, Submission};
use crate::work::{ClientId, LaneId};
use alloc::boxed::Box;

/// Submissions taken from a ring ahead of their turn, so that their payload is prefetched.
const AHEAD: usize = 16;
/// Completions that are written together.
const BATCH: usize = 16;
pub(super) const HOLD: Nanos = 2_000;

/// A lane to serve from now on.
#[derive(Debug)]
pub struct NewLane<L> {
    /// The host's name for its client; lanes of one client share credit and weight.
    pub client: u64,
    /// The client's user, and the user's share of the sidecore's time, relative to others.
    pub user: UserShare,
    /// The client's part of its user's share, relative to the user's other clients.
    pub weight: u32,
    /// Most requests that the client may have in flight.
    pub credit: u32,
    /// Slots of each of its rings.
    pub slots: u32,
    /// The lane as the host knows it.
    pub end: L,
}

#[derive(Debug)]
pub(super) struct Pending {
    places: [Submission; AHEAD],
    first: usize,
    end: usize,
    run: u32,
    /// The first one has passed the limit of its key, and may still wait for a device.
    pub(super) admitted: bool,
}

impl Pending {
    fn new() -> Self {
        Self { places: [Submission::EMPTY; AHEAD], first: 0, end: 0, run: 0, admitted: false }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    #[inline]
    pub(super) fn first(&self) -> &Submission {
        self.places.get(self.first).unwrap_or(&Submission::EMPTY)
    }

    /// Number of first ones that differ in their tags only. Counted once for all of them, since a device takes them
    /// one by one.
    #[inline]
    pub(super) fn run(&mut self) -> u32 {
        if self.run == 0
            && let Some([first, rest @ ..]) = self.places.get(self.first..self.end)
        {
            self.run = 1 + rest.iter().take_while(|next| next.is_like(first)).count() as u32;
        }
        self.run
    }

    #[inline]
    pub(super) fn drop_first(&mut self) {
        self.admitted = false;
        self.run = self.run.saturating_sub(1);
        self.first += 1;
        if self.first >= self.end {
            (self.first, self.end) = (0, 0);
        }
    }
}

/// Completions that wait to be written. Written one after the other, the transfers of their slots overlap. Written
/// between two requests, each would stop the core until its slot has arrived from the client's core.
#[derive(Debug)]
struct Outbox {
    answers: [[u64; 2]; BATCH],
    len: usize,
    /// Work done meanwhile, ns.
    work: Nanos,
}

#[derive(Debug)]
pub(super) struct Lane<L> {
    pub(super) end: L,
    pub(super) client: ClientId,
    client_name: u64,
    slots: u32,
    pub(super) pending: Pending,
    outbox: Outbox,
    /// Its next request waits for a device's answer: a look before that is useless.
    pub(super) waits_for_device: bool,
    pub(super) active_at: Nanos,
    dormant: bool,
    announce_at: Option<Nanos>,
}

impl<L> Lane<L> {
    fn new(new: NewLane<L>, client: ClientId, now: Nanos) -> Self {
        Self {
            end: new.end,
            client,
            client_name: new.client,
            slots: new.slots,
            pending: Pending::new(),
            outbox: Outbox { answers: [[0; 2]; BATCH], len: 0, work: 0 },
            waits_for_device: false,
            active_at: now,
            dormant: false,
            announce_at: None,
        }
    }

    #[inline]
    pub(super) fn is_ready(&self, host: &impl Lanes<Lane = L>) -> bool {
        !self.pending.is_empty() || host.is_ready(&self.end)
    }

    #[inline]
    pub(super) fn take_ahead(&mut self, host: &mut impl Lanes<Lane = L>, in_flight: u32) -> Result<(), Fault> {
        let Self { pending, end, slots, outbox, .. } = self;
        let room = (*slots).saturating_sub(in_flight) as usize;
        for (number, place) in pending.places.iter_mut().enumerate() {
            if !host.receive(end, place, outbox.len + number)? {
                return Ok(());
            }
            if number >= room {
                return Err(Fault::TooManyInFlight);
            }
            pending.end = number + 1;
        }
        // There was more than one fill: the next one has probably arrived as well.
        host.expect(end);
        Ok(())
    }

    #[inline]
    pub(super) fn push(&mut self, host: &mut impl Lanes<Lane = L>, tag: u32, status: Status) {
        self.outbox.answers[self.outbox.len] = Completion::words(tag, status);
        self.outbox.len += 1;
        if self.outbox.len == BATCH {
            self.flush(host);
        }
    }

    pub(super) fn push_sampled(&mut self, host: &mut impl Lanes<Lane = L>, tag: u32, status: Status, stamps: &Stamps) {
        self.flush(host);
        host.write(&mut self.end, &Completion::sampled_words(tag, status, stamps));
    }

    #[inline]
    pub(super) fn hold(&mut self, host: &mut impl Lanes<Lane = L>, work: Nanos) {
        if self.outbox.work + work > HOLD {
            self.flush(host);
        }
        self.outbox.work += work;
    }

    #[inline]
    pub(super) fn flush(&mut self, host: &mut impl Lanes<Lane = L>) {
        for answer in &self.outbox.answers[..self.outbox.len] {
            host.write(&mut self.end, answer);
        }
        (self.outbox.len, self.outbox.work) = (0, 0);
    }
}

impl Timers {
    #[inline]
    pub(super) fn announce<H: Lanes>(&mut self, host: &mut H, lane: &mut Lane<H::Lane>, ring: WakeDecision) {
        lane.announce_at = None;
        if let WakeDecision::At(at) = ring {
            lane.announce_at = Some(at);
            self.announce = Some(self.announce.map_or(at, |due| due.min(at)));
        }
        host.announce(&mut lane.end, ring);
    }
}

impl<L, R> Sidecore<L, R> {
    /// Serves a lane from now on.
    ///
    /// # Errors
    /// The lane: the tables are full.
    pub fn add_lane(&mut self, new: NewLane<L>) -> Result<LaneId, L> {
        let Some((id, client)) = self.enter(&new) else { return Err(new.end) };
        self.spent.enter(id, client, self.dispatch.user_of(client));
        let index = id.0 as usize;
        if self.lanes.len() <= index {
            self.lanes.resize_with(index + 1, || None);
        }
        self.lanes[index] = Some(Box::new(Lane::new(new, client, self.now)));
        self.open_lanes += 1;
        self.watched.push(id);
        Ok(id)
    }

    /// Ends service of the lane, and returns it.
    pub fn close_lane(&mut self, id: LaneId) -> Option<L> {
        let lane = self.lanes.get_mut(id.0 as usize)?.take()?;
        self.open_lanes -= 1;
        self.dispatch.make(&Call::CloseLane(id));
        self.watched.retain(|watched| *watched != id);
        self.leave(lane.client_name);
        Some(lane.end)
    }

    /// The lane as the host knows it.
    pub fn lane_mut(&mut self, id: LaneId) -> Option<&mut L> {
        self.lanes.get_mut(id.0 as usize)?.as_mut().map(|lane| &mut lane.end)
    }

    /// All open lanes.
    pub fn lanes(&self) -> impl Iterator<Item = (LaneId, &L)> {
        let lanes = self.lanes.iter().enumerate();
        lanes.filter_map(|(id, lane)| Some((LaneId(id as u32), &lane.as_ref()?.end)))
    }

    /// Time of the lane's deferred announcement, if there is one, ns.
    pub fn announces_at(&self, id: LaneId) -> Option<Nanos> {
        self.lanes.get(id.0 as usize)?.as_ref()?.announce_at
    }

    /// The client's number and how many lanes it has, by the host's name for it.
    pub fn client(&self, name: u64) -> Option<(ClientId, u32)> {
        self.clients.get(&name).copied()
    }

    pub(super) fn fault(&mut self, host: &mut impl Lanes<Lane = L>, id: LaneId, fault: Fault) {
        if let Some(lane) = self.close_lane(id) {
            host.faulted(lane, fault);
        }
    }

    /// The doorbell of this lane rang: a dormant lane is watched again.
    pub fn rang(&mut self, host: &mut impl Lanes<Lane = L>, id: LaneId) {
        let Some(lane) = self.lanes.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        lane.active_at = self.now;
        host.disarm(&lane.end);
        if core::mem::take(&mut lane.dormant) {
            self.watched.push(id);
        }
    }

    /// Changes how each side of its hops waits. The host has informed devices and clients already.
    pub fn set_notify(&mut self, host: &mut impl Lanes<Lane = L>, notify: super::WaitPolicies) {
        self.notify = notify;
        self.waits.waiter.set_policy(notify.service);
        for index in 0..self.lanes.len() {
            let Some(lane) = &mut self.lanes[index] else { continue };
            let id = LaneId(index as u32);
            self.dispatch.make(&Call::SetNotify(id, notify.client));
            let ring = self.dispatch.due(self.now, id);
            self.timers.announce(host, lane, ring);
        }
    }

    pub(super) fn announce_due(&mut self, host: &mut impl Lanes<Lane = L>) {
        if self.timers.announce.is_none_or(|due| self.now < due) {
            return;
        }
        self.timers.announce = None;
        for id in self.watched.iter() {
            let Some(lane) = &mut self.lanes[id.0 as usize] else { continue };
            let Some(at) = lane.announce_at else { continue };
            let ring = if at > self.now { WakeDecision::At(at) } else { self.dispatch.due(self.now, *id) };
            self.timers.announce(host, lane, ring);
        }
    }

    pub(super) fn rest_quiet_lanes(&mut self, host: &mut impl Lanes<Lane = L>) {
        let Self { lanes, dispatch, watched, loop_limits, now, .. } = self;
        if watched.len() <= loop_limits.watched_lanes {
            return;
        }
        watched.retain(|id| {
            let Some(lane) = &mut lanes[id.0 as usize] else { return false };
            let quiet = now.saturating_sub(lane.active_at) > loop_limits.quiet && lane.announce_at.is_none();
            if !quiet || dispatch.in_flight(*id) > 0 {
                return true;
            }
            host.arm(&lane.end);
            lane.dormant = !lane.is_ready(host);
            if lane.dormant {
                dispatch.make(&Call::Idle(lane.client));
            } else {
                host.disarm(&lane.end);
            }
            !lane.dormant
        });
    }

    fn enter(&mut self, new: &NewLane<L>) -> Option<(LaneId, ClientId)> {
        let call = Call::AddClientOf { user: new.user, weight: new.weight, credit: new.credit };
        let known = self.client(new.client);
        let (client, lanes) = known.or_else(|| Some((ClientId(self.dispatch.make(&call)?), 0)))?;
        self.clients.insert(new.client, (client, lanes + 1));
        let lane = self.dispatch.make(&Call::AddLane(client, self.notify.client));
        if lane.is_none() {
            self.leave(new.client);
        }
        lane.map(|lane| (LaneId(lane), client))
    }

    fn leave(&mut self, name: u64) {
        let Some((client, lanes)) = self.clients.get_mut(&name) else { return };
        *lanes -= 1;
        if *lanes == 0 {
            self.dispatch.make(&Call::RemoveClient(*client));
            self.clients.remove(&name);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::session::Op;
    use crate::wire::{Extent, Request};

    #[test]
    fn a_run_ends_where_requests_differ_and_is_the_shorter_for_each_that_is_dropped() {
        let mut pending = Pending::new();
        assert_eq!(pending.run(), 0);
        let sessions = [7, 7, 7, 8, 8];
        for (tag, session) in sessions.into_iter().enumerate() {
            let (tag, op, submitted) = (tag as u32, Op::Noop, (tag == 4).then_some(1));
            let (inputs, outputs): (&[Extent], &[Extent]) = (&[], &[]);
            let request = Request { tag, op, session, head_len: 0, inputs, outputs, urgent: false, submitted };
            pending.places[tag as usize] = Submission::of(&request).unwrap();
        }
        pending.end = sessions.len();
        for run in [3, 2, 1, 1, 1] {
            assert_eq!(pending.run(), run);
            pending.drop_first();
        }
        assert!(pending.is_empty() && pending.run() == 0);
    }
}
