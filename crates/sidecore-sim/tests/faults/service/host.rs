//! `Sidecore`'s host in the simulated world.

use super::{InFlight, Request};
use crate::client::{ARENA, End, MAX_REQUEST};
use crate::device::Handed;
use crate::mutation::Mutation;
use crate::scenario::class_of;
use crate::world::{Actor, Clock, World};
use crate::{Invariant, result};
use sidecore_core::dispatch::{Assignment, Done, KeyLocation, LaneId, MAX_LOSSES, Reassigned, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::notify::WakeDecision;
use sidecore_core::session::Refusal;
use sidecore_core::sidecore::{Defect, Gauges, Health, Host, Plan, Reply, TurnStats};
use sidecore_core::stage::Stamps;
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Fault, Status, Submission};

/// The world during one step of the service.
pub(super) struct SimHost<'h, 'a> {
    pub(super) world: &'h mut World<'a>,
    pub(super) clock: &'h mut Clock,
}

impl SimHost<'_, '_> {
    /// The world's name of a device.
    fn index(&self, device: usize) -> u32 {
        self.world.service.devices[device]
    }

    /// A failed request names a device that is gone. Later its number may be another's.
    fn check_blame(&mut self, device: u8) {
        let named = self.world.service.devices.get(usize::from(device));
        if named.is_none_or(|device| !self.world.devices[*device as usize].leaving) {
            self.world.fail(Invariant::Blame, format!("a client is told that device {device} failed: it did not"));
        }
    }
}

impl Host for SimHost<'_, '_> {
    type Lane = u32;
    type Request = Request;

    fn now(&mut self) -> Nanos {
        self.world.now
    }

    fn pauses(&mut self) -> bool {
        true
    }

    fn has(&mut self, defect: Defect) -> bool {
        match self.world.mutation {
            Some(mutation @ (Mutation::LoseCompletion | Mutation::DuplicateCompletion)) => {
                mutation.defect() == Some(defect) && self.clock.random().below(16) == 0
            }
            Some(mutation) => mutation.defect() == Some(defect),
            None => false,
        }
    }

    fn has_commands(&self) -> bool {
        !self.world.service.mailbox.is_empty()
    }

    fn is_ready(&self, link: &u32) -> bool {
        self.world.links[*link as usize].submission.ready()
    }

    fn receive(&mut self, link: &mut u32, place: &mut Submission, _: usize) -> Result<bool, Fault> {
        let hop = &mut self.world.links[*link as usize].submission;
        place.receive(&mut hop.consumer, &hop.slots, ARENA, |_, _| ())
    }

    fn write<const N: usize>(&mut self, link: &mut u32, completion: &[u64; N]) {
        self.world.links[*link as usize].completion.push(completion);
    }

    fn arm(&mut self, link: &u32) {
        self.world.links[*link as usize].submission.arm();
    }

    fn disarm(&mut self, link: &u32) {
        self.world.links[*link as usize].submission.disarm();
    }

    fn announce(&mut self, link: &mut u32, ring: WakeDecision) {
        let link = *link;
        let hop = &mut self.world.links[link as usize].completion;
        if ring != WakeDecision::Now {
            hop.unrung = false;
        } else if hop.must_wake() && !self.world.mutated(self.clock, Mutation::DropServiceRing, 4) {
            self.world.say(|| format!("the service rings link {link}"));
            self.world.wake(self.clock, Actor::Client(link));
        }
    }

    fn plan(&self, _: &u32, submission: &Submission) -> Result<Plan, Refusal> {
        let class = class_of(submission.session(), submission.op())?;
        if submission.input_len() > MAX_REQUEST {
            return Err(Refusal::TooLarge);
        }
        Ok(Plan {
            class,
            size: submission.input_len() as u32,
            key_location: KeyLocation::LOCAL,
            room: Ok(0),
            token: submission.session(),
        })
    }

    fn run(&mut self, link: &mut u32, submission: &Submission, plan: Plan) -> Result<u32, Refusal> {
        Ok(result(*link, submission.tag(), plan.size))
    }

    fn ran(&mut self, link: &u32, device: usize, work: &Work, count: u32) {
        let took = self.world.device(device).plan.time(work.size) * u64::from(count);
        let tenant = self.world.links[*link as usize].tenant;
        self.world.charged[tenant as usize] += took;
        self.world.service.worked = took;
    }

    fn sampled(&mut self, _: &u32, _: usize, _: &Work, _: Plan, _: &Stamps) {}

    fn request(&mut self, link: &u32, submission: &Submission, plan: Plan) -> Request {
        let (tag, urgent) = (submission.tag(), submission.is_urgent());
        Request { link: *link, tag, size: plan.size, urgent }
    }

    fn entered(&mut self, work: &Work, request: &Request, given: Assignment) {
        let Assignment { ticket, device, cost, .. } = given;
        let tenant = self.world.links[request.link as usize].tenant;
        self.world.charged[tenant as usize] += cost;
        let known = InFlight { ticket, work: *work, device: Some(device), cost, losses: 0, handed: false };
        self.world.service.in_flight[ticket.index()] = Some(known);
    }

    fn refused(&mut self, _: &u32, submission: &Submission, refusal: Refusal) {
        let (tag, class) = (submission.tag(), class_of(submission.session(), submission.op()));
        if refusal == Refusal::NoDevice && class.is_ok_and(|class| self.world.some_device_can(class)) {
            self.world.fail(Invariant::Blame, format!("tag {tag} was refused for want of a device"));
        }
    }

    fn rerun_inline(&mut self, _: usize, request: &Request) -> Result<u32, Refusal> {
        Ok(result(request.link, request.tag, request.size))
    }

    fn answered(
        &mut self,
        _: Option<(&u32, u32)>,
        done: &Done,
        _: Option<Request>,
        status: Status,
        _: Option<&Stamps>,
    ) {
        for place in &mut self.world.service.in_flight {
            place.take_if(|known| known.work == done.work);
        }
        if let Status::DeviceFailed { device } = status {
            self.check_blame(device);
        }
    }

    fn turned(&mut self, _: &u32, _: &TurnStats, _: u32) {}

    fn faulted(&mut self, link: u32, fault: Fault) {
        self.world.say(|| format!("link {link} loses its lane: {}", fault.name()));
        if self.world.links[link as usize].hostile.is_none() {
            self.world.fail(Invariant::Bystander, format!("link {link} loses its lane and did nothing: {fault:?}"));
        }
        self.world.links[link as usize].ended.get_or_insert(End::Fault);
        self.world.end(self.clock, Actor::Client(link));
    }

    fn submit(&mut self, device: usize, ticket: Ticket, request: &Request) {
        let known = self.world.service.in_flight[ticket.index()].as_mut();
        let given = known.filter(|known| known.ticket == ticket && known.device == Some(device) && !known.handed);
        let Some(known) = given else {
            let what = format!("{ticket:?} is handed to device {device}, which was not given it");
            return self.world.fail(Invariant::Void, what);
        };
        known.handed = true;
        let (index, request) = (self.index(device), *request);
        let now = self.world.now;
        let state = &mut self.world.devices[index as usize];
        if state.has() + state.replies.waiting() == 0 {
            state.progress_at = now;
        }
        self.world.say(|| format!("tag {} of link {} goes to device {index}", request.tag, request.link));
        self.world.hand(index, Handed { ticket, request });
    }

    fn poll(&mut self, device: usize, now: Nanos) -> Option<Reply> {
        let index = self.index(device);
        let reply = self.world.collect(index, now)?;
        self.world.devices[index as usize].progress_at = self.world.now;
        Some(reply)
    }

    fn ring_device(&mut self, device: usize) {
        let index = self.index(device);
        if self.world.devices[index as usize].handed.must_wake() {
            self.world.wake(self.clock, Actor::Device(index));
        }
    }

    fn arm_device(&mut self, device: usize) {
        self.world.device_mut(device).replies.arm();
    }

    fn is_device_ready(&self, device: usize) -> bool {
        self.world.device(device).replies.ready()
    }

    fn disarm_device(&mut self, device: usize) {
        self.world.device_mut(device).replies.disarm();
    }

    fn due(&self, device: usize) -> Option<Nanos> {
        self.world.device(device).due()
    }

    fn health(&mut self, device: usize) -> Health {
        self.world.device(device).health
    }

    fn revoke(&mut self, device: usize) -> Health {
        let index = self.index(device);
        self.world.revoke(self.clock, index)
    }

    fn retire(&mut self, device: usize) {
        self.revoke(device);
    }

    fn device_removed(&mut self, device: usize) {
        let index = self.index(device);
        self.world.say(|| format!("the service buries device {index}"));
        self.world.device_mut(device).leaving = true;
    }

    fn reassigned(&mut self, _: usize, old: Ticket, reassigned: &Reassigned) {
        let known = self.world.service.in_flight[old.index()].filter(|known| known.ticket == old);
        let Some(known) = known else {
            return self.world.fail(Invariant::Once, format!("{old:?} was replayed and nobody had it"));
        };
        let losses = known.losses + u8::from(known.device.is_some());
        let moved = match *reassigned {
            Reassigned::Wait(ticket) => InFlight { ticket, device: None, ..known },
            Reassigned::Assigned(Assignment { ticket, device, cost, .. }) => {
                InFlight { ticket, device: Some(device), cost, handed: false, ..known }
            }
            // It is answered next, and forgotten then.
            Reassigned::Now(_) => known,
            Reassigned::Abandoned(done) => {
                let hopeless = losses > MAX_LOSSES || !self.world.some_device_can(known.work.class);
                if done.lane_open && !hopeless {
                    let what = format!("{known:?} was given up and another device could do it");
                    self.world.fail(Invariant::Blame, what);
                }
                known
            }
        };
        self.world.service.in_flight[old.index()] = Some(InFlight { losses, ..moved });
    }

    fn finished(&mut self, reply: &Reply, done: Option<&Done>) {
        let known = self.world.service.in_flight[reply.ticket.index()];
        let known = known.filter(|known| known.ticket == reply.ticket);
        if known.is_some() != done.is_some() {
            let changed = || format!("void {:?} changed something", reply.ticket);
            let what = known.map_or_else(changed, |known| format!("the ticket of {known:?} counts for nothing"));
            self.world.fail(Invariant::Void, what);
        }
    }

    fn publish_gauges(&mut self, gauges: &Gauges) {
        self.world.rested += gauges.dormant as u64;
    }
}

impl World<'_> {
    /// Requests of an open lane in flight, counted by the world.
    pub(crate) fn in_flight_on(&self, lane: LaneId) -> u32 {
        self.service.in_flight.iter().flatten().filter(|known| known.work.lane == lane).count() as u32
    }
}
