//! `Sidecore`'s host in the simulated world.

use super::{InFlight, Request};
use crate::client::{ARENA, End, MAX_REQUEST};
use crate::device::Handed;
use crate::hop::parse_completion;
use crate::mutation::Mutation;
use crate::scenario::class_of;
use crate::world::{self, Actor, World};
use crate::{Invariant, result};
use sidecore_core::dispatch::{Assignment, KeyLocation, LaneId, MAX_LOSSES, Reassigned};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::notify::WakeDecision;
use sidecore_core::session::Refusal;
use sidecore_core::sidecore::{Clock, Devices, Engine, Event, Health, Lanes, Observer, Plan, Reply};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Completion, Fault, Status, Submission};

pub(super) struct SimHost<'h, 'a> {
    pub(super) world: &'h mut World<'a>,
    pub(super) clock: &'h mut world::Clock,
}

impl SimHost<'_, '_> {
    /// The world's name of a device.
    fn index(&self, device: usize) -> u32 {
        self.world.service.devices[device]
    }
}

impl Clock for SimHost<'_, '_> {
    fn now(&mut self) -> Nanos {
        self.world.now
    }
}

impl Lanes for SimHost<'_, '_> {
    type Lane = u32;

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
        if let Some(Completion { status: Status::DeviceFailed { device }, .. }) = parse_completion(completion) {
            self.world.check_blame(device);
        }
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

    fn faulted(&mut self, link: u32, fault: Fault) {
        self.world.say(|| format!("link {link} loses its lane: {}", fault.name()));
        if self.world.links[link as usize].hostile.is_none() {
            self.world.fail(Invariant::Bystander, format!("link {link} loses its lane and did nothing: {fault:?}"));
        }
        self.world.links[link as usize].ended.get_or_insert(End::Fault);
        self.world.end(self.clock, Actor::Client(link));
    }
}

impl Engine for SimHost<'_, '_> {
    type Request = Request;

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
            is_limited: false,
        })
    }

    fn run(&mut self, link: &mut u32, submission: &Submission, plan: Plan) -> Result<u32, Refusal> {
        Ok(result(*link, submission.tag(), plan.size))
    }

    fn request(&mut self, link: &u32, submission: &Submission, plan: Plan) -> Request {
        let (tag, urgent) = (submission.tag(), submission.is_urgent());
        Request { link: *link, tag, size: plan.size, urgent }
    }

    fn rerun_inline(&mut self, _: usize, request: &Request) -> Result<u32, Refusal> {
        Ok(result(request.link, request.tag, request.size))
    }
}

impl Devices for SimHost<'_, '_> {
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
        self.world.say(|| format!("the service removes device {index}"));
        self.world.device_mut(device).leaving = true;
    }
}

impl Observer for SimHost<'_, '_> {
    fn on(&mut self, event: Event<'_, u32, Request>) {
        let world = &mut *self.world;
        match event {
            Event::Ran { lane, device, work, count } => {
                let took = world.device(device).plan.time(work.size) * u64::from(count);
                let tenant = world.links[*lane as usize].tenant;
                world.charged[tenant as usize] += took;
                world.service.worked = took;
            }
            Event::Refused { submission, refusal, .. } => {
                let (tag, class) = (submission.tag(), class_of(submission.session(), submission.op()));
                if refusal == Refusal::NoDevice && class.is_ok_and(|class| world.some_device_can(class)) {
                    world.fail(Invariant::Blame, format!("tag {tag} was refused for want of a device"));
                }
            }
            Event::Submitted { work, request, given } => {
                let Assignment { ticket, device, cost, .. } = given;
                let tenant = world.links[request.link as usize].tenant;
                world.charged[tenant as usize] += cost;
                let known = InFlight { ticket, work: *work, device: Some(device), cost, losses: 0, handed: false };
                world.service.in_flight[ticket.index()] = Some(known);
            }
            Event::Finished { reply, done } => {
                let known = world.service.in_flight[reply.ticket.index()];
                let known = known.filter(|known| known.ticket == reply.ticket);
                if known.is_some() != done.is_some() {
                    let changed = || format!("void {:?} changed something", reply.ticket);
                    let what =
                        known.map_or_else(changed, |known| format!("the ticket of {known:?} counts for nothing"));
                    world.fail(Invariant::Void, what);
                }
            }
            Event::Answered { done, status, .. } => {
                for place in &mut world.service.in_flight {
                    place.take_if(|known| known.work == done.work);
                }
                if let Status::DeviceFailed { device } = status {
                    world.check_blame(device);
                }
            }
            Event::Reassigned { ticket, reassigned, .. } => world.reassigned(ticket, reassigned),
            Event::Gauges(gauges) => world.rested += gauges.dormant as u64,
            Event::Sampled { .. } | Event::TurnEnded { .. } => {}
        }
    }
}

impl World<'_> {
    pub(crate) fn in_flight_on(&self, lane: LaneId) -> u32 {
        self.service.in_flight.iter().flatten().filter(|known| known.work.lane == lane).count() as u32
    }

    fn reassigned(&mut self, old: Ticket, reassigned: &Reassigned) {
        let known = self.service.in_flight[old.index()].filter(|known| known.ticket == old);
        let Some(known) = known else {
            return self.fail(Invariant::Once, format!("{old:?} was replayed and nobody had it"));
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
                let hopeless = losses > MAX_LOSSES || !self.some_device_can(known.work.class);
                if done.lane_open && !hopeless {
                    let what = format!("{known:?} was given up and another device could do it");
                    self.fail(Invariant::Blame, what);
                }
                known
            }
        };
        self.service.in_flight[old.index()] = Some(InFlight { losses, ..moved });
    }

    /// A failed request names a device that is gone. Later its number may be another's.
    fn check_blame(&mut self, device: u8) {
        let named = self.service.devices.get(usize::from(device));
        if named.is_none_or(|device| !self.devices[*device as usize].leaving) {
            self.fail(Invariant::Blame, format!("a client is told that device {device} failed: it did not"));
        }
    }
}
