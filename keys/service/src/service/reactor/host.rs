//! The host of `Sidecore` in real time: clock, rings, engine, devices.

mod observer;

use super::Setup;
use super::devices::Device;
use crate::device::{Port, Request};
use crate::engine::crypto::Session;
use crate::engine::execute::{Scratch, execute, perform};
use crate::events::Loss;
use crate::keys::Admission;
use crate::service::command::{Event, Lane, LaneKey};
use crate::shm::span::Span;
use sidecore_core::dispatch::LaneId;
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Measured;
use sidecore_core::policy::notify::{ThreadCore, WakeDecision};
use sidecore_core::session::{Class, Op, Refusal};
use sidecore_core::sidecore::{Clock, Devices, Engine, Health, Lanes, Plan, Reply};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{Fault, Submission};
use sidecore_counters::{KeyBlock, KeyCounter, LaneCounter, SidecoreBlock, SidecoreCounter};
use sidecore_daemon::sys::poller::Poller;
use sidecore_daemon::sys::wake;
use sidecore_ipc::sys::clock;
use std::collections::HashMap;
use std::sync::Arc;

/// Submissions to prefetch when more are likely.
const EXPECTED: u64 = 16;

#[derive(Debug)]
pub(super) struct ReactorHost {
    pub(super) setup: Setup,
    pub(super) keys: HashMap<LaneKey, LaneId>,
    pub(super) devices: Vec<Device>,
    /// The reported kind of loss of each device: apart from the devices, which are read for each request.
    pub(super) losses: Vec<Loss>,
    /// Cores for workers without a fixed core.
    pub(super) free: Vec<usize>,
    scratch: Scratch,
    /// Largest input of one request, bytes.
    max_request: u64,
    /// Taken out during a wait.
    pub(super) poller: Option<Poller>,
    pub(super) counters: SidecoreBlock,
    pub(super) stored_keys: Vec<KeyBlock>,
    /// Requests and bytes since the last housekeeping, by class.
    tally: Vec<(u64, u64)>,
}

impl ReactorHost {
    pub(super) fn new(setup: Setup, place: ThreadCore, free: Vec<usize>, poller: Poller) -> Self {
        let counters = setup.counters.sidecore(setup.index);
        counters.open(place);
        let limits = &setup.config.limits;
        Self {
            keys: HashMap::new(),
            devices: Vec::new(),
            losses: Vec::new(),
            free,
            scratch: Scratch::new(limits.max_request_bytes),
            max_request: u64::from(limits.max_request_bytes),
            poller: Some(poller),
            counters,
            stored_keys: (0..limits.keys as usize).map(|place| setup.counters.key(setup.index, place)).collect(),
            tally: vec![(0, 0); Class::COUNT],
            setup,
        }
    }

    pub(super) fn publish_park(&self) {
        let park = self.setup.calibration.park();
        self.counters.set(SidecoreCounter::ParkCostNs, park.cost);
        self.counters.set(SidecoreCounter::WakeTimeNs, park.wake);
    }

    pub(super) fn tell(&self, event: Event) {
        // Without a control thread the service is ending.
        if self.setup.events.send(event).is_ok() {
            wake::ring(&*self.setup.listener);
        }
    }

    /// A key's limit has an event of its own.
    #[cold]
    fn tell_refusal(&self, lane: &Lane, key: Option<u16>, refusal: Refusal) {
        let quiet = if refusal == Refusal::KeyLimit { None } else { lane.refusals.tell(clock::now()) };
        if let Some(quiet) = quiet {
            self.tell(Event::RequestRefused(lane.key, key, refusal, quiet));
        }
    }

    pub(super) fn ignore_doorbell(&mut self, lane: &Lane) {
        self.keys.remove(&lane.key);
        if let Some(poller) = &self.poller {
            poller.remove(&lane.doorbell);
        }
    }

    #[inline]
    fn port(&mut self, device: usize) -> Option<&mut dyn Port> {
        Some(&mut **self.devices[device].port.as_mut()?)
    }

    /// Counters of a stored key. A request without one costs a single branch.
    #[inline]
    fn key(&self, session: Option<&Arc<Session>>) -> Option<&KeyBlock> {
        self.stored_keys.get(usize::from(session?.key()?))
    }
}

impl Clock for ReactorHost {
    #[inline]
    fn now(&mut self) -> Nanos {
        clock::now()
    }
}

impl Lanes for ReactorHost {
    type Lane = Lane;

    #[inline]
    fn has_commands(&self) -> bool {
        self.setup.mailbox.has_commands()
    }

    #[inline]
    fn is_ready(&self, lane: &Lane) -> bool {
        lane.consumer.ready(lane.memory.submission())
    }

    /// Also starts the transfers of its payload and of the slot for its completion.
    #[inline]
    fn receive(&mut self, lane: &mut Lane, place: &mut Submission, ahead: usize) -> Result<bool, Fault> {
        let memory = &*lane.memory;
        let arena_bytes = memory.layout().arena_bytes();
        // Outputs come first: lines that an input shares with them, as in place, are fetched once and for writing.
        let is_there = place.receive(&mut lane.consumer, memory.submission(), arena_bytes, |extent, is_written| {
            memory.span(extent).inspect(if is_written { Span::prefetch_write } else { Span::prefetch });
        })?;
        if is_there {
            memory.prefetch_completion(lane.producer.pushed() + ahead as u64);
        }
        Ok(is_there)
    }

    #[inline]
    fn expect(&mut self, lane: &Lane) {
        lane.memory.prefetch_submissions(lane.consumer.popped(), EXPECTED);
    }

    #[inline]
    fn write<const N: usize>(&mut self, lane: &mut Lane, completion: &[u64; N]) {
        lane.producer.push(lane.memory.completion(), completion);
    }

    fn arm(&mut self, lane: &Lane) {
        lane.memory.submission_doorbell().arm();
    }

    fn disarm(&mut self, lane: &Lane) {
        lane.memory.submission_doorbell().disarm();
    }

    #[inline]
    fn announce(&mut self, lane: &mut Lane, ring: WakeDecision) {
        if ring != WakeDecision::Now {
            return;
        }
        if lane.memory.completion_doorbell().must_wake() {
            wake::ring_pipe(&lane.wake);
            lane.counters.add(LaneCounter::WakeupsSent, 1);
        } else {
            lane.counters.add(LaneCounter::WakeupsSaved, 1);
        }
    }

    fn faulted(&mut self, lane: Lane, fault: Fault) {
        self.counters.add(SidecoreCounter::Faults, 1);
        lane.counters.set(LaneCounter::Fault, fault as u64 + 1);
        self.ignore_doorbell(&lane);
        self.tell(Event::Fault(lane.key, fault, Box::new(lane)));
    }
}

impl Engine for ReactorHost {
    type Request = Request;

    #[inline]
    fn plan(&self, lane: &Lane, submission: &Submission) -> Result<Plan, Refusal> {
        let (token, session) = lane.sessions.find(submission.session()).ok_or(Refusal::NoSession)?;
        let class = session.class(submission.op()).ok_or(Refusal::Unsupported)?;
        let size = submission.input_len();
        if size > self.max_request {
            return Err(Refusal::TooLarge);
        }
        let room = session.output_len(submission.op(), submission.head_len() as usize, size as usize);
        let key_location = session.key_location(submission.op());
        let is_limited = session.limiter(submission.op()).is_some();
        Ok(Plan { class, size: size as u32, key_location, room: room.map(|room| room as u32), token, is_limited })
    }

    #[cold]
    fn admit(&mut self, lane: &Lane, plan: Plan) -> Result<(), Refusal> {
        let session = lane.sessions.at(plan.token).ok_or(Refusal::NoSession)?;
        let admission = session.limiter(plan.class.op()).map(|limiter| limiter.admit(clock::now()));
        let Some(Admission::Refused { told }) = admission else { return Ok(()) };
        if let Some(key) = self.key(Some(session)) {
            key.add(KeyCounter::Limited, 1);
        }
        if let Some(place) = session.key().filter(|_| told) {
            self.tell(Event::KeyLimited(place));
        }
        Err(Refusal::KeyLimit)
    }

    #[inline]
    fn run(&mut self, lane: &mut Lane, submission: &Submission, plan: Plan) -> Result<u32, Refusal> {
        let session = lane.sessions.at(plan.token).ok_or(Refusal::NoSession)?;
        let outcome =
            plan.room.and_then(|room| perform(session, &lane.memory, submission, room as usize, &mut self.scratch));
        if let Some(key) = self.key(Some(session)) {
            count_done(key, plan.class.op(), outcome);
        }
        if let Err(refusal) = outcome {
            self.tell_refusal(lane, session.key(), refusal);
        }
        outcome
    }

    fn request(&mut self, lane: &Lane, submission: &Submission, plan: Plan) -> Request {
        let session = lane.sessions.at(plan.token).expect("the plan was made from this table a moment ago");
        Request { session: session.clone(), memory: lane.memory.clone(), submission: *submission, user: lane.user }
    }

    fn rerun_inline(&mut self, device: usize, request: &Request) -> Result<u32, Refusal> {
        self.devices[device].count(1, request.submission.input_len());
        execute(&request.session, &request.memory, &request.submission, &mut self.scratch)
    }
}

impl Devices for ReactorHost {
    fn submit(&mut self, device: usize, ticket: Ticket, request: &Request) {
        let device = &mut self.devices[device];
        device.count(1, request.submission.input_len());
        if let Some(port) = &mut device.port {
            port.submit(ticket, request.clone());
        }
    }

    fn poll(&mut self, device: usize, now: Nanos) -> Option<Reply> {
        self.port(device)?.poll(now).map(|(reply, _)| reply)
    }

    fn ring_device(&mut self, device: usize) {
        if let Some(port) = self.port(device) {
            port.ring();
        }
    }

    fn arm_device(&mut self, device: usize) {
        if let Some(port) = self.port(device) {
            port.arm();
        }
    }

    fn is_device_ready(&self, device: usize) -> bool {
        self.devices[device].port.as_ref().is_some_and(|port| port.is_ready())
    }

    fn disarm_device(&mut self, device: usize) {
        if let Some(port) = self.port(device) {
            port.disarm();
        }
    }

    fn due(&self, device: usize) -> Option<Nanos> {
        self.devices[device].port.as_ref()?.due()
    }

    fn health(&mut self, device: usize) -> Health {
        self.port(device).map_or(Health::Alive, |port| port.health())
    }

    fn measured(&mut self, device: usize) -> Option<Measured> {
        self.port(device).and_then(Port::measured)
    }

    fn revoke(&mut self, device: usize) -> Health {
        let health = self.port(device).map_or(Health::Alive, Port::revoke);
        let loss = &mut self.losses[device];
        if health != Health::Alive && *loss == Loss::Died {
            *loss = Loss::Late;
        }
        health
    }

    fn retire(&mut self, device: usize) {
        self.losses[device] = Loss::Removed;
        if let Some(port) = self.port(device) {
            port.kill();
        }
    }

    fn device_removed(&mut self, device: usize) {
        if let Some(port) = self.port(device) {
            port.forget();
        }
        if let Some(event) = self.devices[device].lost(self.setup.index, self.losses[device]) {
            self.tell(event);
        }
    }
}

#[cold]
fn count_done(key: &KeyBlock, op: Op, outcome: Result<u32, Refusal>) {
    key.add(KeyCounter::Submitted, 1);
    key.add(KeyCounter::of(op), 1);
    key.add(if outcome.is_ok() { KeyCounter::Done } else { KeyCounter::Refused }, 1);
}
