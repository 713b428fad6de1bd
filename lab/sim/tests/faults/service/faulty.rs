//! A deliberate defect of the service, put around its host.

use super::Request;
use crate::hop::parse_completion;
use crate::mutation::Mutation;
use crate::result;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::notify::WakeDecision;
use sidecore_core::session::Refusal;
use sidecore_core::sidecore::{Clock, Devices, Engine, Event, Health, Lanes, Observer, Plan, Reply};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Completion, Fault, Status, Submission};
use sidecore_sim::engine::Random;
use std::collections::{BTreeMap, BTreeSet};

/// A completion is lost or written twice once in that number of times.
const SELDOM: u64 = 16;

#[derive(Debug)]
pub(super) struct Injection {
    mutation: Option<Mutation>,
    random: Random,
    /// Doorbells that were armed and not looked at since.
    unseen: BTreeSet<Bell>,
    deferred: BTreeSet<u32>,
    /// A link that broke the protocol, to be paid for by another one.
    fault: Option<(u32, Fault)>,
    early: Vec<(usize, Reply)>,
    is_early: bool,
    latest: BTreeMap<usize, Ticket>,
    /// The true ticket of the reply under way.
    true_ticket: Option<Ticket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Bell {
    Link(u32),
    Device(usize),
}

impl Injection {
    pub(super) fn new(mutation: Option<Mutation>, seed: u64) -> Self {
        Self {
            mutation,
            random: Random::new(seed),
            unseen: BTreeSet::new(),
            deferred: BTreeSet::new(),
            fault: None,
            early: Vec::new(),
            is_early: false,
            latest: BTreeMap::new(),
            true_ticket: None,
        }
    }

    pub(super) fn around<H>(&mut self, host: H) -> Faulty<'_, H> {
        if !self.is(Mutation::ArmAfterLook) {
            self.unseen.clear();
        }
        Faulty { host, injection: self }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn is_seldom(&mut self, mutation: Mutation) -> bool {
        self.is(mutation) && self.random.below(SELDOM) == 0
    }

    fn arm(&mut self, bell: Bell) {
        if self.is(Mutation::ArmAfterLook) || self.is(Mutation::RestBlindly) {
            self.unseen.insert(bell);
        }
    }

    /// Under [`Mutation::ReuseTicket`], the reply as one to the request that has the place in the table now.
    pub(super) fn renew(&mut self, reply: Reply) -> Reply {
        let Some(ticket) = self.latest.get(&reply.ticket.index()).copied() else { return reply };
        self.true_ticket = Some(reply.ticket);
        Reply { ticket, ..reply }
    }
}

pub(super) struct Faulty<'f, H> {
    host: H,
    injection: &'f mut Injection,
}

impl<H: Clock> Clock for Faulty<'_, H> {
    fn now(&mut self) -> Nanos {
        self.host.now()
    }
}

impl<H: Lanes<Lane = u32>> Lanes for Faulty<'_, H> {
    type Lane = u32;

    fn has_commands(&self) -> bool {
        self.host.has_commands()
    }

    /// Blind to a link that was armed: since then under [`Mutation::ArmAfterLook`], in this step under
    /// [`Mutation::RestBlindly`].
    fn is_ready(&self, link: &u32) -> bool {
        self.host.is_ready(link) && !self.injection.unseen.contains(&Bell::Link(*link))
    }

    fn receive(&mut self, link: &mut u32, place: &mut Submission, ahead: usize) -> Result<bool, Fault> {
        if let Some((_, fault)) = self.injection.fault.take_if(|(guilty, _)| guilty != link) {
            return Err(fault);
        }
        let received = self.host.receive(link, place, ahead);
        match received {
            Err(fault) if self.injection.is(Mutation::PunishNeighbour) => {
                self.injection.fault = Some((*link, fault));
                Ok(false)
            }
            received => received,
        }
    }

    fn expect(&mut self, link: &u32) {
        self.host.expect(link);
    }

    fn write<const N: usize>(&mut self, link: &mut u32, completion: &[u64; N]) {
        if self.injection.is_seldom(Mutation::LoseCompletion) {
            return;
        }
        if self.injection.is(Mutation::BlameOther)
            && let Some(Completion { tag, status: Status::DeviceFailed { device }, .. }) = parse_completion(completion)
        {
            return self.host.write(link, &Completion::words(tag, Status::DeviceFailed { device: device ^ 1 }));
        }
        self.host.write(link, completion);
        if self.injection.is_seldom(Mutation::DuplicateCompletion) {
            self.host.write(link, completion);
        }
    }

    fn arm(&mut self, link: &u32) {
        self.host.arm(link);
        self.injection.arm(Bell::Link(*link));
    }

    fn disarm(&mut self, link: &u32) {
        self.host.disarm(link);
        self.injection.unseen.remove(&Bell::Link(*link));
    }

    fn announce(&mut self, link: &mut u32, ring: WakeDecision) {
        let mut ring = ring;
        if self.injection.is(Mutation::ForgetAnnouncement) {
            match ring {
                WakeDecision::At(_) => drop(self.injection.deferred.insert(*link)),
                WakeDecision::Now if self.injection.deferred.remove(link) => ring = WakeDecision::Nothing,
                WakeDecision::Now | WakeDecision::Nothing => {}
            }
        }
        self.host.announce(link, ring);
    }

    fn faulted(&mut self, link: u32, fault: Fault) {
        self.host.faulted(link, fault);
    }
}

impl<H: Engine<Lane = u32>> Engine for Faulty<'_, H> {
    type Request = H::Request;

    fn plan(&self, link: &u32, submission: &Submission) -> Result<Plan, Refusal> {
        self.host.plan(link, submission)
    }

    fn run(&mut self, link: &mut u32, submission: &Submission, plan: Plan) -> Result<u32, Refusal> {
        self.host.run(link, submission, plan)
    }

    fn request(&mut self, link: &u32, submission: &Submission, plan: Plan) -> H::Request {
        self.host.request(link, submission, plan)
    }

    fn rerun_inline(&mut self, device: usize, request: &H::Request) -> Result<u32, Refusal> {
        self.host.rerun_inline(device, request)
    }
}

impl<H: Devices<Lane = u32, Request = Request>> Devices for Faulty<'_, H> {
    fn submit(&mut self, device: usize, ticket: Ticket, request: &Request) {
        self.host.submit(device, ticket, request);
        if self.injection.is(Mutation::CompleteEarly) {
            let Request { link, tag, size, .. } = *request;
            let reply = Reply { ticket, outcome: Ok(result(link, tag, size)), took: 1, part: 1 };
            self.injection.early.push((device, reply));
        }
        if self.injection.is(Mutation::ReuseTicket) {
            self.injection.latest.insert(ticket.index(), ticket);
        }
    }

    fn poll(&mut self, device: usize, now: Nanos) -> Option<Reply> {
        if let Some(place) = self.injection.early.iter().position(|(of, _)| *of == device) {
            self.injection.is_early = true;
            return Some(self.injection.early.remove(place).1);
        }
        let reply = self.host.poll(device, now)?;
        Some(self.injection.renew(reply))
    }

    fn ring_device(&mut self, device: usize) {
        self.host.ring_device(device);
    }

    fn arm_device(&mut self, device: usize) {
        self.host.arm_device(device);
        self.injection.arm(Bell::Device(device));
    }

    fn is_device_ready(&self, device: usize) -> bool {
        self.host.is_device_ready(device) && !self.injection.unseen.contains(&Bell::Device(device))
    }

    fn disarm_device(&mut self, device: usize) {
        self.host.disarm_device(device);
        self.injection.unseen.remove(&Bell::Device(device));
    }

    fn due(&self, device: usize) -> Option<Nanos> {
        self.host.due(device)
    }

    fn health(&mut self, device: usize) -> Health {
        let health = self.host.health(device);
        if self.injection.is(Mutation::ForgetOrphans) { Health::Alive } else { health }
    }

    fn measured(&mut self, device: usize) -> Option<sidecore_core::policy::balance::Measured> {
        self.host.measured(device)
    }

    /// The sidecore keeps the requests of a device that reports to be alive.
    fn revoke(&mut self, device: usize) -> Health {
        if self.injection.is(Mutation::NoTimeout) && self.host.health(device) == Health::Alive {
            return Health::Alive;
        }
        let health = self.host.revoke(device);
        if self.injection.is(Mutation::ForgetOrphans) { Health::Alive } else { health }
    }

    fn retire(&mut self, device: usize) {
        self.host.retire(device);
    }

    fn device_removed(&mut self, device: usize) {
        self.host.device_removed(device);
    }
}

impl<H: Observer<Lane = u32>> Observer for Faulty<'_, H> {
    fn on(&mut self, event: Event<'_, u32, H::Request>) {
        match event {
            // Its device still has it.
            Event::Answered { .. } if std::mem::take(&mut self.injection.is_early) => {}
            Event::Finished { reply, done } => {
                let ticket = self.injection.true_ticket.take().unwrap_or(reply.ticket);
                self.host.on(Event::Finished { reply: &Reply { ticket, ..*reply }, done });
            }
            event => self.host.on(event),
        }
    }
}
