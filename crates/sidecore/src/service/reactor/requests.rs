//! The path of a request: taken, parsed, placed, done, answered.

use super::Reactor;
use super::lanes::Lane;
use crate::counters::{LaneCounter, SidecoreCounter};
use crate::device::{Job, Port, Reply};
use crate::engine::execute::execute;
use crate::sys::clock;
use sidecore_core::dispatch::{Done, LaneId, Placed, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::order;
use sidecore_core::session::{Class, Refusal};
use sidecore_core::stage::{Stage, Stamps};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Completion, Fault, Status};

/// Requests that one lane may have served before the others are looked at, however small they are.
const TURN: u32 = 128;

/// Why a lane's turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Nothing waits, or its client's share of this round is used.
    Yield,
    /// No device has room.
    Blocked,
    /// Commands of the control thread came before the next request.
    Mail,
    /// The client broke the protocol.
    Fault(Fault),
}

/// What a look at a lane found.
#[derive(Clone, Copy, Debug)]
struct Looked {
    /// `false`: there was nothing to do, or only a device can change that.
    busy: bool,
    /// Its client's share was used up by it. That it has nothing more now does not matter: a client that asks again
    /// at once would have its first lanes served for ever.
    cut_off: bool,
}

impl Looked {
    const NOTHING: Self = Self { busy: false, cut_off: false };
}

/// What a lane's turn counted. Added to the shared counters once.
#[derive(Debug, Default)]
struct Turn {
    taken: u32,
    done: u64,
    refused: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl Reactor {
    /// Looks once at all devices and lanes. `false`: there was nothing to do.
    pub(super) fn serve_round(&mut self) -> bool {
        self.round += 1;
        self.withheld = self.blocked && !self.is_room_wasted();
        self.share += u64::from(!self.withheld);
        self.blocked = false;
        let remote = !self.remote.is_empty() || !self.orphans.is_empty();
        let mut busy = remote && self.collect_replies();
        let mut index = 0;
        for _ in 0..self.hot.len() {
            // A lane that ends makes room for another at its place; that one's turn comes in the next round.
            let Some(id) = self.hot.get(index).copied() else { break };
            let looked = self.serve_lane(id);
            busy |= looked.busy;
            if looked.cut_off && self.hot.get(index) == Some(&id) {
                // The other lanes of its client come first next time.
                self.hot[index..].rotate_left(1);
            } else {
                index += 1;
            }
        }
        if busy && !self.remote.is_empty() {
            self.ring_devices();
        }
        busy
    }

    /// Whether a device has room for what clients want that have used their shares. As long as it has not, no new
    /// shares are handed out while a client with some left waits for a device: else whoever's lane comes first would
    /// take each place that gets free there.
    fn is_room_wasted(&mut self) -> bool {
        let Self { lanes, hot, dispatch, .. } = self;
        hot.iter().filter_map(|id| lanes[id.0 as usize].as_ref()).any(|lane| {
            let wanted = (!lane.pending.is_empty()).then(|| lane.pending.first());
            let class = wanted.and_then(|next| lane.sessions.get(next.session())?.class(next.op()));
            lane.ready() && !dispatch.may_take(lane.client) && dispatch.has_room(class)
        })
    }

    /// Gives one lane its turn.
    fn serve_lane(&mut self, id: LaneId) -> Looked {
        let index = id.0 as usize;
        // Taken out of the table for its turn, so that it can be used beside everything else.
        let Some(mut lane) = self.lanes[index].take_if(|lane| lane.ready()) else { return Looked::NOTHING };
        let mut turn = Turn::default();
        let end = self.serve_turn(id, &mut lane, &mut turn);
        let served = turn.taken > 0;
        if served {
            self.end_turn(id, &mut lane, &turn);
        }
        let cut_off = served && !self.dispatch.may_take(lane.client);
        // With nothing served, only a device can let the client go on: then there is no use in looking before.
        lane.waits_for_device =
            !served && (end == End::Blocked || self.withheld || self.dispatch.waits_for_device(lane.client));
        let waits = lane.waits_for_device;
        self.lanes[index] = Some(lane);
        match end {
            End::Fault(fault) => self.fault(id, fault),
            // A command to stop is remembered until the next look around.
            End::Mail => {
                let _ = self.obey();
            }
            End::Yield | End::Blocked => {}
        }
        Looked { busy: !waits, cut_off }
    }

    #[inline]
    fn serve_turn(&mut self, id: LaneId, lane: &mut Lane, turn: &mut Turn) -> End {
        let client = lane.client;
        if self.refilled[client.0 as usize] != self.share {
            self.refilled[client.0 as usize] = self.share;
            self.dispatch.refill(client);
        }
        while turn.taken < TURN && self.dispatch.may_take(client) {
            if lane.pending.is_empty()
                && let Err(fault) = take_ahead(lane, self.dispatch.in_flight(id))
            {
                return End::Fault(fault);
            }
            if lane.pending.is_empty() {
                return End::Yield;
            }
            if let Some(end) = self.serve(id, lane, turn) {
                return end;
            }
            lane.pending.drop_first();
            turn.taken += 1;
        }
        End::Yield
    }

    /// Announces what a turn completed, and counts it.
    #[inline]
    fn end_turn(&mut self, id: LaneId, lane: &mut Lane, turn: &Turn) {
        lane.flush();
        let ring = self.dispatch.announce(self.now, id);
        self.timers.ring(lane, ring);
        lane.touch(self.now);
        let counters = &lane.counters;
        counters.set(LaneCounter::InFlight, u64::from(self.dispatch.in_flight(id)));
        counters.add(LaneCounter::Submitted, u64::from(turn.taken));
        counters.add(LaneCounter::Done, turn.done);
        counters.add(LaneCounter::Refused, turn.refused);
        counters.add(LaneCounter::BytesIn, turn.bytes_in);
        counters.add(LaneCounter::BytesOut, turn.bytes_out);
        if turn.refused > 0 {
            self.counters.add(SidecoreCounter::Refused, turn.refused);
        }
    }

    /// The first pending request. `Some`: it was not taken, and the turn is over.
    #[inline]
    fn serve(&mut self, id: LaneId, lane: &mut Lane, turn: &mut Turn) -> Option<End> {
        // Whoever was told by the control thread that a session is open or closed finds it so.
        if self.setup.mailbox.has_mail() {
            return Some(End::Mail);
        }
        let submission = lane.pending.first();
        let Some(session) = lane.sessions.get(submission.session()) else {
            self.refuse(id, lane, Refusal::NoSession, turn);
            return None;
        };
        let Some(class) = session.class(submission.op()) else {
            self.refuse(id, lane, Refusal::Unsupported, turn);
            return None;
        };
        if submission.input_len() > self.max_request {
            self.refuse(id, lane, Refusal::TooLarge, turn);
            return None;
        }
        let size = submission.input_len() as u32;
        let (tag, urgent, submitted) = (submission.tag(), submission.is_urgent(), submission.submitted());
        if submitted.is_some() {
            // The time of handing over is told.
            self.now = clock::now();
        }
        let work = Work { lane: id, tag, class, size, urgent, submitted };
        match self.dispatch.place(self.now, work) {
            Placed::Now { device, cost } => {
                lane.hold(cost);
                self.do_now(lane, &work, device, turn);
            }
            Placed::On { device, ticket } => {
                let (session, memory) = (session.clone(), lane.memory.clone());
                self.count_given(session.key(), submission.op());
                self.submit(device, ticket, Job { session, memory, submission: *submission });
            }
            Placed::Held { ticket, .. } => {
                let (session, memory) = (session.clone(), lane.memory.clone());
                self.count_given(session.key(), submission.op());
                self.jobs[ticket.index()] = Some(Job { session, memory, submission: *submission });
            }
            Placed::Full => {
                self.blocked = true;
                return Some(End::Blocked);
            }
            Placed::NoDevice => {
                self.refuse(id, lane, Refusal::NoDevice, turn);
                return None;
            }
        }
        self.count(class, size);
        None
    }

    /// Does a request here and now.
    #[inline]
    fn do_now(&mut self, lane: &mut Lane, work: &Work, device: usize, turn: &mut Turn) {
        let submission = lane.pending.first();
        // The caller found it a moment ago.
        let Some(session) = lane.sessions.get(submission.session()) else { return };
        self.devices[device].count(u64::from(work.size));
        let (key, op) = (session.key(), submission.op());
        let outcome = execute(session, &lane.memory, submission, &mut self.scratch);
        let stamps = work.submitted.map(|submitted| {
            let handed = std::mem::replace(&mut self.now, clock::now());
            let stamps = Stamps { submitted, handed, taken: self.now };
            self.devices[device].counters.record(stamps.device());
            // A request that is refused in no time says nothing of one that is not.
            if outcome.is_ok() {
                self.dispatch.observe(device, work.class, work.size, stamps.device());
            }
            stamps
        });
        lane.push(&Completion { tag: work.tag, status: status(outcome), stamps });
        if let Some(stamps) = stamps {
            self.record(work.class, lane, &stamps);
        }
        if let Some(key) = key {
            self.count_now(key, op, status(outcome), stamps.as_ref());
        }
        match outcome {
            Ok(len) => {
                turn.done += 1;
                turn.bytes_out += u64::from(len);
            }
            Err(_) => turn.refused += 1,
        }
        turn.bytes_in += u64::from(work.size);
    }

    fn refuse(&mut self, id: LaneId, lane: &mut Lane, refusal: Refusal, turn: &mut Turn) {
        let submission = lane.pending.first();
        self.count_refused(lane.sessions.get(submission.session()).and_then(|session| session.key()));
        self.dispatch.refuse(id, submission.is_urgent());
        lane.push(&Completion { tag: submission.tag(), status: Status::Refused(refusal), stamps: None });
        turn.refused += 1;
    }

    /// Gives a request to a device that answers later.
    fn submit(&mut self, device: usize, ticket: Ticket, job: Job) {
        self.jobs[ticket.index()] = Some(job.clone());
        if matches!(self.devices[device].port, Port::Emulated(_)) {
            // The model begins its work when the request comes, not when the clock was last read.
            self.now = clock::now();
        }
        self.devices[device].count(job.submission.input_len());
        let state = &mut self.devices[device];
        if self.dispatch.device_load(device).in_flight <= 1 {
            state.progress_at = self.now;
        }
        let turn = self.dispatch.turn(ticket).unwrap_or(order::Turn::FIFO);
        state.port.submit(self.now, ticket, turn, job);
    }

    /// Gives a device what was kept back for it and what it may begin with now.
    #[inline]
    pub(super) fn release(&mut self, device: usize) {
        while let Some(ticket) = self.dispatch.release(self.now, device) {
            self.resubmit(device, ticket);
        }
    }

    /// Gives a device a request that another had, or that was kept back.
    pub(super) fn resubmit(&mut self, device: usize, ticket: Ticket) {
        if let Some(job) = self.jobs[ticket.index()].take() {
            self.submit(device, ticket, job);
        }
    }

    /// Does a request of a dead device here and now.
    pub(super) fn redo_now(&mut self, ticket: Ticket, done: &Done) {
        if let Some(Job { session, memory, submission }) = self.jobs[ticket.index()].take() {
            self.devices[usize::from(done.device)].count(submission.input_len());
            let outcome = execute(&session, &memory, &submission, &mut self.scratch);
            self.answer_now(done, status(outcome), session.key());
        }
    }

    /// Takes what devices have done. `false`: nothing.
    fn collect_replies(&mut self) -> bool {
        let mut busy = self.retry_orphans();
        self.now = clock::now();
        for index in 0..self.remote.len() {
            let device = self.remote[index];
            while let Some(reply) = self.devices[device].port.poll(self.now) {
                self.devices[device].progress_at = self.now;
                self.finish_remote(&reply);
                busy = true;
            }
        }
        busy
    }

    pub(super) fn finish_remote(&mut self, reply: &Reply) {
        let Reply { ticket, outcome, took, .. } = *reply;
        // A void ticket: the request was taken from this device before, and its place may be another's now.
        let Some(done) = self.dispatch.complete(ticket, outcome.is_ok().then_some(took)) else { return };
        let key = self.end_job(ticket);
        self.devices[usize::from(done.device)].counters.record(took);
        self.release(usize::from(done.device));
        self.answer_now(&done, status(outcome), key);
    }

    /// Lets go of a job; its stored key, if it had one.
    pub(super) fn end_job(&mut self, ticket: Ticket) -> Option<u16> {
        self.jobs[ticket.index()].take().and_then(|job| job.session.key())
    }

    /// Answers a request whose result is there now, with its stage times if it is sampled.
    fn answer_now(&mut self, done: &Done, status: Status, key: Option<u16>) {
        let stamps = done.work.submitted.map(|submitted| {
            self.now = clock::now();
            Stamps { submitted, handed: done.handed, taken: self.now }
        });
        self.answer(done, status, stamps, key);
    }

    /// Writes and announces the completion of a request that was in flight.
    pub(super) fn answer(&mut self, done: &Done, status: Status, stamps: Option<Stamps>, key: Option<u16>) {
        self.count_answered(key, status, stamps.as_ref());
        let index = done.work.lane.0 as usize;
        let Some(mut lane) = self.lanes[index].take_if(|_| done.lane_open) else { return };
        lane.push(&Completion { tag: done.work.tag, status, stamps });
        lane.flush();
        if let Some(stamps) = stamps {
            self.record(done.work.class, &lane, &stamps);
        }
        let counter = match status {
            Status::Done { len } => {
                lane.counters.add(LaneCounter::BytesOut, u64::from(len));
                LaneCounter::Done
            }
            Status::Refused(_) => LaneCounter::Refused,
            Status::DeviceFailed { .. } => LaneCounter::Failed,
        };
        lane.counters.add(counter, 1);
        lane.counters.add(LaneCounter::BytesIn, u64::from(done.work.size));
        lane.counters.set(LaneCounter::InFlight, u64::from(self.dispatch.in_flight(done.work.lane)));
        let ring = self.dispatch.announce(self.now, done.work.lane);
        self.timers.ring(&mut lane, ring);
        self.lanes[index] = Some(lane);
    }

    fn record(&self, class: Class, lane: &Lane, stamps: &Stamps) {
        for (stage, time) in times(stamps) {
            self.counters.record(class, stage, time);
            lane.counters.record(stage, time);
        }
    }

    #[inline]
    fn count(&mut self, class: Class, bytes: u32) {
        let (requests, total) = &mut self.tally[class.index()];
        *requests += 1;
        *total += u64::from(bytes);
    }

    pub(super) fn publish_tally(&mut self) {
        for (class, (requests, bytes)) in Class::all().zip(&mut self.tally) {
            if *requests > 0 {
                self.counters.add(SidecoreCounter::Requests, *requests);
                self.counters.class(class, std::mem::take(requests), std::mem::take(bytes));
            }
        }
    }
}

/// The stages that the service sees.
#[inline]
pub(super) fn times(stamps: &Stamps) -> [(Stage, Nanos); 3] {
    [(Stage::Queue, stamps.queue()), (Stage::Device, stamps.device()), (Stage::Host, stamps.host())]
}

#[inline]
fn status(outcome: Result<u32, Refusal>) -> Status {
    match outcome {
        Ok(len) => Status::Done { len },
        Err(refusal) => Status::Refused(refusal),
    }
}

/// Moves what is in the ring, up to a limit, to the lane's private queue.
#[inline]
fn take_ahead(lane: &mut Lane, in_flight: u32) -> Result<(), Fault> {
    let slots = lane.memory.layout().slots();
    while lane.receive()? {
        if in_flight + lane.pending.len() > slots {
            return Err(Fault::TooManyInFlight);
        }
    }
    Ok(())
}
