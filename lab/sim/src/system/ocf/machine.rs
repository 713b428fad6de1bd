//! The machine for both kinds of software, and its counters.

use self::Step::{Interrupt, Look, Reap, Return, Serve, Sleep, Submit, User, Wake};
use super::cards::Cards;
use super::event::OcfEvent;
use super::parameters::Ocf;
use crate::engine::{Engine, World};
use crate::part::cpu::{Cpu, Level, Section, Shape};
use crate::system::percentile;
use sidecore_core::time::Nanos;

/// Purpose of a section of CPU time; its number is the section's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    User,
    Submit,
    Sleep,
    Return,
    Serve,
    Wake,
    Look,
    /// An interrupt, with the query for its card.
    Interrupt,
    Reap,
}

const STEPS: [Step; 9] = [User, Submit, Sleep, Return, Serve, Wake, Look, Interrupt, Reap];

impl Step {
    pub(super) fn of(section: Section) -> Self {
        STEPS[section.account]
    }

    fn level(self) -> Level {
        match self {
            User => Level::User,
            Interrupt | Reap => Level::Interrupt,
            _ => Level::Kernel,
        }
    }
}

pub(super) trait Software {
    fn arrived(&mut self, machine: &mut Machine, now: Nanos, client: u32);

    /// A section ended; its owner continues immediately with the returned one.
    fn ended(&mut self, machine: &mut Machine, engine: &mut Engine<OcfEvent>, section: Section) -> Option<Section>;

    fn is_interrupted(&self) -> bool {
        true
    }

    fn due(&mut self, _: &mut Machine, _lane: u32) {}
}

pub(super) struct Machine {
    pub(super) set: Ocf,
    pub(super) cards: Cards,
    cpu: Cpu<OcfEvent>,
    pub(super) ready: Vec<Section>,
    pub(super) line_busy: bool,
    interrupts: u64,
    done: u64,
    latency: f64,
    /// Time of each counted request, ns.
    times: Vec<Nanos>,
}

/// Differences between two times: time, completed requests and their latencies, interrupts, context switches, time of
/// users and of the kernel, bytes over the bus and into memory, time of the cards; times in ns.
pub(super) type Counters = [f64; 10];

impl Machine {
    pub(super) fn section(step: Step, owner: u32, time: f64) -> Section {
        Section { owner, level: step.level(), account: step as usize, time: time.round() as Nanos }
    }

    pub(super) fn user(&self, client: u32) -> Section {
        Self::section(User, client, self.set.user())
    }

    /// Raises the interrupt line: entry, and a status register of each card on the line.
    pub(super) fn interrupt(&mut self) -> Section {
        self.interrupts += 1;
        let polled = f64::from(self.set.card.count.get()) * self.set.card.register_us.ns() * self.cards.slowdown();
        Self::section(Interrupt, self.set.clients() + 1, self.set.host.interrupt_us.ns() + polled)
    }

    /// Varies a section's time, as caches, refresh and clock ticks do. Otherwise closed loops would lock into phases
    /// that no real machine keeps.
    fn varied(&self, engine: &mut Engine<OcfEvent>, section: Section) -> Section {
        let time = engine.random().around(section.time as f64, self.set.host.variation.get());
        Section { time: time.round() as Nanos, ..section }
    }

    pub(super) fn replied(&mut self, now: Nanos, submitted: Nanos) {
        self.done += 1;
        self.latency += (now - submitted) as f64;
        self.times.push(now - submitted);
    }

    fn counters(&self, now: Nanos) -> Counters {
        let user = self.cpu.booked[User as usize];
        let kernel = self.cpu.booked.iter().sum::<f64>() - user;
        let [bus, memory, cards] = self.cards.used(now);
        let counts = [now, self.done, self.interrupts, self.cpu.switches].map(|count| count as f64);
        [counts[0], counts[1], self.latency, counts[2], counts[3], user, kernel, bus, memory, cards]
    }
}

pub(super) struct Running<S> {
    machine: Machine,
    software: S,
}

impl<S: Software> World for Running<S> {
    type Event = OcfEvent;

    fn handle(&mut self, engine: &mut Engine<OcfEvent>, event: OcfEvent) {
        let (machine, software) = (&mut self.machine, &mut self.software);
        if let OcfEvent::Cpu(processor) = event {
            let ended = machine.cpu.current(processor);
            let follow = software.ended(machine, engine, ended);
            let follow = follow.map(|section| machine.varied(engine, section));
            for index in 0..machine.ready.len() {
                machine.ready[index] = machine.varied(engine, machine.ready[index]);
            }
            machine.cpu.finish(engine, processor, follow, &machine.ready);
            return machine.ready.clear();
        }
        match event {
            OcfEvent::Arrival(client) => {
                if let Some(gap) = machine.set.gap() {
                    let gap = engine.random().exponential(gap).round() as Nanos;
                    engine.after(gap, event);
                }
                software.arrived(machine, engine.now(), client);
            }
            OcfEvent::Due(lane) => software.due(machine, lane),
            _ => {
                let interrupts = machine.cards.handle(engine, event) && software.is_interrupted();
                if interrupts && !std::mem::replace(&mut machine.line_busy, true) {
                    let line = machine.interrupt();
                    machine.ready.push(line);
                }
            }
        }
        for section in std::mem::take(&mut machine.ready) {
            let section = machine.varied(engine, section);
            machine.cpu.run(engine, section);
        }
    }
}

/// Requests not counted at the start: per request in flight, and at least.
const WARM_UP: u64 = 4;
const WARM_UP_LEAST: u64 = 400;
/// Counted requests; more for open load, which has a tail to measure.
const COUNTED: u64 = 4_000;
const COUNTED_OPEN: u64 = 20_000;
/// Clients begin within this time, ns.
const STARTS: Nanos = 1_000_000;
/// A longer run counts as stuck, ns.
const END: Nanos = 1_000_000_000_000;

/// Runs the software. Returns the counters, the 99th percentile of the requests' times, ns, and the hash of the run.
pub(super) fn run<S: Software>(set: &Ocf, software: S, seed: u64) -> (Counters, f64, u64) {
    let mut engine = Engine::new(seed);
    for client in 0..set.clients() {
        let at = engine.random().below(set.gap().map_or(STARTS, |gap| (2.0 * gap) as Nanos));
        engine.schedule(at, OcfEvent::Arrival(client));
    }
    let warm = WARM_UP_LEAST + WARM_UP * u64::from(set.clients() * set.client.in_flight.get());
    let shape = Shape { cores: 1, switch: set.host.switch_us.nanos(), accounts: STEPS.len() };
    let machine = Machine {
        cards: Cards::new(set.hardware()),
        set: *set,
        cpu: Cpu::new(shape, OcfEvent::Cpu),
        ready: Vec::new(),
        line_busy: false,
        interrupts: 0,
        done: 0,
        latency: 0.0,
        times: Vec::new(),
    };
    let mut world = Running { machine, software };
    let counted = if set.gap().is_some() { COUNTED_OPEN } else { COUNTED };
    let [before, after] = [warm, warm + counted].map(|requests| {
        world.machine.times.clear();
        while world.machine.done < requests && engine.step(&mut world, END) {}
        world.machine.counters(engine.now())
    });
    let p99 = percentile(&mut world.machine.times, 0.99);
    (std::array::from_fn(|counter| after[counter] - before[counter]), p99, engine.trace())
}
