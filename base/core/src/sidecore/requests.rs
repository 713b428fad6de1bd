//! The path of a request: taken, planned, placed, done, answered.

use super::lanes::{HOLD, Lane};
use super::rounds::RoundPhase;
use super::{Action, Engine, Event, Host, Lanes, Plan, Reply, Sidecore, TurnStats};
use crate::dispatch::record::Call;
use crate::dispatch::{Done, Placement};
use crate::inflight::Ticket;
use crate::session::Refusal;
use crate::stage::Stamps;
use crate::time::Nanos;
use crate::wire::{Fault, Status};
use crate::work::{LaneId, Work};
use alloc::boxed::Box;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Nothing waits, or its client's share of this round is used.
    Yield,
    /// No device has room.
    Blocked,
    Commands,
    Fault(Fault),
    /// The step's budget is used up.
    Pause,
}

impl<L, R> Sidecore<L, R> {
    /// Whether a device has room for requests of clients that have used their shares. If none has, no new shares are
    /// assigned while a client with a share waits for a device. Otherwise the client with the first lane would take
    /// every place that gets free.
    pub(super) fn is_room_wasted(&mut self, host: &impl Engine<Lane = L>) -> bool {
        let Self { lanes, watched, dispatch, .. } = self;
        watched.iter().filter_map(|id| lanes[id.0 as usize].as_ref()).any(|lane| {
            let wanted = (!lane.pending.is_empty()).then(|| lane.pending.first());
            let wanted = wanted.and_then(|next| host.plan(&lane.end, next).ok());
            lane.is_ready(host)
                && !dispatch.may_take(lane.client)
                && wanted.map_or_else(
                    || dispatch.would_place_any(),
                    |plan| dispatch.would_place(plan.class, plan.size, plan.key_location),
                )
        })
    }

    pub(super) fn serve_lanes<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        from: usize,
        budget: u32,
    ) -> Action {
        // A gap of the list is not the number of a lane.
        let lane = |id: &LaneId| self.lanes.get(id.0 as usize)?.as_ref();
        let ready = |id: &LaneId| !self.spent.has(*id) && lane(id).is_some_and(|lane| lane.is_ready(host));
        // Within a turn the lane's place is known; else lanes without traffic cost one look.
        let found = if self.turn.is_some() {
            Some(0)
        } else {
            self.watched.get(from..).and_then(|rest| rest.iter().position(ready))
        };
        let Some(index) = found.map(|place| from + place).filter(|index| *index < self.round_end) else {
            self.phase = if self.busy && !self.remote.is_empty() { RoundPhase::Bells } else { RoundPhase::RoundOver };
            return Action::Step;
        };
        let id = self.watched[index];
        // Taken out of the table for its turn, so that other parts of the sidecore can be borrowed.
        let Some(mut lane) = self.lanes[id.0 as usize].take() else { return Action::Step };
        let mut turn = self.turn.take().unwrap_or_default();
        match self.serve_turn(host, id, &mut lane, &mut turn, budget) {
            End::Pause => {
                self.turn = Some(turn);
                self.phase = RoundPhase::Lane(index);
                self.lanes[id.0 as usize] = Some(lane);
                Action::Step
            }
            end => self.end_turn(host, (id, index), lane, &turn, end),
        }
    }

    fn serve_turn<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        id: LaneId,
        lane: &mut Lane<L>,
        turn: &mut TurnStats,
        budget: u32,
    ) -> End {
        let client = lane.client;
        self.dispatch.begin_turn(client, self.share);
        let pause = turn.taken.saturating_add(budget);
        let limit = self.loop_limits.turn.min(pause);
        while turn.taken < limit {
            if !self.dispatch.may_take(client) {
                return End::Yield;
            }
            if lane.pending.is_empty()
                && let Err(fault) = lane.take_ahead(host, self.dispatch.in_flight(id))
            {
                return End::Fault(fault);
            }
            if lane.pending.is_empty() {
                return End::Yield;
            }
            // Once a command is answered, its effect must show: commands come before the next request.
            if host.has_commands() {
                return End::Commands;
            }
            if !self.serve(host, id, lane, turn, limit) {
                return End::Blocked;
            }
        }
        if limit < pause { End::Yield } else { End::Pause }
    }

    fn end_turn<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        (id, index): (LaneId, usize),
        mut lane: Box<Lane<L>>,
        turn: &TurnStats,
        end: End,
    ) -> Action {
        let served = turn.taken > 0;
        if served {
            lane.flush(host);
            lane.active_at = self.now;
            host.on(Event::TurnEnded { lane: &lane.end, turn, in_flight: self.dispatch.in_flight(id) });
        }
        let may_go_on = self.dispatch.may_take(lane.client);
        let cut_off = served && !may_go_on;
        if may_go_on || served {
            self.spent.someone_is_in_credit();
        }
        // If nothing was served, only a device's answer can help: a look before that is useless.
        lane.waits_for_device = !served
            && end != End::Commands
            && (end == End::Blocked || self.withheld || self.dispatch.waits_for_device(lane.client));
        self.busy |= !lane.waits_for_device;
        // Whoever waits for a device says nothing about the other lanes of its user.
        if !may_go_on && !lane.waits_for_device && lane.is_ready(host) {
            self.spent.lacks(id, self.dispatch.lack(lane.client));
        }
        self.blocked |= end == End::Blocked;
        self.lanes[id.0 as usize] = Some(lane);
        if let End::Fault(fault) = end {
            // The lane that follows moves to its place.
            self.fault(host, id, fault);
            self.round_end -= 1;
            self.phase = RoundPhase::Lane(index);
            return Action::Step;
        }
        let mut next = index + 1;
        if cut_off {
            // The lane moves to the end, even if it is empty now. Otherwise a client that submits again immediately
            // would have its first lanes served forever. Its other lanes still have their turn in this round.
            let moved = self.watched.put_last(index);
            self.round_end -= moved;
            next -= moved;
        }
        if served {
            // Completions are announced before any command is obeyed; then this lane finds the commands again.
            let again = end == End::Commands && !cut_off;
            self.phase = RoundPhase::Announce(id, if again { index } else { next });
            return Action::Step;
        }
        self.phase = RoundPhase::Lane(next);
        if end == End::Commands { Action::Obey } else { Action::Step }
    }

    /// Serves the first pending request, and the following ones that differ in their tags only and may run with it.
    /// The turn takes at most `limit` in all. `false`: no device has room, and none was taken.
    #[inline]
    fn serve<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        id: LaneId,
        lane: &mut Lane<L>,
        turn: &mut TurnStats,
        limit: u32,
    ) -> bool {
        let submission = lane.pending.first();
        let plan = match host.plan(&lane.end, submission) {
            Ok(plan) => plan,
            Err(refusal) => return self.refuse(host, id, lane, refusal, turn),
        };
        if plan.is_limited && !lane.pending.admitted {
            if let Err(refusal) = host.admit(&lane.end, plan) {
                return self.refuse(host, id, lane, refusal, turn);
            }
            lane.pending.admitted = true;
        }
        let submission = lane.pending.first();
        let (tag, urgent, submitted) = (submission.tag(), submission.is_urgent(), submission.submitted());
        let mut run = 1;
        if submitted.is_some() {
            // A sampled completion carries the time of handover.
            self.now = host.now();
        } else if !plan.is_limited {
            run = lane.pending.run().min(limit - turn.taken);
        }
        let Plan { class, size, key_location, .. } = plan;
        let work = Work { lane: id, tag, class, size, urgent, key_location, submitted };
        match self.dispatch.place_run(self.now, work, run, HOLD) {
            (Placement::Now { device, cost }, count) => {
                self.run(host, lane, (device, cost, count), &work, plan, turn);
                return true;
            }
            (Placement::Assigned(given), _) => {
                let request = host.request(&lane.end, lane.pending.first(), plan);
                host.on(Event::Submitted { work: &work, request: &request, given });
                self.requests[given.ticket.index()] = Some(request);
                if given.begins {
                    self.submit(host, given.device, given.ticket);
                }
            }
            (Placement::Full, _) => return false,
            (Placement::NoDevice, _) => {
                let refusal = if key_location.is_local() { Refusal::NoDevice } else { Refusal::KeyElsewhere };
                return self.refuse(host, id, lane, refusal, turn);
            }
        }
        lane.pending.drop_first();
        turn.taken += 1;
        true
    }

    #[inline]
    fn run<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        lane: &mut Lane<L>,
        (device, cost, count): (usize, Nanos, u32),
        work: &Work,
        plan: Plan,
        turn: &mut TurnStats,
    ) {
        lane.hold(host, cost.saturating_mul(u64::from(count)));
        for _ in 0..count {
            let submission = lane.pending.first();
            let tag = submission.tag();
            let outcome = host.run(&mut lane.end, submission, plan);
            lane.pending.drop_first();
            match outcome {
                Ok(len) => {
                    turn.done += 1;
                    turn.bytes_out += u64::from(len);
                }
                Err(_) => turn.refused += 1,
            }
            let status = status(outcome);
            match work.submitted {
                None => lane.push(host, tag, status),
                Some(submitted) => {
                    let stamps = self.ran_sampled(host, lane, (device, submitted), work, plan, outcome);
                    lane.push_sampled(host, tag, status, &stamps);
                }
            }
        }
        host.on(Event::Ran { lane: &lane.end, device, work, count });
        turn.taken += count;
        turn.bytes_in += u64::from(count) * u64::from(work.size);
    }

    fn ran_sampled<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        lane: &Lane<L>,
        (device, submitted): (usize, Nanos),
        work: &Work,
        plan: Plan,
        outcome: Result<u32, Refusal>,
    ) -> Stamps {
        let handed = core::mem::replace(&mut self.now, host.now());
        let stamps = Stamps { submitted, handed, taken: self.now };
        // A refused request takes no time, which is no measure of others.
        if outcome.is_ok() {
            self.dispatch.observe(device, work.class, work.size, stamps.device());
        }
        host.on(Event::Sampled { lane: &lane.end, device, work, plan: &plan, stamps: &stamps });
        stamps
    }

    #[cold]
    fn refuse<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        id: LaneId,
        lane: &mut Lane<L>,
        refusal: Refusal,
        turn: &mut TurnStats,
    ) -> bool {
        let submission = lane.pending.first();
        host.on(Event::Refused { lane: &lane.end, submission, refusal });
        let urgent = submission.is_urgent();
        self.dispatch.make(&Call::Refuse { lane: id, urgent });
        let tag = submission.tag();
        lane.push(host, tag, Status::Refused(refusal));
        lane.pending.drop_first();
        turn.refused += 1;
        turn.taken += 1;
        true
    }

    pub(super) fn submit<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, device: usize, ticket: Ticket) {
        if self.dispatch.device_load(device).in_flight <= 1 {
            self.devices[device].progress_at = self.now;
        }
        if let Some(request) = &self.requests[ticket.index()] {
            host.submit(device, ticket, request);
        }
    }

    #[inline]
    pub(super) fn release<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, device: usize) {
        while let Some(ticket) = self.dispatch.release(self.now, device) {
            self.submit(host, device, ticket);
        }
    }

    /// Takes one answer, of the devices from this one on.
    pub(super) fn collect<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, from: usize) -> Action {
        for place in from..self.remote.len() {
            let device = self.remote[place];
            if let Some(reply) = host.poll(device, self.now) {
                self.devices[device].progress_at = self.now;
                self.busy = true;
                self.phase = RoundPhase::Replies(place);
                self.finish(host, &reply);
                return Action::Step;
            }
        }
        self.phase = RoundPhase::Lane(0);
        Action::Step
    }

    /// A device is done with a request. A late answer of a removed device has a void ticket.
    pub fn finish<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, reply: &Reply) {
        let ticket = reply.ticket;
        if let Err(why @ (Refusal::KeyElsewhere | Refusal::KeyDenied)) = reply.outcome {
            return self.take_back(host, ticket, why);
        }
        // With a void ticket the request was taken from this device before, and its place may be another request's
        // now.
        let done = self.dispatch.complete(ticket, reply.outcome.is_ok().then_some(reply.part));
        host.on(Event::Finished { reply, done: done.as_ref() });
        let Some(done) = done else { return };
        let request = self.requests[ticket.index()].take();
        self.release(host, usize::from(done.device));
        self.answer_now(host, &done, status(reply.outcome), request.as_ref());
    }

    pub(super) fn rerun_inline<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, ticket: Ticket, done: &Done) {
        if let Some(request) = self.requests[ticket.index()].take() {
            let outcome = host.rerun_inline(usize::from(done.device), &request);
            self.answer_now(host, done, status(outcome), Some(&request));
        }
    }

    fn answer_now<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        done: &Done,
        status: Status,
        request: Option<&R>,
    ) {
        let stamps = done.work.submitted.map(|submitted| {
            self.now = host.now();
            Stamps { submitted, handed: done.handed, taken: self.now }
        });
        self.answer(host, done, status, stamps, request);
    }

    pub(super) fn answer<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        done: &Done,
        status: Status,
        stamps: Option<Stamps>,
        request: Option<&R>,
    ) {
        let id = done.work.lane;
        let times = stamps.as_ref();
        let Some(lane) = self.lanes[id.0 as usize].as_mut().filter(|_| done.lane_open) else {
            return host.on(Event::Answered { lane: None, done, request, status, stamps: times });
        };
        let tag = done.work.tag;
        match times {
            None => lane.push(host, tag, status),
            Some(stamps) => lane.push_sampled(host, tag, status, stamps),
        }
        lane.flush(host);
        let in_flight = self.dispatch.in_flight(id);
        host.on(Event::Answered { lane: Some((&lane.end, in_flight)), done, request, status, stamps: times });
        let ring = self.dispatch.announce(self.now, id);
        self.timers.announce(host, lane, ring);
    }

    pub(super) fn announce(&mut self, host: &mut impl Lanes<Lane = L>, id: LaneId) {
        if let Some(lane) = self.lanes[id.0 as usize].as_mut() {
            let ring = self.dispatch.announce(self.now, id);
            self.timers.announce(host, lane, ring);
        }
    }
}

#[inline]
fn status(outcome: Result<u32, Refusal>) -> Status {
    match outcome {
        Ok(len) => Status::Done { len },
        Err(refusal) => Status::Refused(refusal),
    }
}
