//! The OpenBSD Cryptographic Framework: requests through `ioctl`, sessions bound to a card.

use super::cards::{Finished, Job};
use super::machine::{Event, Machine, Software, Step};
use crate::engine::Engine;
use crate::part::cpu::Section;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// The framework and the processes that use it, each with a session of its own and one request at a time.
#[derive(Debug)]
pub(super) struct Kernel {
    submitted: Vec<Nanos>,
    /// Requests for the kernel's thread.
    queue: VecDeque<u32>,
    thread_awake: bool,
    line_busy: bool,
    reaped: Vec<Finished>,
}

impl Kernel {
    pub(super) fn new(clients: u32) -> Self {
        Self {
            submitted: vec![0; clients as usize],
            queue: VecDeque::new(),
            thread_awake: false,
            line_busy: false,
            reaped: Vec::new(),
        }
    }

    fn thread(machine: &Machine) -> Section {
        let host = &machine.set.host;
        Machine::section(Step::Serve, machine.set.clients(), host.dispatch_us.ns() + host.driver_us.ns())
    }

    fn line(machine: &mut Machine) -> Section {
        let owner = machine.set.clients() + 1;
        machine.interrupt(owner)
    }

    /// The process has handed over its data: the kernel's thread takes it from here.
    fn queued(&mut self, machine: &mut Machine, client: u32) {
        self.queue.push_back(client);
        if !self.thread_awake {
            self.thread_awake = true;
            machine.run(Self::thread(machine));
        }
    }

    /// The kernel's thread gave a request to its session's card, and goes on while there are more.
    fn dispatched(&mut self, machine: &mut Machine, engine: &mut Engine<Event>) -> Option<Section> {
        if let Some(client) = self.queue.pop_front() {
            let job = Job { id: client, size: machine.set.client.size.get() };
            machine.cards.submit(engine, client % machine.set.card.count.get(), job);
        }
        self.thread_awake = !self.queue.is_empty();
        self.thread_awake.then(|| Self::thread(machine))
    }

    /// All that was complete is reaped: its processes may run. What completed meanwhile raises the line again.
    fn reaped(&mut self, machine: &mut Machine) -> Option<Section> {
        let host = &machine.set.host;
        let time = host.return_us.ns() + host.copy_ns_per_byte.get() * machine.set.bytes();
        for Finished { id, .. } in self.reaped.drain(..) {
            machine.run(Machine::section(Step::Return, id, time));
        }
        self.line_busy = machine.cards.has_done();
        self.line_busy.then(|| Self::line(machine))
    }
}

impl Software for Kernel {
    fn start(&mut self, machine: &mut Machine, _: &mut Engine<Event>, client: u32) {
        machine.run(Machine::section(Step::User, client, machine.set.user()));
    }

    fn ended(&mut self, machine: &mut Machine, engine: &mut Engine<Event>, section: Section) -> Option<Section> {
        let (client, bytes, host) = (section.owner, machine.set.bytes(), machine.set.host);
        match Step::of(section) {
            Step::User => {
                machine.cards.write_back(engine, machine.set.copied());
                self.submitted[client as usize] = engine.now();
                let time = host.submit_us.ns() + host.copy_ns_per_byte.get() * bytes + machine.set.map();
                return Some(Machine::section(Step::Submit, client, time));
            }
            Step::Submit => {
                machine.cards.write_back(engine, bytes);
                self.queued(machine, client);
            }
            Step::Return => {
                machine.cards.write_back(engine, bytes);
                machine.replied(engine.now(), self.submitted[client as usize]);
                machine.run(Machine::section(Step::User, client, machine.set.user()));
            }
            Step::Serve => return self.dispatched(machine, engine),
            Step::Interrupt => {
                machine.cards.take_done(&mut self.reaped);
                let time = host.reap_us.ns() * self.reaped.len() as f64;
                return Some(Machine::section(Step::Reap, section.owner, time));
            }
            Step::Reap => return self.reaped(machine),
            Step::Sleep | Step::Wake | Step::Look => {}
        }
        None
    }

    fn card_done(&mut self, machine: &mut Machine) {
        if !self.line_busy {
            self.line_busy = true;
            let line = Self::line(machine);
            machine.run(line);
        }
    }

    fn due(&mut self, _: &mut Machine, _: u32) {}
}
