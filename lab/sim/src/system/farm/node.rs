//! A node: its events, its work, and its counts.

use super::event::{Answer, FarmEvent, Parcel};
use super::parameters::Farm;
use crate::engine::Engine;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Node {
    number: usize,
    pub(super) life: u32,
    pub(super) lives: bool,
    free: u32,
    /// Events waiting for a worker, with the time since which they wait.
    queue: VecDeque<(Parcel, Nanos)>,
    /// Events that it has begun with, and has not reported yet.
    pub(super) begun: Vec<Parcel>,
    pub(super) received: u64,
    pub(super) answered: u64,
    /// Arrival of the last message to it and from it: messages stay in order.
    pub(super) there: Nanos,
    pub(super) back: Nanos,
}

impl Node {
    pub(super) fn new(number: usize, set: &Farm) -> Self {
        let free = set.node.slots.get();
        let (queue, begun) = (VecDeque::new(), Vec::new());
        Self { number, life: 0, lives: true, free, queue, begun, received: 0, answered: 0, there: 0, back: 0 }
    }

    pub(super) fn is(&self, life: u32) -> bool {
        self.lives && self.life == life
    }

    pub(super) fn begin(&mut self, set: &Farm) {
        let (there, back) = (self.there, self.back);
        *self = Self { life: self.life + 1, there, back, ..Self::new(self.number, set) };
    }

    pub(super) fn take(&mut self, engine: &mut Engine<FarmEvent>, set: &Farm, parcel: Parcel) {
        self.received += 1;
        self.queue.push_back((parcel, engine.now()));
        self.work(engine, set);
    }

    pub(super) fn worked(&mut self, engine: &mut Engine<FarmEvent>, set: &Farm) {
        self.free += 1;
        self.answered += 1;
        self.work(engine, set);
    }

    fn work(&mut self, engine: &mut Engine<FarmEvent>, set: &Farm) {
        while self.free > 0
            && let Some((parcel, came)) = self.queue.pop_front()
        {
            self.free -= 1;
            if parcel.reports_start {
                self.begun.push(parcel);
            }
            let work = parcel.work * set.unit(self.number) + set.node.overshoot_us.ns();
            let time = (work + set.node.overhead_us.ns()).round() as Nanos;
            let failed = engine.random().uniform() * 100.0 < set.event.failing_percent.get();
            let held = engine.now() + time - came;
            let answer = Answer { held, work: work.round() as Nanos, failed };
            engine.after(time, FarmEvent::Worked(parcel, answer));
        }
    }
}
