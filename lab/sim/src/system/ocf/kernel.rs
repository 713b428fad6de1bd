//! The OpenBSD Cryptographic Framework: requests through `ioctl`, sessions bound to a card.

use super::cards::{Finished, Request};
use super::event::OcfEvent;
use super::machine::{Machine, Software, Step};
use super::parameters::Ocf;
use crate::engine::Engine;
use crate::part::cpu::{Level, Section};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

pub(super) struct Kernel {
    submitted: Vec<Nanos>,
    /// Requests that arrived for each process and were not begun, and whether it has one in progress.
    arrived: Vec<VecDeque<Nanos>>,
    busy: Vec<bool>,
    is_open: bool,
    queue: VecDeque<u32>,
    thread_awake: bool,
    reaped: Vec<Finished>,
}

impl Kernel {
    pub(super) fn new(set: &Ocf) -> Self {
        let clients = set.clients() as usize;
        let (submitted, arrived, busy) = (vec![0; clients], vec![VecDeque::new(); clients], vec![false; clients]);
        Self {
            submitted,
            arrived,
            busy,
            is_open: set.gap().is_some(),
            queue: VecDeque::new(),
            thread_awake: false,
            reaped: Vec::new(),
        }
    }

    /// The kernel's thread begins a request. It goes before woken processes, and blocks interrupts, because the driver
    /// runs at its card's interrupt level.
    fn thread(machine: &Machine) -> Section {
        let host = &machine.set.host;
        let time = host.dispatch_us.ns() + host.driver_us.ns();
        Section { level: Level::Interrupt, ..Machine::section(Step::Serve, machine.set.clients(), time) }
    }

    fn woken(machine: &Machine) -> Section {
        let thread = Self::thread(machine);
        Section { time: thread.time + machine.set.host.switch_us.nanos(), ..thread }
    }

    fn dispatched(&mut self, machine: &mut Machine, engine: &mut Engine<OcfEvent>) -> Option<Section> {
        if let Some(client) = self.queue.pop_front() {
            let request = Request { id: client, size: machine.set.client.size.get() };
            machine.cards.submit(engine, client % machine.set.card.count.get(), request);
        }
        self.thread_awake = !self.queue.is_empty();
        self.thread_awake.then(|| Self::thread(machine))
    }

    fn reaped(&mut self, machine: &mut Machine) -> Option<Section> {
        let host = &machine.set.host;
        let time = host.return_us.ns() + host.copy_ns_per_byte.get() * machine.set.bytes();
        for Finished { id, .. } in self.reaped.drain(..) {
            machine.ready.push(Machine::section(Step::Return, id, time));
        }
        machine.line_busy = !machine.cards.done.is_empty();
        machine.line_busy.then(|| machine.interrupt())
    }

    fn reap(&mut self, machine: &mut Machine) -> Section {
        self.reaped.append(&mut machine.cards.done);
        let time = machine.set.host.reap_us.ns() * self.reaped.len() as f64;
        Machine::section(Step::Reap, machine.set.clients() + 1, time)
    }
}

impl Software for Kernel {
    fn arrived(&mut self, machine: &mut Machine, now: Nanos, client: u32) {
        let number = client as usize;
        self.arrived[number].push_back(now);
        if !std::mem::replace(&mut self.busy[number], true) {
            machine.ready.push(machine.user(client));
        }
    }

    fn ended(&mut self, machine: &mut Machine, engine: &mut Engine<OcfEvent>, section: Section) -> Option<Section> {
        let (client, bytes, host) = (section.owner, machine.set.bytes(), machine.set.host);
        match Step::of(section) {
            Step::User => {
                machine.cards.write_back(engine, machine.set.copied());
                let arrived = self.arrived[client as usize].pop_front().filter(|_| self.is_open);
                self.submitted[client as usize] = arrived.unwrap_or(engine.now());
                let time = host.submit_us.ns() + host.copy_ns_per_byte.get() * bytes + machine.set.map();
                return Some(Machine::section(Step::Submit, client, time));
            }
            Step::Submit => {
                machine.cards.write_back(engine, bytes);
                self.queue.push_back(client);
                if !std::mem::replace(&mut self.thread_awake, true) {
                    machine.ready.push(Self::woken(machine));
                }
            }
            Step::Return => {
                machine.cards.write_back(engine, bytes);
                machine.replied(engine.now(), self.submitted[client as usize]);
                let goes_on = !self.is_open || !self.arrived[client as usize].is_empty();
                self.busy[client as usize] = goes_on;
                // It keeps the processor: other woken processes wait until it sleeps, or until an interrupt has
                // occurred.
                return goes_on.then(|| machine.user(client));
            }
            Step::Serve => return self.dispatched(machine, engine),
            Step::Interrupt => return Some(self.reap(machine)),
            Step::Reap => return self.reaped(machine),
            Step::Sleep | Step::Wake | Step::Look => {}
        }
        None
    }
}
