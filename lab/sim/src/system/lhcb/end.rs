//! One of the two computers: its processor, its bus, its interface, and the program's socket.

use super::event::{LhcbEvent, Packet};
use super::parameters::{Lhcb, Traffic};
use crate::engine::{Engine, Timer};
use crate::part::cpu::{Cpu, Level, Section, Shape};
use crate::part::pipe::Pipe;
use sidecore_core::policy::notify::{Moderator, WakeDecision};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

const PROGRAM: u32 = 0;
pub(super) const INTERRUPT: u32 = 1;

pub(super) const OUT: u32 = 0;
const IN: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Asleep,
    Sends,
    /// Takes the first number of bytes, and acknowledges the second.
    Takes(u64, u64),
}

pub(super) struct End {
    pub(super) cpu: Cpu<LhcbEvent>,
    pub(super) bus: Pipe<LhcbEvent>,
    /// Packets waiting for the bus, by direction; the first is crossing.
    pub(super) crossing: [VecDeque<Packet>; 2],
    /// End of the link's present transfer, ns.
    pub(super) link_free: f64,
    moderator: Moderator,
    timer: Option<Timer>,
    /// Whether an interrupt may occur: not while the previous one is being handled.
    armed: bool,
    pub(super) posted: u32,
    landed: Vec<Packet>,
    /// Sizes of sent packets that the kernel has not freed, bytes.
    gone: Vec<u64>,
    batch: (Vec<Packet>, Vec<u64>),
    pub(super) task: Task,
    /// Payloads that wait for the program, bytes.
    pub(super) socket: VecDeque<u64>,
    /// Sent bytes that still take up room.
    pub(super) outstanding: u64,
    /// Bytes taken by the program and not acknowledged to the sender.
    pub(super) untold: u64,
    pub(super) interrupts: u64,
    pub(super) packets: u64,
}

impl End {
    pub(super) fn new(set: &Lhcb, number: usize) -> Self {
        let shape = Shape { cores: 1, switch: 0, accounts: 2 };
        let done: fn(u32) -> LhcbEvent =
            if number == 0 { |_| LhcbEvent::Section(0) } else { |_| LhcbEvent::Section(1) };
        Self {
            cpu: Cpu::new(shape, done),
            bus: Pipe::new(set.bus_bytes_per_ns(), LhcbEvent::Bus(number)),
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

    /// The program works on this task for this time, plus or minus a tenth.
    pub(super) fn work(&mut self, engine: &mut Engine<LhcbEvent>, task: Task, time: f64) {
        self.task = task;
        let time = time * (0.9 + 0.2 * engine.random().uniform());
        let section = Section { owner: PROGRAM, level: Level::User, account: PROGRAM as usize, time: time as Nanos };
        self.cpu.run(engine, section);
    }

    pub(super) fn cross(&mut self, engine: &mut Engine<LhcbEvent>, way: u32, packet: Packet, traffic: Traffic) {
        let waiting = &mut self.crossing[way as usize];
        waiting.push_back(packet);
        if waiting.len() == 1 {
            self.carry(engine, way, packet, traffic);
        }
    }

    fn carry(&mut self, engine: &mut Engine<LhcbEvent>, way: u32, packet: Packet, traffic: Traffic) {
        let bytes = packet.frame(traffic) as f64;
        self.bus.start(engine, way, bytes, f64::MAX);
    }

    pub(super) fn crossed(&mut self, engine: &mut Engine<LhcbEvent>, way: u32, traffic: Traffic) -> Packet {
        let waiting = &mut self.crossing[way as usize];
        let packet = waiting.pop_front().expect("it was under way");
        if let Some(next) = waiting.front().copied() {
            self.carry(engine, way, next, traffic);
        }
        packet
    }

    /// A frame arrived over the link. Returns whether there was a buffer for it.
    pub(super) fn arrived(&mut self, engine: &mut Engine<LhcbEvent>, packet: Packet, traffic: Traffic) -> bool {
        let room = self.posted > 0;
        if room {
            self.posted -= 1;
            self.cross(engine, IN, packet, traffic);
        }
        room
    }

    pub(super) fn land(&mut self, engine: &mut Engine<LhcbEvent>, packet: Packet, number: usize, set: &Lhcb) {
        self.landed.push(packet);
        let ring = self.moderator.completed(engine.now(), 1, false);
        self.ring(engine, ring, number, set);
    }

    pub(super) fn went(&mut self, engine: &mut Engine<LhcbEvent>, packet: Packet, number: usize, set: &Lhcb) {
        self.gone.push(if let Packet::Data(bytes) = packet { bytes } else { 0 });
        let ring = self.moderator.completed(engine.now(), 1, false);
        self.ring(engine, ring, number, set);
    }

    pub(super) fn timer(&mut self, engine: &mut Engine<LhcbEvent>, number: usize, set: &Lhcb) {
        self.timer = None;
        let ring = self.moderator.due(engine.now());
        self.ring(engine, ring, number, set);
    }

    fn ring(&mut self, engine: &mut Engine<LhcbEvent>, ring: WakeDecision, number: usize, set: &Lhcb) {
        match ring {
            WakeDecision::Now if self.armed => self.interrupt(engine, set),
            WakeDecision::At(at) if self.timer.is_none() => {
                self.timer = Some(engine.schedule(at, LhcbEvent::Timer(number)));
            }
            WakeDecision::Now | WakeDecision::At(_) | WakeDecision::Nothing => {}
        }
    }

    fn interrupt(&mut self, engine: &mut Engine<LhcbEvent>, set: &Lhcb) {
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

    /// The interrupt has handled its packets: returns received ones, and sizes of sent ones.
    pub(super) fn handled(&mut self) -> (Vec<Packet>, Vec<u64>) {
        let batch = std::mem::take(&mut self.batch);
        self.posted += batch.0.len() as u32;
        batch
    }

    pub(super) fn rearm(&mut self, engine: &mut Engine<LhcbEvent>, number: usize, set: &Lhcb) {
        self.armed = true;
        let ring = self.moderator.due(engine.now());
        self.ring(engine, ring, number, set);
    }
}
