//! One sidecore's thread. It carries out the decisions of core's `Sidecore`, waits accordingly, and obeys the control
//! thread.
//!
//! It takes no lock and allocates nothing per request. It records into memory that it reserved at its start. The file
//! is written after the end of the record, by the control thread or after the last round: never on the data path.

mod actions;
mod devices;
pub(super) mod error;
mod host;
pub(super) mod thread;

use super::advice::Advice;
use super::calibrate::Calibration;
use super::command::{Event, MailboxFlag};
use crate::config::Config;
use sidecore_counters::Counters;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

#[derive(Debug)]
pub(super) struct Setup {
    pub(super) index: usize,
    pub(super) cpu: Option<usize>,
    pub(super) config: Config,
    pub(super) calibration: Calibration,
    pub(super) counters: Arc<Counters>,
    pub(super) mailbox: MailboxFlag,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) events: Sender<Event>,
    /// Wakes the control thread, after an event.
    pub(super) listener: Arc<OwnedFd>,
    pub(super) advice: Advice,
}
