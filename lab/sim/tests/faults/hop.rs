//! One direction between two parties, and the threads at its ends.

use sidecore_core::doorbell::Doorbell;
use sidecore_core::ring::{Consumer, Message, Producer};
use sidecore_core::time::Nanos;
use sidecore_core::wire::{self, Completion, NoCompletion};
use sidecore_core::words::Line;
use sidecore_sim::engine::Timer;

/// A ring with its doorbell: core's own, in private memory that stands for the shared one.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) slots: Vec<Line>,
    bell: Line,
    producer: Producer,
    pub(super) consumer: Consumer,
    /// Something was pushed and the producer has not yet decided whether to ring.
    pub(super) unrung: bool,
    /// The consumer armed the doorbell and has not disarmed it.
    armed: bool,
}

impl Hop {
    /// At least that number of slots.
    pub(super) fn new(slots: u32) -> Self {
        Self {
            slots: (0..slots.next_power_of_two().max(2)).map(|_| Line::default()).collect(),
            bell: Line::default(),
            producer: Producer::new(),
            consumer: Consumer::new(),
            unrung: false,
            armed: false,
        }
    }

    pub(super) fn submit(&mut self, request: &wire::Request<'_>) {
        request.push(&mut self.producer, &self.slots);
        self.unrung = true;
    }

    pub(super) fn push<const N: usize>(&mut self, message: &[u64; N]) {
        self.producer.push(&self.slots, message);
        self.unrung = true;
    }

    pub(super) fn pop_completion(&mut self) -> Option<Result<Completion, NoCompletion>> {
        Completion::receive(&mut self.consumer, &self.slots)
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        self.consumer.pop(&self.slots)
    }

    pub(super) fn ready(&self) -> bool {
        self.consumer.ready(&self.slots)
    }

    /// Armed with something to read, and no producer is about to decide whether to ring.
    pub(super) fn is_unheard(&self) -> bool {
        self.armed && self.ready() && !self.unrung
    }

    pub(super) fn waiting(&self) -> u64 {
        self.producer.pushed() - self.consumer.popped()
    }

    pub(super) fn arm(&mut self) {
        self.bell().arm();
        self.armed = true;
    }

    pub(super) fn disarm(&mut self) {
        self.bell().disarm();
        self.armed = false;
    }

    pub(super) fn must_wake(&mut self) -> bool {
        self.unrung = false;
        self.bell().must_wake()
    }

    pub(super) fn bell(&self) -> Doorbell<'_> {
        Doorbell(&self.bell.0[0])
    }
}

pub(super) fn parse_completion<const N: usize>(words: &[u64; N]) -> Option<Completion> {
    let mut copy = Hop::new(2);
    copy.push(words);
    copy.pop_completion()?.ok()
}

/// A thread of control: at most one event of its own is pending.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) asleep: bool,
    /// It was woken while it did not sleep: its next sleep ends at once.
    pub(super) token: bool,
    pub(super) flying: u32,
    pub(super) timer: Option<Timer>,
    pub(super) until: Option<Nanos>,
    pub(super) ended: bool,
    pub(super) incarnation: u32,
}

impl Thread {
    pub(super) fn nobody_wakes(&self) -> bool {
        self.asleep && !self.ended && !self.token && self.flying == 0
    }
}
