//! The path of a request: taken, parsed, placed, done, answered.

use super::lanes::{AHEAD, Lane};
use super::Reactor;
use crate::counters::{LaneCounter, SidecoreCounter};
use crate::device::{Job, Port, Reply};
use crate::engine::crypto::Session;
use crate::engine::execute::{execute, prefetch};
use crate::sys::clock;
use sidecore_core::dispatch::{Done, LaneId, Placed, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::session::{Class, Refusal};
use sidecore_core::stage::{Stage, Stamps};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Completion, Fault, Status, Submission};
use std::sync::Arc;

/// Requests that one lane may have served before the others are looked at, however small they are.
const TURN: usize = 128;

/// Whether a lane can go on in this turn.
#[derive(PartialEq, Eq)]
enum Next {
    Request,
    /// No device has room: the request waits.
    Blocked,
}

impl Reactor {
    /// Looks once at all devices and lanes. `false`: there was nothing to do.
    pub(super) fn serve_round(&mut self) -> bool {
        self.round += 1;
        let remote = !self.remote.is_empty() || !self.orphans.is_empty();
        let mut busy = remote && self.collect_replies();
        let mut index = 0;
        while let Some(id) = self.hot.get(index).copied() {
            busy |= self.serve_lane(id);
            // A lane that ended made room for another at its place; that one's turn comes in the next round.
            index += 1;
        }
        if busy && !self.remote.is_empty() {
            self.ring_devices();
        }
        busy
    }

    /// Serves one lane within its client's share. `false`: there was nothing.
    fn serve_lane(&mut self, id: LaneId) -> bool {
        let Some(lane) = self.lane(id) else { return false };
        if !lane.ready() {
            return false;
        }
        let client = lane.client;
        if self.refilled[client.0 as usize] != self.round {
            self.refilled[client.0 as usize] = self.round;
            self.dispatch.refill(client);
        }
        let (mut served, mut blocked) = (0, false);
        while served < TURN && !blocked && self.dispatch.may_take(client) {
            let Some(submission) = self.next_submission(id) else { break };
            blocked = self.serve(id, submission) == Next::Blocked;
            served += usize::from(!blocked);
        }
        let waits = served == 0 && (blocked || self.dispatch.waits_for_device(client));
        if let Some(lane) = self.lane(id) {
            lane.waits_for_device = waits;
        }
        if served > 0 {
            self.announce(id);
            let (now, in_flight) = (self.now, u64::from(self.dispatch.in_flight(id)));
            if let Some(lane) = self.lane(id) {
                lane.touch(now);
                lane.counters.set(LaneCounter::InFlight, in_flight);
                lane.counters.add(LaneCounter::Submitted, served as u64);
            }
        }
        // A lane whose requests wait for its share is not idle: the next rounds bring it.
        !waits
    }

    /// The next parsed request of a lane. Takes some more from the ring while it is there, and starts their transfer.
    #[inline]
    fn next_submission(&mut self, id: LaneId) -> Option<Submission> {
        let in_flight = self.dispatch.in_flight(id);
        let lane = self.lanes[id.0 as usize].as_mut()?;
        if lane.pending.is_empty()
            && let Err(fault) = take_ahead(lane, in_flight)
        {
            self.fault(id, fault);
            return None;
        }
        self.lanes[id.0 as usize].as_mut()?.pending.pop_front()
    }

    #[inline]
    fn serve(&mut self, id: LaneId, submission: Submission) -> Next {
        match self.prepare(id, &submission) {
            Ok((session, class)) => self.place(id, submission, &session, class),
            Err(refusal) => {
                self.refuse(id, &submission, refusal);
                Next::Request
            }
        }
    }

    /// Finds the session and checks what can be checked without the payload.
    #[inline]
    fn prepare(&mut self, id: LaneId, submission: &Submission) -> Result<(Arc<Session>, Class), Refusal> {
        let max = u64::from(self.setup.config.limits.max_request_bytes);
        let session = self.session(id, submission.session).ok_or(Refusal::NoSession)?;
        let class = session.class(submission.op).ok_or(Refusal::Unsupported)?;
        if submission.input_len() > max {
            return Err(Refusal::TooLarge);
        }
        Ok((session, class))
    }

    /// The session of a handle. One that was just opened or closed may still be on its way from the control thread.
    #[inline]
    fn session(&mut self, id: LaneId, handle: u32) -> Option<Arc<Session>> {
        if self.setup.mailbox.has_mail() {
            // A command to stop is remembered until the next look around.
            let _ = self.obey();
        }
        self.lane(id)?.sessions.get(handle).cloned()
    }

    #[inline]
    fn place(&mut self, id: LaneId, submission: Submission, session: &Arc<Session>, class: Class) -> Next {
        let size = submission.input_len() as u32;
        let Submission { tag, urgent, submitted, .. } = submission;
        if submitted.is_some() {
            // The time of handing over is told.
            self.now = clock::now();
        }
        let work = Work { lane: id, tag, class, size, urgent, submitted };
        match self.dispatch.place(self.now, work) {
            Placed::On { device, ticket } => {
                self.count(class, size);
                self.hand_over(id, device, ticket, submission, session);
                Next::Request
            }
            Placed::Full => {
                if let Some(lane) = self.lane(id) {
                    lane.pending.push_front(submission);
                }
                Next::Blocked
            }
            Placed::NoDevice => {
                self.refuse(id, &submission, Refusal::NoDevice);
                Next::Request
            }
        }
    }

    #[inline]
    fn hand_over(
        &mut self,
        id: LaneId,
        device: usize,
        ticket: Ticket,
        submission: Submission,
        session: &Arc<Session>,
    ) {
        let Some(lane) = self.lanes[id.0 as usize].as_ref() else { return };
        self.devices[device].count(submission.input_len());
        if matches!(self.devices[device].port, Port::Inline) {
            let outcome = execute(session, &lane.memory, &submission, &mut self.scratch);
            self.finish_inline(ticket, outcome, submission.submitted.is_some());
        } else {
            let job = Job { session: session.clone(), memory: lane.memory.clone(), submission };
            self.submit(device, ticket, job);
        }
    }

    /// Gives a request to a device that answers later.
    pub(super) fn submit(&mut self, device: usize, ticket: Ticket, job: Job) {
        self.jobs[ticket.index()] = Some(job.clone());
        if matches!(self.devices[device].port, Port::Emulated(_)) {
            // The model begins its work when the request comes, not when the clock was last read.
            self.now = clock::now();
        }
        let now = self.now;
        let state = &mut self.devices[device];
        if self.dispatch.device_load(device).in_flight <= 1 {
            state.progress_at = now;
        }
        state.port.submit(now, ticket, job);
    }

    /// Gives a request of a dead device to another.
    pub(super) fn resubmit(&mut self, device: usize, ticket: Ticket) {
        let Some(job) = self.jobs[ticket.index()].take() else { return };
        self.devices[device].count(job.submission.input_len());
        if matches!(self.devices[device].port, Port::Inline) {
            let outcome = execute(&job.session, &job.memory, &job.submission, &mut self.scratch);
            if let Some(lane) = self.finish_inline(ticket, outcome, job.submission.submitted.is_some()) {
                self.announce(lane);
            }
        } else {
            self.submit(device, ticket, job);
        }
    }

    /// The sidecore did a request itself, beginning at `self.now` if it is `sampled`. Returns the lane to announce it to.
    #[inline]
    fn finish_inline(&mut self, ticket: Ticket, outcome: Result<u32, Refusal>, sampled: bool) -> Option<LaneId> {
        let handed = self.now;
        if sampled {
            self.now = clock::now();
        }
        let took = sampled.then(|| self.now.saturating_sub(handed));
        let done = self.dispatch.complete(ticket, took)?;
        if let Some(took) = took {
            self.devices[usize::from(done.device)].counters.record(took);
        }
        self.answer_at(&done, status(outcome), self.now);
        Some(done.work.lane)
    }

    /// Takes what devices have done. `false`: nothing.
    fn collect_replies(&mut self) -> bool {
        let mut busy = self.retry_orphans();
        if self.devices.iter().any(|device| device.port.due().is_some()) {
            self.now = clock::now();
        }
        for index in 0..self.remote.len() {
            let device = self.remote[index];
            while let Some(reply) = self.devices[device].port.poll(self.now) {
                self.devices[device].progress_at = self.now;
                self.finish_remote(reply);
                busy = true;
            }
        }
        busy
    }

    pub(super) fn finish_remote(&mut self, reply: Reply) {
        let Reply { ticket, outcome, took, .. } = reply;
        // A void ticket: the request was taken from this device before, and its place may be another's now.
        let Some(done) = self.dispatch.complete(ticket, Some(took)) else { return };
        self.jobs[ticket.index()] = None;
        self.devices[usize::from(done.device)].counters.record(took);
        if done.work.submitted.is_some() {
            self.now = clock::now();
        }
        self.answer_at(&done, status(outcome), self.now);
        self.announce(done.work.lane);
    }

    /// Writes the completion of a request whose result was taken from its device at this time.
    #[inline]
    fn answer_at(&mut self, done: &Done, status: Status, taken: Nanos) {
        let stamps = done.work.submitted.map(|submitted| Stamps { submitted, handed: done.handed, taken });
        self.answer(done, status, stamps);
    }

    /// Writes a completion. The caller announces it.
    #[inline]
    pub(super) fn answer(&mut self, done: &Done, status: Status, stamps: Option<Stamps>) {
        if let Some(stamps) = stamps {
            self.record(done, &stamps);
        }
        if !done.lane_open {
            return;
        }
        let Some(lane) = self.lanes[done.work.lane.0 as usize].as_mut() else { return };
        lane.push(&Completion { tag: done.work.tag, status, stamps });
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
    }

    fn refuse(&mut self, id: LaneId, submission: &Submission, refusal: Refusal) {
        self.dispatch.refuse(id, submission.urgent);
        self.counters.add(SidecoreCounter::Refused, 1);
        let Some(lane) = self.lane(id) else { return };
        lane.push(&Completion { tag: submission.tag, status: Status::Refused(refusal), stamps: None });
        lane.counters.add(LaneCounter::Refused, 1);
    }

    fn record(&self, done: &Done, stamps: &Stamps) {
        let lane = self.lanes.get(done.work.lane.0 as usize).and_then(Option::as_ref).filter(|_| done.lane_open);
        let times = [(Stage::Queue, stamps.queue()), (Stage::Device, stamps.device()), (Stage::Host, stamps.host())];
        for (stage, time) in times {
            self.counters.record(done.work.class, stage, time);
            if let Some(lane) = lane {
                lane.counters.record(stage, time);
            }
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

#[inline]
fn status(outcome: Result<u32, Refusal>) -> Status {
    match outcome {
        Ok(len) => Status::Done { len },
        Err(refusal) => Status::Refused(refusal),
    }
}

/// Moves what is in the ring, up to a limit, to the lane's private queue. Each word of a slot is read once.
#[inline]
fn take_ahead(lane: &mut Lane, in_flight: u32) -> Result<(), Fault> {
    let (slots, arena_bytes) = (lane.memory.layout().slots(), lane.memory.layout().arena_bytes());
    while lane.pending.len() < AHEAD {
        let Some(words) = lane.pop() else { return Ok(()) };
        if in_flight + lane.pending.len() as u32 >= slots {
            return Err(Fault::TooManyInFlight);
        }
        let submission = Submission::parse(&words, arena_bytes)?;
        prefetch(&lane.memory, &submission);
        lane.pending.push_back(submission);
    }
    Ok(())
}
