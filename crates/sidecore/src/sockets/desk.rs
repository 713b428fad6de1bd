//! What a user's thread has for all of its programs.

use super::Shared;
use super::ledger::Ledger;
use super::meter::Meter;
use super::reports::Bell;
use crate::sys::poller::Poller;
use sidecore_core::streams::saving::BreakEven;
use sidecore_core::streams::sweep::{ClientId, StreamId, Sweep};
use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What is to be closed and freed, in its order.
pub(super) type Remains = Box<dyn Any + Send>;

/// See the module.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) shared: Arc<Shared>,
    pub(super) uid: u32,
    /// Wakes the thread.
    pub(super) bell: Arc<Bell>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) poller: Poller,
    pub(super) sweep: Sweep,
    pub(super) meter: Meter,
    /// The thread spins on a core of its own.
    pub(super) spins: bool,
    /// Streams to retry, see `Turn::Held`.
    pub(super) held: Vec<(ClientId, StreamId)>,
    /// To the user's closing thread: a socket may linger, and what is no socket may do worse.
    pub(super) closing: Sender<Remains>,
}

impl Desk {
    /// From how many messages on a ring pays, for programs.
    pub(super) fn break_even(&self) -> BreakEven {
        if self.spins { BreakEven::NONE } else { self.meter.break_even(self.shared.park_times().wake) }
    }

    /// Closes and frees it, on a thread that nobody waits for.
    pub(super) fn close(&self, remains: impl Any + Send) {
        // It hears until this end is gone.
        let _ = self.closing.send(Box::new(remains));
    }
}
