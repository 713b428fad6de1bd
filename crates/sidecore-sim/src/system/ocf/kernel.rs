//! The OpenBSD Cryptographic Framework: requests through `ioctl`, sessions bound to a card.

use super::cards::{Finished, Request};
use super::machine::{Event, Machine, Software, Step};
use crate::engine::Engine;
use crate::part::cpu::Section;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// The framework and the processes that use it, each with a session of its own and one request at a time.
pub(super) struct Kernel {
    submitted: Vec<Nanos>,
    /// Requests for the kernel's thread.
    queue: VecDeque<u32>,
    thread_awake: bool,
    reaped: Vec<Finished>,
}

impl Kernel {
    pub(super) fn new(clients: u32) -> Self {
        let submitted = vec![0; clients as usize];
        Self { submitted, queue: VecDeque::new(), thread_awake: false, reaped: Vec::new() }
    }

    fn thread(machine: &Machine) -> Section {
        let host = &machine.set.host;
        Machine::section(Step::Serve, machine.set.clients(), host.dispatch_us.ns() + host.driver_us.ns())
    }

    /// The kernel's thread gave a request to its session's card, and goes on while there are more.
    fn dispatched(&mut self, machine: &mut Machine, engine: &mut Engine<Event>) -> Option<Section> {
        if let Some(client) = self.queue.pop_front() {
            let request = Request { id: client, size: machine.set.client.size.get() };
            machine.cards.submit(engine, client % machine.set.card.count.get(), request);
        }
        self.thread_awake = !self.queue.is_empty();
        self.thread_awake.then(|| Self::thread(machine))
    }

    /// All that was complete is reaped: its processes may run. What completed meanwhile raises the line again.
    fn reaped(&mut self, machine: &mut Machine) -> Option<Section> {
        let host = &machine.set.host;
        let time = host.return_us.ns() + host.copy_ns_per_byte.get() * machine.set.bytes();
        for Finished { id, .. } in self.reaped.drain(..) {
            machine.ready.push(Machine::section(Step::Return, id, time));
        }
        machine.line_busy = !machine.cards.done.is_empty();
        machine.line_busy.then(|| machine.interrupt())
    }
}

impl Software for Kernel {
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
                self.queue.push_back(client);
                if !std::mem::replace(&mut self.thread_awake, true) {
                    machine.ready.push(Self::thread(machine));
                }
            }
            Step::Return => {
                machine.cards.write_back(engine, bytes);
                machine.replied(engine.now(), self.submitted[client as usize]);
                machine.ready.push(machine.user(client));
            }
            Step::Serve => return self.dispatched(machine, engine),
            Step::Interrupt => {
                self.reaped.append(&mut machine.cards.done);
                let time = host.reap_us.ns() * self.reaped.len() as f64;
                return Some(Machine::section(Step::Reap, section.owner, time));
            }
            Step::Reap => return self.reaped(machine),
            Step::Sleep | Step::Wake | Step::Look => {}
        }
        None
    }
}
