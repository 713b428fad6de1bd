//! A node: what it has, what it does, and what it tells of itself.

use super::parameters::Farm;
use super::world::Event;
use crate::engine::Engine;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// One attempt at an event, and the node that it is given to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parcel {
    pub(super) node: usize,
    /// Which life of that node; a node has another after its death.
    pub(super) life: u32,
    /// Number of the event.
    pub(super) job: u32,
    /// Name of the attempt.
    pub(super) attempt: u64,
    /// Units of work that it takes.
    pub(super) work: f64,
}

/// What a node says of an event, by its own clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) held: Nanos,
    pub(super) work: Nanos,
    pub(super) failed: bool,
}

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    number: usize,
    pub(super) life: u32,
    pub(super) lives: bool,
    /// Free places to work at.
    free: u32,
    /// What waits for a place, and since when.
    queue: VecDeque<(Parcel, Nanos)>,
    /// Events received and answers sent in this life.
    pub(super) received: u64,
    pub(super) answered: u64,
    /// When the last message to it, and from it, is there: none overtakes another.
    pub(super) there: Nanos,
    pub(super) back: Nanos,
}

impl Node {
    pub(super) fn new(number: usize, set: &Farm) -> Self {
        let free = set.node.slots.get();
        let queue = VecDeque::new();
        Self { number, life: 0, lives: true, free, queue, received: 0, answered: 0, there: 0, back: 0 }
    }

    /// Whether it still has this life.
    pub(super) fn is(&self, life: u32) -> bool {
        self.lives && self.life == life
    }

    /// It begins another life, with nothing.
    pub(super) fn begin(&mut self, set: &Farm) {
        let (there, back) = (self.there, self.back);
        *self = Self { life: self.life + 1, there, back, ..Self::new(self.number, set) };
    }

    /// An event reached it.
    pub(super) fn take(&mut self, engine: &mut Engine<Event>, set: &Farm, parcel: Parcel) {
        self.received += 1;
        self.queue.push_back((parcel, engine.now()));
        self.work(engine, set);
    }

    /// A place is free again.
    pub(super) fn worked(&mut self, engine: &mut Engine<Event>, set: &Farm) {
        self.free += 1;
        self.answered += 1;
        self.work(engine, set);
    }

    fn work(&mut self, engine: &mut Engine<Event>, set: &Farm) {
        while self.free > 0
            && let Some((parcel, came)) = self.queue.pop_front()
        {
            self.free -= 1;
            let work = parcel.work * set.unit(self.number) + set.node.overshoot_us.ns();
            let time = (work + set.node.overhead_us.ns()).round() as Nanos;
            let failed = engine.random().uniform() * 100.0 < set.event.failing_percent.get();
            let held = engine.now() + time - came;
            let answer = Answer { held, work: work.round() as Nanos, failed };
            engine.after(time, Event::Worked(parcel, answer));
        }
    }
}
