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
        Machine::section(Step::Serve, machine.config.clients, machine.config.dispatch + machine.config.driver)
    }

    fn line(machine: &mut Machine) -> Section {
        let owner = machine.config.clients + 1;
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
            let job = Job { id: client, size: machine.config.size };
            machine.cards.submit(engine, client % machine.config.cards, job);
        }
        self.thread_awake = !self.queue.is_empty();
        self.thread_awake.then(|| Self::thread(machine))
    }

    /// All that was complete is reaped: its processes may run. What completed meanwhile raises the line again.
    fn reaped(&mut self, machine: &mut Machine) -> Option<Section> {
        let config = &machine.config;
        let time = config.reply + config.copy * f64::from(config.size);
        for Finished { id, .. } in self.reaped.drain(..) {
            machine.run(Machine::section(Step::Return, id, time));
        }
        self.line_busy = machine.cards.has_done();
        self.line_busy.then(|| Self::line(machine))
    }
}

impl Software for Kernel {
    fn start(&mut self, machine: &mut Machine, _: &mut Engine<Event>, client: u32) {
        machine.run(Machine::section(Step::User, client, machine.config.user));
    }

    fn ended(&mut self, machine: &mut Machine, engine: &mut Engine<Event>, section: Section) -> Option<Section> {
        let (client, bytes) = (section.owner, f64::from(machine.config.size));
        match Step::of(section) {
            Step::User => {
                machine.cards.write_back(engine, machine.config.user_writes);
                self.submitted[client as usize] = engine.now();
                let time = machine.config.submit + machine.config.copy * bytes + machine.config.map;
                return Some(Machine::section(Step::Submit, client, time));
            }
            Step::Submit => {
                machine.cards.write_back(engine, bytes);
                self.queued(machine, client);
            }
            Step::Return => {
                machine.cards.write_back(engine, bytes);
                machine.replied(engine.now(), self.submitted[client as usize]);
                machine.run(Machine::section(Step::User, client, machine.config.user));
            }
            Step::Serve => return self.dispatched(machine, engine),
            Step::Interrupt => {
                machine.cards.take_done(&mut self.reaped);
                let time = machine.config.reap * self.reaped.len() as f64;
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
