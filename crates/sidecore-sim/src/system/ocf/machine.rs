//! The machine that both kinds of software run on, and what is counted there.

use super::cards::Cards;
use super::parameters::Ocf;
use crate::engine::{Engine, World};
use crate::part::cpu::{Cpu, Level, Section, Shape};
use sidecore_core::time::Nanos;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A section ended on that processor.
    Cpu(u32),
    /// A transfer ended on the bus.
    Bus,
    /// A transfer into memory ended.
    Memory,
    /// That card's engine is done with its stage.
    Engine(u32),
    /// That client begins.
    Start(u32),
    /// Completions of that lane may have to be announced.
    Due(u32),
}

/// What a section of CPU time is for; its number is the account that it is booked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A client's own program.
    User,
    /// Of a client in the kernel: handing over a request, or a doorbell.
    Submit,
    /// Of a client in the kernel: going to sleep.
    Sleep,
    /// Of a client in the kernel: taking a reply.
    Return,
    /// The kernel's thread, or the sidecore's round.
    Serve,
    /// The sidecore wakes clients.
    Wake,
    /// The sidecore has nothing to do, or begins again.
    Look,
    /// An interrupt and the question which card it was.
    Interrupt,
    /// Completions taken within an interrupt.
    Reap,
}

impl Step {
    const ALL: [Self; 9] = [
        Self::User,
        Self::Submit,
        Self::Sleep,
        Self::Return,
        Self::Serve,
        Self::Wake,
        Self::Look,
        Self::Interrupt,
        Self::Reap,
    ];

    /// The step that a section is.
    pub(super) fn of(section: Section) -> Self {
        Self::ALL[section.account]
    }

    fn level(self) -> Level {
        match self {
            Self::User => Level::User,
            Self::Interrupt | Self::Reap => Level::Interrupt,
            _ => Level::Kernel,
        }
    }
}

/// What runs on the machine.
pub(super) trait Software {
    /// A client begins.
    fn start(&mut self, machine: &mut Machine, engine: &mut Engine<Event>, client: u32);

    /// A section ended; its owner goes on with the answer at once.
    fn ended(&mut self, machine: &mut Machine, engine: &mut Engine<Event>, section: Section) -> Option<Section>;

    /// A card has something to say.
    fn card_done(&mut self, machine: &mut Machine);

    /// Completions of a lane may have to be announced.
    fn due(&mut self, machine: &mut Machine, lane: u32);
}

/// Processor, cards and counters.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) set: Ocf,
    pub(super) cards: Cards,
    cpu: Cpu<Event>,
    /// Sections that became ready during this event.
    ready: Vec<Section>,
    interrupts: u64,
    done: u64,
    latency: f64,
}

/// Counters at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) at: Nanos,
    pub(super) done: u64,
    pub(super) latency: f64,
    pub(super) interrupts: u64,
    pub(super) switches: u64,
    pub(super) user: f64,
    pub(super) kernel: f64,
    /// Bytes over the bus, bytes into memory, time of the cards in ns.
    pub(super) used: [f64; 3],
}

impl Machine {
    pub(super) fn new(set: &Ocf) -> Self {
        let (switch, accounts) = (set.host.switch_us.nanos(), Step::ALL.len());
        let shape = Shape { cores: 1, threads: 1, shared_speed: 1.0, switch, accounts };
        Self {
            cards: Cards::new(set.hardware()),
            set: *set,
            cpu: Cpu::new(shape, Event::Cpu),
            ready: Vec::new(),
            interrupts: 0,
            done: 0,
            latency: 0.0,
        }
    }

    /// A section for the end of [`Software::ended`] or for [`Machine::run`].
    pub(super) fn section(step: Step, owner: u32, time: f64) -> Section {
        Section { owner, level: step.level(), account: step as usize, time: time.round() as Nanos }
    }

    /// The section is ready to run.
    pub(super) fn run(&mut self, section: Section) {
        self.ready.push(section);
    }

    /// The interrupt line is raised: entry, and a status register of each card on the line.
    pub(super) fn interrupt(&mut self, owner: u32) -> Section {
        self.interrupts += 1;
        let polled = f64::from(self.set.card.count.get()) * self.set.card.register_us.ns() * self.cards.slowdown();
        Self::section(Step::Interrupt, owner, self.set.host.interrupt_us.ns() + polled)
    }

    /// No two runs through the same code take equally long: caches, refresh, clock ticks. Without that, closed loops lock
    /// into phases that no real machine keeps.
    fn varied(&self, engine: &mut Engine<Event>, section: Section) -> Section {
        let factor = 1.0 + self.set.host.variation.get() * (2.0 * engine.random().uniform() - 1.0);
        Section { time: (section.time as f64 * factor).round() as Nanos, ..section }
    }

    /// A client has its reply.
    pub(super) fn replied(&mut self, now: Nanos, submitted: Nanos) {
        self.done += 1;
        self.latency += (now - submitted) as f64;
    }

    fn counters(&self, now: Nanos) -> Counters {
        let user = self.cpu.booked[Step::User as usize];
        let all: f64 = self.cpu.booked.iter().sum();
        Counters {
            at: now,
            done: self.done,
            latency: self.latency,
            interrupts: self.interrupts,
            switches: self.cpu.switches,
            user,
            kernel: all - user,
            used: self.cards.used(now),
        }
    }
}

/// The machine with its software.
#[derive(Debug)]
pub(super) struct Running<S> {
    machine: Machine,
    software: S,
}

impl<S: Software> World for Running<S> {
    type Event = Event;

    fn handle(&mut self, engine: &mut Engine<Event>, event: Event) {
        let (machine, software) = (&mut self.machine, &mut self.software);
        if let Event::Cpu(processor) = event {
            let ended = machine.cpu.current(processor);
            let follow = software.ended(machine, engine, ended);
            let follow = follow.map(|section| machine.varied(engine, section));
            for index in 0..machine.ready.len() {
                machine.ready[index] = machine.varied(engine, machine.ready[index]);
            }
            machine.cpu.finish_with(engine, processor, follow, &machine.ready);
            return machine.ready.clear();
        }
        match event {
            Event::Start(client) => software.start(machine, engine, client),
            Event::Due(lane) => software.due(machine, lane),
            _ => {
                if machine.cards.handle(engine, event) {
                    software.card_done(machine);
                }
            }
        }
        for section in std::mem::take(&mut machine.ready) {
            let section = machine.varied(engine, section);
            machine.cpu.run(engine, section);
        }
    }
}

/// Requests that are not counted at the start, for each that may be in flight, and beside that.
const WARM_UP: u64 = 4;
const WARM_UP_LEAST: u64 = 400;
/// Requests that are counted.
const COUNTED: u64 = 4_000;
/// Clients begin within this time, ns.
const STARTS: Nanos = 1_000_000;
/// A run that takes longer is stuck, ns.
const END: Nanos = 1_000_000_000_000;

/// Runs the software; the counters before and after the requests that count, and the engine.
pub(super) fn run<S: Software>(set: &Ocf, software: S, seed: u64) -> (Counters, Counters, Engine<Event>) {
    let mut engine = Engine::new(seed);
    for client in 0..set.clients() {
        let at = engine.random().below(STARTS);
        engine.schedule(at, Event::Start(client));
    }
    let warm = WARM_UP_LEAST + WARM_UP * u64::from(set.clients() * set.client.in_flight.get());
    let mut world = Running { machine: Machine::new(set), software };
    let mut until = |engine: &mut Engine<Event>, requests: u64| {
        while world.machine.done < requests && engine.step(&mut world, END) {}
        world.machine.counters(engine.now())
    };
    let before = until(&mut engine, warm);
    let after = until(&mut engine, warm + COUNTED);
    (before, after, engine)
}
