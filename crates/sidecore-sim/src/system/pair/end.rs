//! One of the two computers: its processor, its bus, its interface, and the program's socket.

use super::parameters::{Pair, Traffic};
use super::world::Event;
use crate::engine::{Engine, Timer};
use crate::part::cpu::{Cpu, Level, Section, Shape};
use crate::part::pipe::Pipe;
use sidecore_core::policy::notify::{Moderator, Ring};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// Owners of sections, and accounts that their time is booked on.
const PROGRAM: u32 = 0;
pub(super) const INTERRUPT: u32 = 1;

/// Ways over a bus: to the link and from it.
pub(super) const OUT: u32 = 0;
const IN: u32 = 1;

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// So many bytes for the program.
    Data(u64),
    /// So many bytes were taken by the other program.
    Ack(u64),
}

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Asleep,
    Sends,
    /// It takes so many bytes, and tells the sender of that many.
    Takes(u64, u64),
}

/// A computer.
pub(super) struct End {
    pub(super) cpu: Cpu<Event>,
    pub(super) bus: Pipe<Event>,
    /// What waits for the bus, the first under way, by the way over it.
    pub(super) crossing: [VecDeque<Packet>; 2],
    /// When the link is free again, ns.
    pub(super) link_free: f64,
    moderator: Moderator,
    timer: Option<Timer>,
    /// Whether an interrupt may come: not while the one before is at work.
    armed: bool,
    /// Buffers that the interface may fill.
    pub(super) posted: u32,
    landed: Vec<Packet>,
    /// Bytes of packets that went and that the kernel has not seen go.
    gone: Vec<u64>,
    /// What the interrupt at work took.
    batch: (Vec<Packet>, Vec<u64>),
    pub(super) task: Task,
    /// Payloads that wait for the program, bytes.
    pub(super) socket: VecDeque<u64>,
    /// Bytes that were sent and for which there is no room again.
    pub(super) outstanding: u64,
    /// Taken by the program, and the sender does not know, bytes.
    pub(super) untold: u64,
    pub(super) interrupts: u64,
    pub(super) packets: u64,
}

impl End {
    /// All is idle. `number` is 0 or 1.
    pub(super) fn new(set: &Pair, number: usize) -> Self {
        let shape = Shape { cores: 1, threads: 1, shared_speed: 1.0, switch: 0, accounts: 2 };
        let done: fn(u32) -> Event = if number == 0 { |_| Event::Section(0) } else { |_| Event::Section(1) };
        Self {
            cpu: Cpu::new(shape, done),
            bus: Pipe::new(set.bus_bytes_per_ns(), Event::Bus(number)),
            crossing: Default::default(),
            link_free: 0.0,
            moderator: Moderator::new(set.policy()),
            timer: None,
            armed: true,
            posted: set.nic.ring.get(),
            landed: Vec::new(),
            gone: Vec::new(),
            batch: Default::default(),
            task: Task::Asleep,
            socket: VecDeque::new(),
            outstanding: 0,
            untold: 0,
            interrupts: 0,
            packets: 0,
        }
    }

    /// The program works on that for so long, give or take a tenth.
    pub(super) fn work(&mut self, engine: &mut Engine<Event>, task: Task, time: f64) {
        self.task = task;
        let time = time * (0.9 + 0.2 * engine.random().uniform());
        let section = Section { owner: PROGRAM, level: Level::User, account: PROGRAM as usize, time: time as Nanos };
        self.cpu.run(engine, section);
    }

    /// The packet is to cross the bus, behind those that go the same way.
    pub(super) fn cross(&mut self, engine: &mut Engine<Event>, way: u32, packet: Packet, traffic: Traffic) {
        let waiting = &mut self.crossing[way as usize];
        waiting.push_back(packet);
        if waiting.len() == 1 {
            self.carry(engine, way, packet, traffic);
        }
    }

    fn carry(&mut self, engine: &mut Engine<Event>, way: u32, packet: Packet, traffic: Traffic) {
        let bytes = packet.frame(traffic) as f64;
        self.bus.start(engine, way, bytes, f64::MAX);
    }

    /// A packet has crossed the bus that way; the next one begins.
    pub(super) fn crossed(&mut self, engine: &mut Engine<Event>, way: u32, traffic: Traffic) -> Packet {
        let waiting = &mut self.crossing[way as usize];
        let packet = waiting.pop_front().expect("it was under way");
        if let Some(next) = waiting.front().copied() {
            self.carry(engine, way, next, traffic);
        }
        packet
    }

    /// A frame came over the link: whether there is a buffer for it.
    pub(super) fn arrived(&mut self, engine: &mut Engine<Event>, packet: Packet, traffic: Traffic) -> bool {
        let room = self.posted > 0;
        if room {
            self.posted -= 1;
            self.cross(engine, IN, packet, traffic);
        }
        room
    }

    /// A packet is in memory.
    pub(super) fn land(&mut self, engine: &mut Engine<Event>, packet: Packet, number: usize, set: &Pair) {
        self.landed.push(packet);
        let ring = self.moderator.completed(engine.now(), 1, false);
        self.ring(engine, ring, number, set);
    }

    /// A packet is on the link, and its buffer may be used again.
    pub(super) fn went(&mut self, engine: &mut Engine<Event>, packet: Packet, number: usize, set: &Pair) {
        self.gone.push(if let Packet::Data(bytes) = packet { bytes } else { 0 });
        let ring = self.moderator.completed(engine.now(), 1, false);
        self.ring(engine, ring, number, set);
    }

    /// The moderation's timer.
    pub(super) fn timer(&mut self, engine: &mut Engine<Event>, number: usize, set: &Pair) {
        self.timer = None;
        let ring = self.moderator.due(engine.now());
        self.ring(engine, ring, number, set);
    }

    /// What the moderation says.
    fn ring(&mut self, engine: &mut Engine<Event>, ring: Ring, number: usize, set: &Pair) {
        match ring {
            Ring::Now if self.armed => self.interrupt(engine, set),
            Ring::At(at) if self.timer.is_none() => self.timer = Some(engine.schedule(at, Event::Timer(number))),
            Ring::Now | Ring::At(_) | Ring::Nothing => {}
        }
    }

    /// The interrupt takes all that came and went.
    fn interrupt(&mut self, engine: &mut Engine<Event>, set: &Pair) {
        _ = self.timer.take().and_then(|timer| engine.cancel(timer));
        self.armed = false;
        self.moderator.rung();
        self.batch = (std::mem::take(&mut self.landed), std::mem::take(&mut self.gone));
        let cost = |packet: &Packet| match packet {
            Packet::Data(_) => set.receive.packet_ns.get(),
            Packet::Ack(_) => set.kernel.ack_ns.get(),
        };
        let packets: f64 = self.batch.0.iter().map(cost).sum();
        let time = set.kernel.interrupt_ns.get() + packets + self.batch.1.len() as f64 * set.kernel.complete_ns.get();
        self.interrupts += 1;
        let account = INTERRUPT as usize;
        self.cpu.run(engine, Section { owner: INTERRUPT, level: Level::Interrupt, account, time: time as Nanos });
    }

    /// The interrupt is done with what it took: packets that came, and sizes of those that went.
    pub(super) fn handled(&mut self) -> (Vec<Packet>, Vec<u64>) {
        let batch = std::mem::take(&mut self.batch);
        self.posted += batch.0.len() as u32;
        batch
    }

    /// The interrupt is over, and the next may come.
    pub(super) fn rearm(&mut self, engine: &mut Engine<Event>, number: usize, set: &Pair) {
        self.armed = true;
        let ring = self.moderator.due(engine.now());
        self.ring(engine, ring, number, set);
    }
}

impl Packet {
    /// Its frame in memory, bytes.
    pub(super) fn frame(self, traffic: Traffic) -> u64 {
        Pair::frame(traffic, if let Self::Data(bytes) = self { bytes } else { 0 })
    }
}
