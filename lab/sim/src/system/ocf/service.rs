//! Sidecore on the same machine: lanes instead of system calls, any card for any request, announcements in batches.
//!
//! Every decision is [`Dispatch`]'s: which client may submit, which card serves, when a client is woken. The sidecore
//! is a process of high priority on the only processor: it runs as soon as it is woken, sleeps without work, and polls
//! the cards while it is awake, so that cards interrupt only a sleeping sidecore.

use super::cards::{Finished, Request};
use super::event::OcfEvent;
use super::machine::{Machine, Software, Step};
use super::parameters::Ocf;
use crate::engine::Engine;
use crate::part::cpu::Section;
use crate::part::tables;
use sidecore_core::dispatch::{
    Assignment, Capability, ClientId, Dispatch, KeyLocation, LaneId, Limits, Placement, Work,
};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Rates;
use sidecore_core::policy::notify::WakeDecision;
use sidecore_core::session::{Algorithm, Class, Op};
use sidecore_core::time::Nanos;
use std::collections::{BTreeSet, VecDeque};

const ROUND: usize = 32;
/// A client's share in one turn, ns of time on a card.
const QUANTUM: Nanos = 100_000;
/// Sizes for measuring a card's rate before it joins, bytes.
const MEASURED: [u32; 4] = [16, 256, 4_096, 16_384];

pub(super) struct Service {
    dispatch: Dispatch,
    class: Class,
    clients: Vec<Client>,
    turn: usize,
    asleep: bool,
    tickets: Vec<Option<Ticket>>,
    /// Requests that the present round completes, and requests for cards.
    completed: Vec<Work>,
    handed: Vec<(usize, Request)>,
    due: Vec<u32>,
    wakes: Vec<u32>,
    /// Time of each card's last completion, ns.
    last_done: Vec<Nanos>,
}

/// A client: its lane, and the loop that keeps a number of requests in flight. A slot is one of these requests.
struct Client {
    asleep: bool,
    timed: bool,
    submitted_at: Vec<Nanos>,
    /// Requests that arrived and were not submitted; `None`: there is always one.
    arrived: Option<VecDeque<Nanos>>,
    free: Vec<u32>,
    submitted: VecDeque<u32>,
    completed: VecDeque<u32>,
}

impl Client {
    fn new(in_flight: u32, is_open: bool) -> Self {
        Self {
            asleep: is_open,
            timed: false,
            submitted_at: vec![0; in_flight as usize],
            arrived: is_open.then(VecDeque::new),
            free: (0..in_flight).rev().collect(),
            submitted: VecDeque::new(),
            completed: VecDeque::new(),
        }
    }

    fn has_work(&self) -> bool {
        let is_asked = self.arrived.as_ref().is_none_or(|arrived| !arrived.is_empty());
        (!self.free.is_empty() && is_asked) || !self.completed.is_empty()
    }

    /// Takes a completion, if any, and submits a request, if a slot is free. Returns the time of submission of the
    /// completed request.
    fn step(&mut self, now: Nanos) -> Option<Nanos> {
        let slot = self.completed.pop_front();
        let submitted = slot.map(|slot| self.submitted_at[slot as usize]);
        self.free.extend(slot);
        if !self.free.is_empty()
            && let Some(since) = self.arrived.as_mut().map_or(Some(now), VecDeque::pop_front)
            && let Some(slot) = self.free.pop()
        {
            self.submitted_at[slot as usize] = since;
            self.submitted.push_back(slot);
        }
        submitted
    }
}

impl Service {
    pub(super) fn new(set: &Ocf) -> Self {
        let class = Class::of(Algorithm::TripleDesCbc, Op::Encrypt).expect("3DES encrypts");
        let (clients, cards, credit) = (set.clients(), set.card.count.get(), set.client.in_flight.get());
        let in_flight = clients * credit;
        // All cards are equal: a request waits for any of them.
        let limits = Limits { lanes: clients, clients, in_flight, quantum: QUANTUM, deferred: 0 };
        let mut rates = Rates::new();
        for size in MEASURED {
            rates.observe(class, size, unloaded(set, size));
        }
        let (classes, depth) = ([class].into_iter().collect(), set.card.depth.get());
        let card = Capability { classes, immediate: false, remote_keys: false, depth, weight: 1, rates };
        let devices = std::iter::repeat_n(card, cards as usize);
        Self {
            dispatch: tables(limits, set.service.balance, set.notify(), credit, devices),
            class,
            clients: (0..clients).map(|_| Client::new(credit, set.gap().is_some())).collect(),
            turn: 0,
            asleep: true,
            tickets: vec![None; in_flight as usize],
            completed: Vec::new(),
            handed: Vec::new(),
            due: Vec::new(),
            wakes: Vec::new(),
            last_done: vec![0; cards as usize],
        }
    }

    fn own(machine: &Machine, step: Step, time: f64) -> Section {
        Machine::section(step, machine.set.clients(), time)
    }

    fn wake(&mut self, machine: &mut Machine) {
        if std::mem::take(&mut self.asleep) {
            machine.ready.push(Self::own(machine, Step::Look, 0.0));
        }
    }

    fn has_work(&self, machine: &Machine) -> bool {
        let submitted = || self.clients.iter().any(|client| !client.submitted.is_empty());
        !machine.cards.done.is_empty()
            || !self.due.is_empty()
            || (submitted() && self.dispatch.would_place(self.class, machine.set.client.size.get(), KeyLocation::LOCAL))
    }

    /// Decides the next round. Its effects take place at its end.
    fn round(&mut self, machine: &mut Machine, engine: &Engine<OcfEvent>) -> Section {
        let Ocf { host, service, .. } = machine.set;
        if !self.has_work(machine) {
            return Self::own(machine, Step::Sleep, host.sleep_us.ns());
        }
        for Finished { id, card, given, at } in machine.cards.done.drain(..) {
            let Some(ticket) = self.tickets[id as usize].take() else { continue };
            // The time during which the request had the card to itself.
            let since = std::mem::replace(&mut self.last_done[card as usize], at).max(given);
            let done = self.dispatch.complete(ticket, Some(at.saturating_sub(since)));
            self.completed.extend(done.map(|done| done.work));
        }
        self.take(&machine.set, engine.now());
        let reaped = self.completed.len() as f64 * (host.reap_us.ns() + service.lane_us.ns());
        let each = service.lane_us.ns() + service.request_us.ns() + host.driver_us.ns();
        let taken = self.handed.len() as f64 * each;
        Self::own(machine, Step::Serve, reaped + taken)
    }

    fn take(&mut self, set: &Ocf, now: Nanos) {
        let count = self.clients.len();
        for step in 0..count {
            let number = (self.turn + step) % count;
            let id = ClientId(number as u32);
            if self.clients[number].submitted.is_empty() {
                self.dispatch.idle(id);
                continue;
            }
            self.dispatch.refill(id);
            while self.handed.len() < ROUND && self.dispatch.may_take(id) {
                let Some(&slot) = self.clients[number].submitted.front() else { break };
                if !self.place(set, number, slot, now) {
                    self.turn = number;
                    return;
                }
                self.clients[number].submitted.pop_front();
            }
        }
        self.turn = (self.turn + 1) % count;
    }

    /// Assigns a request to a card. `false`: all are full.
    fn place(&mut self, set: &Ocf, number: usize, slot: u32, now: Nanos) -> bool {
        let (lane, size) = (LaneId(number as u32), set.client.size.get());
        let work = Work {
            lane,
            tag: slot,
            class: self.class,
            size,
            urgent: false,
            key_location: KeyLocation::LOCAL,
            submitted: None,
        };
        let Placement::Assigned(Assignment { device, ticket, begins: true, .. }) = self.dispatch.place(now, work)
        else {
            return false;
        };
        self.tickets[ticket.index()] = Some(ticket);
        self.handed.push((device, Request { id: ticket.index() as u32, size }));
        true
    }

    fn served(&mut self, machine: &mut Machine, engine: &mut Engine<OcfEvent>) -> Section {
        for (card, request) in self.handed.drain(..) {
            machine.cards.submit(engine, card as u32, request);
        }
        let answered: BTreeSet<u32> = self.completed.iter().map(|work| work.lane.0).collect();
        for Work { lane, tag, .. } in self.completed.drain(..) {
            self.clients[lane.0 as usize].completed.push_back(tag);
        }
        for lane in answered {
            let ring = self.dispatch.announce(engine.now(), LaneId(lane));
            self.ring(engine, lane, ring);
        }
        for lane in std::mem::take(&mut self.due) {
            let ring = self.dispatch.due(engine.now(), LaneId(lane));
            self.ring(engine, lane, ring);
        }
        if self.wakes.is_empty() {
            return self.round(machine, engine);
        }
        Self::own(machine, Step::Wake, self.wakes.len() as f64 * machine.set.host.wake_us.ns())
    }

    /// Carries out a moderator's decision. A client that is awake sees its completions before it sleeps.
    fn ring(&mut self, engine: &mut Engine<OcfEvent>, lane: u32, ring: WakeDecision) {
        let client = &mut self.clients[lane as usize];
        match ring {
            WakeDecision::Now if client.asleep => {
                client.asleep = false;
                self.wakes.push(lane);
            }
            WakeDecision::At(at) if client.asleep && !client.timed => {
                client.timed = true;
                engine.schedule(at, OcfEvent::Due(lane));
            }
            _ => {}
        }
    }

    fn client_ended(
        &mut self,
        machine: &mut Machine,
        engine: &mut Engine<OcfEvent>,
        section: Section,
    ) -> Option<Section> {
        let (number, set) = (section.owner, machine.set);
        match Step::of(section) {
            Step::User => {
                machine.cards.write_back(engine, set.copied());
                if let Some(submitted) = self.clients[number as usize].step(engine.now()) {
                    machine.replied(engine.now(), submitted);
                }
            }
            Step::Submit => self.wake(machine),
            Step::Sleep => {
                let client = &mut self.clients[number as usize];
                client.asleep = !client.has_work();
                if client.asleep {
                    return None;
                }
            }
            _ => {}
        }
        let client = &self.clients[number as usize];
        if client.has_work() {
            return Some(machine.user(number));
        }
        let rings = self.asleep && !client.submitted.is_empty();
        let (step, time) = if rings { (Step::Submit, set.host.wake_us) } else { (Step::Sleep, set.host.sleep_us) };
        Some(Machine::section(step, number, time.ns()))
    }
}

/// A card's time for a request on an idle bus, ns: as measured at the start.
fn unloaded(set: &Ocf, size: u32) -> Nanos {
    let (size, card) = (f64::from(size), set.hardware());
    let ends = 2.0 * size.min(card.buffer) / card.bus;
    (card.fixed + ends + size * card.per_byte).round() as Nanos
}

impl Software for Service {
    fn arrived(&mut self, machine: &mut Machine, now: Nanos, number: u32) {
        let client = &mut self.clients[number as usize];
        let Some(arrived) = &mut client.arrived else { return machine.ready.push(machine.user(number)) };
        arrived.push_back(now);
        if client.asleep && client.has_work() {
            client.asleep = false;
            machine.ready.push(machine.user(number));
        }
    }

    fn ended(&mut self, machine: &mut Machine, engine: &mut Engine<OcfEvent>, section: Section) -> Option<Section> {
        if section.owner < machine.set.clients() {
            return self.client_ended(machine, engine, section);
        }
        match Step::of(section) {
            Step::Look => Some(self.round(machine, engine)),
            Step::Serve => Some(self.served(machine, engine)),
            Step::Wake => {
                for lane in self.wakes.drain(..) {
                    machine.ready.push(machine.user(lane));
                }
                Some(self.round(machine, engine))
            }
            Step::Sleep => {
                self.asleep = !self.has_work(machine);
                (!self.asleep).then(|| self.round(machine, engine))
            }
            Step::Interrupt => {
                machine.line_busy = false;
                self.wake(machine);
                None
            }
            _ => None,
        }
    }

    fn is_interrupted(&self) -> bool {
        self.asleep
    }

    fn due(&mut self, machine: &mut Machine, lane: u32) {
        self.clients[lane as usize].timed = false;
        self.due.push(lane);
        if self.asleep {
            // The timer's interrupt: its end wakes the sidecore.
            let (owner, time) = (machine.set.clients() + 1, machine.set.host.interrupt_us.ns());
            machine.ready.push(Machine::section(Step::Interrupt, owner, time));
        }
    }
}
