//! A client: its lane, and the loop that keeps so many requests in flight.

use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// One client. A slot is one of the requests that it may have in flight.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) asleep: bool,
    /// A moment at which its completions are due is scheduled.
    pub(super) timed: bool,
    submitted_at: Vec<Nanos>,
    free: Vec<u32>,
    submitted: VecDeque<u32>,
    completed: VecDeque<u32>,
}

impl Client {
    pub(super) fn new(in_flight: u32) -> Self {
        Self {
            asleep: false,
            timed: false,
            submitted_at: vec![0; in_flight as usize],
            free: (0..in_flight).rev().collect(),
            submitted: VecDeque::new(),
            completed: VecDeque::new(),
        }
    }

    /// Whether it can go on without an answer.
    pub(super) fn has_work(&self) -> bool {
        !self.free.is_empty() || !self.completed.is_empty()
    }

    /// Whether requests in its lane wait for the sidecore.
    pub(super) fn has_submitted(&self) -> bool {
        !self.submitted.is_empty()
    }

    /// The oldest request in the lane.
    pub(super) fn next_submitted(&self) -> Option<u32> {
        self.submitted.front().copied()
    }

    /// The oldest request left the lane.
    pub(super) fn taken(&mut self) {
        self.submitted.pop_front();
    }

    /// The completion of a request is in the lane.
    pub(super) fn completed(&mut self, slot: u32) {
        self.completed.push_back(slot);
    }

    /// Takes a completion, if there is one, and submits a request, if a slot is free. When the completed one was
    /// submitted.
    pub(super) fn step(&mut self, now: Nanos) -> Option<Nanos> {
        let slot = self.completed.pop_front();
        let submitted = slot.map(|slot| self.submitted_at[slot as usize]);
        self.free.extend(slot);
        if let Some(slot) = self.free.pop() {
            self.submitted_at[slot as usize] = now;
            self.submitted.push_back(slot);
        }
        submitted
    }
}
