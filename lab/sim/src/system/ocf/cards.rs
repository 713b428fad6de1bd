//! Cards on one bus in front of one memory.
//!
//! A card works on one request at a time. It fetches the command, fills its buffer from the host's memory, computes
//! while the rest streams in and results stream out, and writes out the rest of its buffer. The cards share the bus,
//! and their results share the memory's write bandwidth with write-backs of the processor's caches.

use super::event::OcfEvent;
use crate::engine::Engine;
use crate::part::pipe::Pipe;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// Key of a transfer whose end has no effect.
const WRITE_BACK: u32 = u32::MAX;

/// Properties of cards, bus and memory: times in ns, capacities in bytes per ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hardware {
    pub(super) cards: u32,
    pub(super) bus: f64,
    pub(super) memory: f64,
    /// A card's time for a request without its bytes, the relative variation of it to either side, and its time per
    /// byte.
    pub(super) fixed: f64,
    pub(super) variation: f64,
    pub(super) per_byte: f64,
    /// Size of a card's buffer, and other bytes over the bus per request.
    pub(super) buffer: f64,
    pub(super) command: f64,
    pub(super) record: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: u32,
    /// Bytes of input, and of output.
    pub(super) size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) id: u32,
    pub(super) card: u32,
    /// Time of its arrival on the card, ns.
    pub(super) given: Nanos,
    /// Time of its completion, ns.
    pub(super) at: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Fetch,
    Fill,
    Stream,
    Drain,
}

#[derive(Debug, Default)]
struct Card {
    waiting: VecDeque<(Request, Nanos)>,
    /// The requests that end with the same interrupt; the first is being processed.
    record: VecDeque<(Request, Nanos)>,
    ended: Vec<Finished>,
    /// Time with requests so far, ns, and begin of the present period.
    busy: Nanos,
    busy_since: Nanos,
    stage: Stage,
    under_way: u8,
}

pub(super) struct Cards {
    each: Vec<Card>,
    bus: Pipe<OcfEvent>,
    memory: Pipe<OcfEvent>,
    pub(super) done: Vec<Finished>,
    hardware: Hardware,
}

impl Cards {
    pub(super) fn new(hardware: Hardware) -> Self {
        Self {
            each: (0..hardware.cards).map(|_| Card::default()).collect(),
            bus: Pipe::new(hardware.bus, OcfEvent::Bus),
            memory: Pipe::new(hardware.memory, OcfEvent::Memory),
            done: Vec::new(),
            hardware,
        }
    }

    pub(super) fn submit(&mut self, engine: &mut Engine<OcfEvent>, card: u32, request: Request) {
        let taken = &mut self.each[card as usize];
        taken.waiting.push_back((request, engine.now()));
        if taken.record.is_empty() {
            taken.busy_since = engine.now();
            self.next_record(engine, card);
        }
    }

    /// Writes back bytes from the processor's caches; nothing waits for the end.
    pub(super) fn write_back(&mut self, engine: &mut Engine<OcfEvent>, bytes: f64) {
        if bytes > 0.0 {
            self.memory.start(engine, WRITE_BACK, bytes, f64::INFINITY);
        }
    }

    pub(super) fn handle(&mut self, engine: &mut Engine<OcfEvent>, event: OcfEvent) -> bool {
        let before = self.done.len();
        match event {
            OcfEvent::Bus => {
                while let Some(card) = self.bus.finish(engine) {
                    self.ended(engine, card);
                }
            }
            OcfEvent::Memory => {
                while let Some(card) = self.memory.finish(engine) {
                    self.ended(engine, card);
                }
            }
            OcfEvent::Engine(card) => self.ended(engine, card),
            OcfEvent::Cpu(_) | OcfEvent::Arrival(_) | OcfEvent::Due(_) => {}
        }
        self.done.len() > before
    }

    /// Factor on an access to a register, compared with an idle bus: arbitration is in turn, so a burst of each active
    /// transfer goes first.
    pub(super) fn slowdown(&self) -> f64 {
        1.0 + self.bus.under_way() as f64
    }

    /// Totals since the start: bytes over the bus, bytes written to memory, and time of cards with requests, ns.
    pub(super) fn used(&self, now: Nanos) -> [f64; 3] {
        let busy =
            self.each.iter().map(|card| card.busy + if card.record.is_empty() { 0 } else { now - card.busy_since });
        [self.bus.carried, self.memory.carried, busy.sum::<Nanos>() as f64]
    }

    fn next_record(&mut self, engine: &mut Engine<OcfEvent>, number: u32) {
        let card = &mut self.each[number as usize];
        let count = card.waiting.len().min(self.hardware.record);
        card.record.extend(card.waiting.drain(..count));
        if count > 0 {
            self.begin(engine, number, Stage::Fetch);
        } else {
            card.busy += engine.now() - card.busy_since;
        }
    }

    fn begin(&mut self, engine: &mut Engine<OcfEvent>, number: u32, stage: Stage) {
        let Hardware { fixed, variation, .. } = self.hardware;
        // The bridge's response time varies; otherwise cards would stay in step forever.
        let fixed = if stage == Stage::Fetch { engine.random().around(fixed, variation) } else { 0.0 };
        let card = &mut self.each[number as usize];
        card.stage = stage;
        let Some((request, _)) = card.record.front() else { return };
        let size = f64::from(request.size);
        let first = size.min(self.hardware.buffer);
        let streamed = size - first;
        let compute = size * self.hardware.per_byte;
        let any = f64::INFINITY;
        // The engine's time; bytes over the bus and the card's rate on it; the same for the memory.
        let (time, bus, memory) = match stage {
            Stage::Fetch => (fixed, (self.hardware.command, any), (0.0, any)),
            Stage::Fill => (0.0, (first, any), (0.0, any)),
            Stage::Stream => (compute, (2.0 * streamed, 2.0 * streamed / compute), (streamed, streamed / compute)),
            Stage::Drain => (0.0, (first, any), (first, any)),
        };
        // The beginning counts as one more, which ends immediately.
        card.under_way = 1 + [time, bus.0, memory.0].map(|work| u8::from(work > 0.0)).iter().sum::<u8>();
        if time > 0.0 {
            engine.after(time.round() as Nanos, OcfEvent::Engine(number));
        }
        if bus.0 > 0.0 {
            self.bus.start(engine, number, bus.0, bus.1);
        }
        if memory.0 > 0.0 {
            self.memory.start(engine, number, memory.0, memory.1);
        }
        self.ended(engine, number);
    }

    fn ended(&mut self, engine: &mut Engine<OcfEvent>, number: u32) {
        let Some(card) = self.each.get_mut(number as usize) else { return };
        card.under_way -= 1;
        match card.stage {
            _ if card.under_way > 0 => {}
            Stage::Fetch => self.begin(engine, number, Stage::Fill),
            Stage::Fill => self.begin(engine, number, Stage::Stream),
            Stage::Stream => self.begin(engine, number, Stage::Drain),
            Stage::Drain => self.complete(engine, number),
        }
    }

    fn complete(&mut self, engine: &mut Engine<OcfEvent>, number: u32) {
        let card = &mut self.each[number as usize];
        if let Some((request, given)) = card.record.pop_front() {
            card.ended.push(Finished { id: request.id, card: number, given, at: engine.now() });
        }
        if card.record.is_empty() {
            self.done.append(&mut card.ended);
            self.next_record(engine, number);
        } else {
            self.begin(engine, number, Stage::Fetch);
        }
    }
}
