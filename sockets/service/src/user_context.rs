//! State of a user's thread that all of its programs share.

use super::ledger::Ledger;
use super::meter::Meter;
use super::reports::Bell;
use super::shared::Shared;
use sidecore_daemon::sys::poller::Poller;
use sidecore_streams::saving::BreakEven;
use sidecore_streams::sweep::{ClientId, StreamId, Sweep};
use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::Sender;

pub(super) type ClosedObject = Box<dyn Any + Send>;

#[derive(Debug)]
pub(super) struct UserContext {
    pub(super) shared: Arc<Shared>,
    pub(super) uid: u32,
    pub(super) bell: Arc<Bell>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) poller: Poller,
    pub(super) sweep: Sweep,
    pub(super) meter: Meter,
    pub(super) spins: bool,
    pub(super) held: Vec<(ClientId, StreamId)>,
    /// To the user's closing thread: a socket may linger, and any other descriptor may block for longer.
    pub(super) closing: Sender<ClosedObject>,
}

impl UserContext {
    pub(super) fn break_even(&self) -> BreakEven {
        if self.spins { BreakEven::NONE } else { self.meter.break_even(self.shared.park_times().wake) }
    }

    /// Closes and frees it, on a separate thread.
    pub(super) fn close(&self, remains: impl Any + Send) {
        // The closing thread ends only after this end is dropped.
        let _ = self.closing.send(Box::new(remains));
    }
}
