//! Connections that wait for room for a lane.

use crate::control::Attach;
use crate::service::command::LaneKey;
use sidecore_core::time::Nanos;
use std::collections::BTreeMap;

/// Interval of checks for idle lanes while a connection waits, ns.
pub(super) const ROOM_INTERVAL_NS: Nanos = 10_000_000;
/// Longest wait of a connection for room, ns: shorter than its client's wait for an answer, so that the client learns
/// which limit it is.
const ROOM_TIMEOUT_NS: Nanos = 1_500_000_000;

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) attach: Attach,
    pub(super) until: Nanos,
    pub(super) taken_back: Vec<LaneKey>,
    pub(super) called: bool,
}

impl Waiting {
    pub(super) fn new(attach: Attach, now: Nanos) -> Self {
        Self { attach, until: now + ROOM_TIMEOUT_NS, taken_back: Vec::new(), called: false }
    }

    pub(super) fn expects_room(&self) -> bool {
        !self.taken_back.is_empty()
    }
}

/// Waiting connections, in the order of their connection. A connection waits once, so there are no more than
/// connections without a lane.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: BTreeMap<LaneKey, Waiting>,
    pub(super) looked_at: Nanos,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn remove(&mut self, key: LaneKey) {
        self.waiting.remove(&key);
    }
}
