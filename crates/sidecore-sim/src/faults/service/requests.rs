//! The path of a request: taken, parsed, placed, done, answered.

use super::{Held, Lane, Pc};
use crate::faults::client::{ARENA, MAX_REQUEST};
use crate::faults::device::{Job, Reply};
use crate::faults::sabotage::Sabotage;
use crate::faults::scenario::class_of;
use crate::faults::world::{Clock, Who, World};
use crate::faults::{Invariant, result};
use sidecore_core::dispatch::{Done, LaneId, Placed, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::session::{Class, Refusal};
use sidecore_core::stage::Stamps;
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Completion, Fault, Status, Submission};

/// Requests that one lane may have served before the others are looked at.
const TURN: u32 = 16;
/// Submissions taken from a ring ahead of their turn.
const AHEAD: usize = 4;

impl World<'_> {
    /// Takes one answer of the devices from this one on, and announces it.
    pub(super) fn collect_replies(&mut self, clock: &mut Clock, from: usize) {
        let now = clock.now();
        for index in from..self.service.remote.len() {
            let number = self.service.remote[index];
            let Some(reply) = self.collect(now, self.service.devices[number]) else { continue };
            self.service.progress[number] = now;
            self.service.busy = true;
            self.service.pc = Pc::Collect(index);
            return self.finish_remote(clock, &reply);
        }
        self.service.pc = Pc::Lane(0);
    }

    /// An answer came. With a void ticket it changes nothing.
    pub(super) fn finish_remote(&mut self, clock: &mut Clock, reply: &Reply) {
        let now = clock.now();
        let place = reply.ticket.index();
        let known = self.service.held[place].filter(|held| held.ticket == reply.ticket);
        let current =
            self.service.held[place].filter(|held| held.device.is_some() && !held.kept_back).map(|held| held.ticket);
        let reuse = self.sabotage == Some(Sabotage::ReuseTicket);
        let ticket = current.filter(|_| reuse).unwrap_or(reply.ticket);
        let before = self.loads();
        let done = self.service.dispatch.complete(ticket, Some(reply.took));
        match (known, done) {
            (Some(_), Some(done)) => {
                self.service.held[place] = None;
                self.release(clock, usize::from(done.device));
                self.answer(clock, &done, Status::Done { len: reply.len });
            }
            (None, None) if self.loads() == before => {}
            (Some(held), None) => {
                self.fail(now, Invariant::Void, || format!("the ticket of {held:?} counts for nothing"));
            }
            (None, _) => self.fail(now, Invariant::Void, || format!("void {:?} changed something", reply.ticket)),
        }
    }

    /// What dispatch shows of its devices and of its table.
    fn loads(&self) -> (usize, u32, Nanos) {
        let loads = (0..self.service.devices.len()).map(|number| self.service.dispatch.device_load(number));
        let (in_flight, backlog) = loads.fold((0, 0), |(n, t), load| (n + load.in_flight, t + load.backlog));
        (self.service.dispatch.total_in_flight(), in_flight, backlog)
    }

    /// Whether a device has room for what clients want that have used their shares.
    pub(super) fn is_room_wasted(&mut self) -> bool {
        let Self { service, links, .. } = self;
        service.hot.iter().filter_map(|id| service.lanes[id.0 as usize].as_ref()).any(|lane| {
            let class = lane.pending.front().and_then(|next| class_of(next.session(), next.op()).ok());
            let ready = !lane.pending.is_empty() || links[lane.link as usize].submission.ready();
            ready && !service.dispatch.may_take(lane.client) && service.dispatch.has_room(class)
        })
    }

    fn is_ready(&self, id: LaneId) -> bool {
        let lane = self.service.lanes[id.0 as usize].as_ref();
        lane.is_some_and(|lane| !lane.pending.is_empty() || self.links[lane.link as usize].submission.ready())
    }

    /// One request of the lane at this place, or the end of its turn.
    pub(super) fn serve_lane(&mut self, clock: &mut Clock, index: usize) {
        let mut index = index;
        if self.service.turn.is_none() {
            // Lanes without traffic cost one look.
            let waiting = (index..self.service.hot.len()).find(|index| self.is_ready(self.service.hot[*index]));
            let Some(waiting) = waiting else {
                self.service.pc = if self.service.busy { Pc::RingDevices } else { Pc::LookAround };
                return;
            };
            index = waiting;
        }
        let id = self.service.hot[index];
        let Some(mut lane) = self.service.lanes[id.0 as usize].take() else { return };
        let go_on = self.serve_next(clock, id, &mut lane);
        match go_on {
            Ok(true) => {
                self.service.pc = Pc::Lane(index);
                self.service.lanes[id.0 as usize] = Some(lane);
            }
            Ok(false) => self.end_turn(clock, id, lane, index),
            Err(fault) => {
                let link = lane.link;
                self.service.lanes[id.0 as usize] = Some(lane);
                self.service.turn = None;
                self.service.pc = Pc::Lane(index);
                self.fault(clock, link, fault);
            }
        }
    }

    /// `Ok(false)`: the turn is over.
    fn serve_next(&mut self, clock: &mut Clock, id: LaneId, lane: &mut Lane) -> Result<bool, Fault> {
        let service = &mut self.service;
        lane.waits_for_device &= service.turn.is_some();
        let taken = *service.turn.get_or_insert(0);
        if taken == 0 && service.refilled[lane.client.0 as usize] != service.share {
            service.refilled[lane.client.0 as usize] = service.share;
            service.dispatch.refill(lane.client);
        }
        if self.sabotage == Some(Sabotage::IgnoreShare) && self.links[lane.link as usize].tenant == 0 {
            self.service.dispatch.refill(lane.client);
        }
        let dispatch = &mut self.service.dispatch;
        let lavish = self.sabotage == Some(Sabotage::IgnoreCredit) && dispatch.waits_for_device(lane.client);
        if taken >= TURN || !(dispatch.may_take(lane.client) || lavish) {
            return Ok(false);
        }
        if lane.pending.is_empty() {
            self.take_ahead(id, lane)?;
        }
        // A command that came before the next request is obeyed first.
        let Some(submission) = lane.pending.front().copied().filter(|_| self.service.mailbox.is_empty()) else {
            if !lane.pending.is_empty() {
                self.service.busy = true;
            }
            return Ok(false);
        };
        if !self.serve(clock, id, lane, &submission) {
            self.service.blocked = true;
            lane.waits_for_device = taken == 0;
            return Ok(false);
        }
        lane.pending.pop_front();
        self.service.turn = Some(taken + 1);
        Ok(true)
    }

    fn take_ahead(&mut self, id: LaneId, lane: &mut Lane) -> Result<(), Fault> {
        let in_flight = self.service.dispatch.in_flight(id) as usize;
        let link = &mut self.links[lane.link as usize];
        while lane.pending.len() < AHEAD {
            let mut place = Submission::EMPTY;
            let hop = &mut link.submission;
            if !place.receive(&mut hop.consumer, &hop.slots, ARENA)? {
                break;
            }
            lane.pending.push_back(place);
            if in_flight + lane.pending.len() > link.plan.slots as usize {
                return Err(Fault::TooManyInFlight);
            }
        }
        Ok(())
    }

    fn end_turn(&mut self, clock: &mut Clock, id: LaneId, mut lane: Lane, index: usize) {
        let served = self.service.turn.take().unwrap_or(0) > 0;
        self.flush(clock, &mut lane);
        let mail = !self.service.mailbox.is_empty();
        let service = &mut self.service;
        let ready = !lane.pending.is_empty() || self.links[lane.link as usize].submission.ready();
        let blocked = std::mem::take(&mut lane.waits_for_device);
        let may_take = service.dispatch.may_take(lane.client);
        let waits = blocked || service.withheld || service.dispatch.waits_for_device(lane.client);
        lane.waits_for_device = !served && !mail && waits;
        service.busy |= !lane.waits_for_device;
        service.lanes[id.0 as usize] = Some(lane);
        let mut next = index + 1;
        if served && ready && !may_take {
            // The other lanes come first next time, and in this round still.
            service.hot[index..].rotate_left(1);
            next = index;
            if service.hot.get(index) == Some(&id) {
                next = service.hot.len();
            }
        }
        service.pc = if served { Pc::Announce(id, next) } else { Pc::Lane(next) };
    }

    /// Writes the completions of a lane that wait.
    fn flush(&mut self, clock: &mut Clock, lane: &mut Lane) {
        for message in std::mem::take(&mut lane.outbox) {
            let lost = self.sabotaged(clock, Sabotage::LoseCompletion, 16);
            let twice = self.sabotaged(clock, Sabotage::DuplicateCompletion, 16);
            let completion = &mut self.links[lane.link as usize].completion;
            if !lost {
                completion.push(&message);
            }
            if twice {
                completion.push(&message);
            }
        }
    }

    fn refuse(&mut self, id: LaneId, lane: &mut Lane, submission: &Submission, refusal: Refusal) -> bool {
        self.service.dispatch.refuse(id, submission.is_urgent());
        let status = Status::Refused(refusal);
        lane.outbox.push(Completion { tag: submission.tag(), status, stamps: None }.encode());
        true
    }

    /// `false`: no device has room.
    fn serve(&mut self, clock: &mut Clock, id: LaneId, lane: &mut Lane, submission: &Submission) -> bool {
        let now = clock.now();
        let class = match class_of(submission.session(), submission.op()) {
            Ok(class) => class,
            Err(refusal) => return self.refuse(id, lane, submission, refusal),
        };
        if submission.input_len() > MAX_REQUEST {
            return self.refuse(id, lane, submission, Refusal::TooLarge);
        }
        let (size, tag) = (submission.input_len() as u32, submission.tag());
        let (urgent, submitted) = (submission.is_urgent(), submission.submitted());
        let work = Work { lane: id, tag, class, size, urgent, submitted };
        let tenant = self.links[lane.link as usize].tenant as usize;
        let placed = self.service.dispatch.place(now, work);
        match placed {
            Placed::Full => return false,
            Placed::NoDevice => {
                if self.some_device_can(class) {
                    self.fail(now, Invariant::Blame, || format!("tag {tag} was refused for want of a device"));
                }
                return self.refuse(id, lane, submission, Refusal::NoDevice);
            }
            Placed::Now { device, cost } => {
                self.tenants[tenant].charged += cost;
                let took = self.devices[self.service.devices[device] as usize].plan.time(size);
                self.service.worked = took;
                let status = Status::Done { len: result(lane.link, tag, size) };
                let stamps = submitted.map(|submitted| Stamps { submitted, handed: now, taken: now });
                lane.outbox.push(Completion { tag, status, stamps }.encode());
            }
            Placed::On { device, ticket } | Placed::Held { device, ticket } => {
                let kept_back = matches!(placed, Placed::Held { .. });
                let cost = self.service.dispatch.estimate(device, class, size);
                self.tenants[tenant].charged += cost;
                let link = lane.link;
                let held =
                    Held { ticket, lane: id, device: None, cost, losses: 0, kept_back, link, tag, size, class, urgent };
                self.give(clock, device, held);
            }
        }
        true
    }

    /// Enters a request for a device that answers later, and hands it over unless it is kept back.
    pub(super) fn give(&mut self, clock: &mut Clock, number: usize, held: Held) {
        self.service.held[held.ticket.index()] = Some(Held { device: Some(number), ..held });
        if !held.kept_back {
            self.hand_over(clock, number, held);
        }
    }

    /// Gives a device what was kept back for it and what it may begin with now.
    pub(super) fn release(&mut self, clock: &mut Clock, number: usize) {
        while let Some(ticket) = self.service.dispatch.release(clock.now(), number) {
            let held =
                self.service.held[ticket.index()].as_mut().filter(|held| held.ticket == ticket && held.kept_back);
            let Some(held) = held else {
                return self
                    .fail(clock.now(), Invariant::Void, || format!("{ticket:?} is released and was not kept back"));
            };
            held.kept_back = false;
            let held = *held;
            self.hand_over(clock, number, held);
        }
    }

    fn hand_over(&mut self, clock: &mut Clock, number: usize, held: Held) {
        let now = clock.now();
        let Held { ticket, link, tag, size, urgent, .. } = held;
        if self.service.dispatch.device_load(number).in_flight <= 1 {
            self.service.progress[number] = now;
        }
        let device = self.service.devices[number];
        self.say(now, || format!("tag {tag} of link {link} goes to device {device}"));
        self.hand(now, device, Job { ticket, link, tag, size, urgent });
        if self.sabotage == Some(Sabotage::CompleteEarly) {
            let _ = self.service.dispatch.complete(ticket, None);
        }
    }

    /// Writes and announces the completion of a request that was in flight.
    pub(super) fn answer(&mut self, clock: &mut Clock, done: &Done, status: Status) {
        let (id, now) = (done.work.lane, clock.now());
        let Some(mut lane) = self.service.lanes.get_mut(id.0 as usize).and_then(Option::take) else { return };
        if done.lane_open {
            let submitted = done.work.submitted;
            let stamps = submitted.map(|submitted| Stamps { submitted, handed: done.handed, taken: now });
            lane.outbox.push(Completion { tag: done.work.tag, status, stamps }.encode());
            self.flush(clock, &mut lane);
        }
        self.service.lanes[id.0 as usize] = Some(lane);
        if done.lane_open {
            self.announce(clock, id);
        }
    }

    /// The client broke the protocol: its lane ends, nobody else notices.
    fn fault(&mut self, clock: &mut Clock, link: u32, fault: Fault) {
        let now = clock.now();
        self.say(now, || format!("link {link} broke the protocol: {}", fault.name()));
        let mut victim = link;
        if self.sabotage == Some(Sabotage::PunishNeighbour) {
            let other = self.service.lanes.iter().flatten().map(|lane| lane.link).find(|other| *other != link);
            victim = other.unwrap_or(link);
        }
        if self.links[victim as usize].hostile.is_none() {
            self.fail(now, Invariant::Bystander, || format!("link {victim} loses its lane and did nothing: {fault:?}"));
        }
        self.close_lane(victim);
        self.links[victim as usize].ended.get_or_insert(crate::faults::client::End::Fault);
        self.end(clock, Who::Client(victim));
    }

    /// The ticket that dispatch gave out for a request that moves or waits.
    pub(super) fn moved(&mut self, old: Ticket, ticket: Ticket, class: Class) -> Option<Held> {
        let held = self.service.held[old.index()].take().filter(|held| held.class == class)?;
        Some(Held { ticket, device: None, losses: held.losses + u8::from(held.device.is_some()), ..held })
    }
}
