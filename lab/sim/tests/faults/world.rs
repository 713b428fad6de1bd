//! Everybody of a run, and what happens at its events.

use super::client::Link;
use super::device::Device;
use super::hop::Thread;
use super::mutation::Mutation;
use super::scenario::{FAULTS, Scenario};
use super::service::Service;
use super::{Broken, Invariant};
use sidecore_core::session::Class;
use sidecore_core::time::{Nanos, Pretty};
use sidecore_sim::engine::Engine;
use std::collections::VecDeque;
use strum::Display;

const TRACE: usize = 60;

pub(super) type Clock = Engine<SimEvent>;

#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
pub(super) enum Actor {
    #[strum(to_string = "the service")]
    Service,
    #[strum(to_string = "link {0}")]
    Client(u32),
    #[strum(to_string = "device {0}")]
    Device(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum SimEvent {
    Step(Actor),
    /// A wake-up call arrives at the thread of that incarnation.
    Wake(Actor, u32),
    Fault(u16),
    HangUp(u32),
    Closed(u32),
    Restart,
    Late(u32),
    Hang(u32),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) words: bool,
    /// The calls into dispatch, on that number of words of tape.
    pub(crate) tape: Option<usize>,
}

#[derive(Debug)]
pub(super) struct World<'a> {
    /// Of the event under way, ns.
    pub(super) now: Nanos,
    pub(super) plan: &'a Scenario,
    pub(super) mutation: Option<Mutation>,
    pub(super) service: Service,
    /// Every connection that was ever made. Each is one lane with one thread.
    pub(super) links: Vec<Link>,
    pub(super) devices: Vec<Device>,
    /// Estimated time of the requests of each client on devices, ns.
    pub(super) charged: Vec<Nanos>,
    pub(super) struck: [u64; FAULTS.len()],
    pub(super) requests: u64,
    /// Lanes found dormant, over all publications of gauges.
    pub(super) rested: u64,
    pub(super) broken: Option<Broken>,
    /// Connections to make again when the service is back: client, lane, and remaining requests.
    pub(super) reconnecting: Vec<(u32, u32, u32)>,
    pub(super) tape: Option<usize>,
    log: Option<VecDeque<String>>,
}

impl<'a> World<'a> {
    pub(super) fn new(plan: &'a Scenario, mutation: Option<Mutation>, watch: Watch) -> Self {
        World {
            now: 0,
            plan,
            mutation,
            service: Service::new(plan, 0),
            tape: watch.tape,
            links: Vec::new(),
            devices: Vec::new(),
            charged: vec![0; plan.clients.len()],
            struck: [0; FAULTS.len()],
            requests: 0,
            rested: 0,
            broken: None,
            reconnecting: Vec::new(),
            log: watch.words.then(VecDeque::new),
        }
    }

    /// The thread runs from now on. `false`: it has ended.
    pub(super) fn begin_step(&mut self, actor: Actor) -> bool {
        let thread = self.thread(actor);
        (thread.asleep, thread.timer, thread.until) = (false, None, None);
        !thread.ended
    }

    pub(super) fn thread(&mut self, actor: Actor) -> &mut Thread {
        match actor {
            Actor::Service => &mut self.service.thread,
            Actor::Client(link) => &mut self.links[link as usize].thread,
            Actor::Device(device) => &mut self.devices[device as usize].thread,
        }
    }

    /// The thread's next step, after the time that a step takes: mostly little, sometimes a cache miss or an interrupt,
    /// seldom its time slice is over.
    pub(super) fn go_on(&mut self, clock: &mut Clock, actor: Actor) {
        let random = clock.random();
        let delay = match random.below(1024) {
            0 => random.below(60_000),
            1..=20 => random.below(5_000),
            _ => 20 + random.below(280),
        };
        self.go_on_after(clock, actor, delay);
    }

    /// It looks again and again, which is permitted on its own core only.
    pub(super) fn spin(&mut self, clock: &mut Clock, actor: Actor, owned: bool) {
        let delay = 100 + clock.random().below(900);
        self.go_on_after(clock, actor, delay);
        if !owned {
            self.fail(Invariant::Spin, format!("{actor} spins on a shared core"));
        }
    }

    pub(super) fn go_on_after(&mut self, clock: &mut Clock, actor: Actor, delay: Nanos) {
        let timer = clock.after(delay, SimEvent::Step(actor));
        self.thread(actor).timer = Some(timer);
    }

    pub(super) fn doze(&mut self, clock: &mut Clock, actor: Actor, until: Option<Nanos>) {
        self.say(|| format!("{actor} sleeps"));
        self.sleep(clock, actor, until);
    }

    pub(super) fn sleep(&mut self, clock: &mut Clock, actor: Actor, until: Option<Nanos>) {
        if std::mem::take(&mut self.thread(actor).token) {
            return self.go_on(clock, actor);
        }
        // Whoever sleeps to an instant is late by what the timer takes.
        let late = 1 + clock.random().below(2_000);
        let timer = until.map(|until| clock.schedule(until.saturating_add(late), SimEvent::Step(actor)));
        let thread = self.thread(actor);
        (thread.asleep, thread.timer, thread.until) = (true, timer, until);
    }

    pub(super) fn wake(&mut self, clock: &mut Clock, actor: Actor) {
        let thread = self.thread(actor);
        if thread.ended {
            return;
        }
        thread.flying += 1;
        let incarnation = thread.incarnation;
        let delay = 100 + clock.random().below(4_000);
        clock.after(delay, SimEvent::Wake(actor, incarnation));
    }

    pub(super) fn arrive(&mut self, clock: &mut Clock, actor: Actor, incarnation: u32) {
        let thread = self.thread(actor);
        if thread.incarnation != incarnation || thread.ended {
            return;
        }
        thread.flying -= 1;
        if !thread.asleep {
            thread.token = true;
            return;
        }
        thread.asleep = false;
        if let Some(timer) = thread.timer.take() {
            clock.cancel(timer);
        }
        self.go_on(clock, actor);
    }

    pub(super) fn end(&mut self, clock: &mut Clock, actor: Actor) {
        let thread = self.thread(actor);
        (thread.ended, thread.asleep) = (true, false);
        if let Some(timer) = thread.timer.take() {
            clock.cancel(timer);
        }
    }

    /// Whether the defect is put in and strikes now, once in `n` times.
    pub(super) fn mutated(&self, clock: &mut Clock, mutation: Mutation, n: u64) -> bool {
        self.mutation == Some(mutation) && clock.random().below(n) == 0
    }

    /// An invariant does not hold. The first one counts.
    pub(super) fn fail(&mut self, invariant: Invariant, what: String) {
        if self.broken.is_none() {
            self.say(|| format!("broken: {what}"));
            self.broken = Some(Broken { invariant, what });
        }
    }

    pub(super) fn say(&mut self, words: impl FnOnce() -> String) {
        if let Some(log) = self.log.as_mut().filter(|_| self.broken.is_none()) {
            if log.len() == TRACE {
                log.pop_front();
            }
            log.push_back(format!("{:>10}  {}", Pretty(self.now).to_string(), words()));
        }
    }

    pub(super) fn into_words(self) -> Vec<String> {
        self.log.map(Vec::from).unwrap_or_default()
    }

    /// A device by its number in dispatch.
    pub(super) fn device(&self, number: usize) -> &Device {
        &self.devices[self.service.devices[number] as usize]
    }

    pub(super) fn device_mut(&mut self, number: usize) -> &mut Device {
        &mut self.devices[self.service.devices[number] as usize]
    }

    pub(super) fn some_device_can(&self, class: Class) -> bool {
        let devices = self.service.devices.iter().map(|device| &self.devices[*device as usize]);
        devices.into_iter().any(|device| !device.leaving && device.plan.classes().contains(class))
    }
}

pub(super) fn pick<T>(number: u8, mut there: impl Iterator<Item = T> + Clone) -> Option<T> {
    let count = there.clone().count();
    there.nth(usize::from(number) % count.max(1))
}
