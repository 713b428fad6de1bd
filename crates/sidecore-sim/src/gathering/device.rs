//! A device that computes several requests in a batch, as the service's batch device does.

use crate::engine::{Engine, Timer};
use sidecore_core::policy::gather::{BatchPolicy, Begin, MAX_BATCH};
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

pub(super) struct Device<T> {
    pub(super) gather: BatchPolicy,
    unseen: VecDeque<T>,
    /// With the time since which the device could have begun them, ns.
    waiting: VecDeque<(T, Nanos)>,
    begun: Vec<T>,
    due: Option<Timer>,
    /// Time of becoming free, last and next, ns.
    free: Nanos,
    until: Nanos,
    pub(super) batches: u64,
    /// The longest time that a request waited on a free device, ns.
    pub(super) held: Nanos,
}

impl<T> Device<T> {
    pub(super) fn new(gather: BatchPolicy) -> Self {
        Self {
            gather,
            unseen: VecDeque::new(),
            waiting: VecDeque::new(),
            begun: Vec::with_capacity(MAX_BATCH),
            due: None,
            free: 0,
            until: 0,
            batches: 0,
            held: 0,
        }
    }

    pub(super) fn submit(&mut self, request: T) {
        self.unseen.push_back(request);
    }

    pub(super) fn due(&mut self) {
        self.due = None;
    }

    pub(super) fn done(&mut self, now: Nanos) -> std::vec::Drain<'_, T> {
        self.free = now;
        self.begun.drain(..)
    }

    pub(super) fn look<E: Copy>(&mut self, engine: &mut Engine<E>, due: E, done: E) {
        if !self.begun.is_empty() {
            return;
        }
        let now = engine.now();
        while let Some(request) = self.unseen.pop_front() {
            self.gather.arrived(now);
            self.waiting.push_back((request, now));
        }
        let Some((_, since)) = self.waiting.front() else { return };
        match self.gather.decide(now, self.waiting.len(), *since, false) {
            Begin::Now(fill) => self.begin(engine, fill, done),
            Begin::At(until) if self.due.is_none() => self.due = Some(engine.schedule(until, due)),
            Begin::At(_) => {}
        }
    }

    fn begin<E: Copy>(&mut self, engine: &mut Engine<E>, fill: usize, done: E) {
        self.due.take().map(|due| engine.cancel(due));
        for (request, since) in self.waiting.drain(..fill) {
            self.held = self.held.max(engine.now() - since.max(self.free));
            self.begun.push(request);
        }
        self.batches += 1;
        self.until = engine.now() + self.gather.time(fill);
        engine.schedule(self.until, done);
    }

    /// Time until the answer of one more request, if no other arrived, ns.
    pub(super) fn finish(&self, now: Nanos) -> Nanos {
        let running = if self.begun.is_empty() { 0 } else { self.until - now };
        let waiting = self.unseen.len() + self.waiting.len() + 1;
        let ends = self.gather.ends();
        let whole = (waiting - 1) / MAX_BATCH;
        running + ends[MAX_BATCH - 1] * whole as Nanos + ends[(waiting - 1) % MAX_BATCH]
    }
}
