//! What the control thread tells a sidecore, and the other way round. Outside the hot path, over channels.

use crate::config::{DeviceAction, DeviceConfig, NotifyConfig};
use crate::counters::LaneBlock;
use crate::engine::crypto::Session;
use crate::shm::LaneMemory;
use crate::sys::wake;
use sidecore_core::policy::balance::Balance;
use sidecore_core::wire::Fault;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

/// Names a connection, and with it its lane, as long as the service runs.
pub(super) type LaneKey = u64;

/// Names a client process: user and process number.
pub(super) type ClientKey = (u32, u32);

/// A lane to serve from now on.
#[derive(Debug)]
pub(super) struct NewLane {
    pub(super) key: LaneKey,
    pub(super) client: ClientKey,
    pub(super) weight: u32,
    pub(super) credit: u32,
    pub(super) memory: Arc<LaneMemory>,
    /// The eventfd that the client rings.
    pub(super) doorbell: OwnedFd,
    /// The pipe that wakes the client.
    pub(super) wake: OwnedFd,
    pub(super) counters: LaneBlock,
    /// Sessions that a forked child took over.
    pub(super) sessions: Vec<(u32, Arc<Session>)>,
}

/// What a sidecore is told.
#[derive(Debug)]
pub(super) enum Command {
    AddLane(Box<NewLane>),
    CloseLane(LaneKey),
    AddSession { lane: LaneKey, handle: u32, session: Arc<Session> },
    CloseSession { lane: LaneKey, handle: u32 },
    SetNotify(NotifyConfig),
    SetBalance(Balance),
    AddDevice(DeviceConfig, SyncSender<Result<(), String>>),
    Device(String, DeviceAction, SyncSender<Result<(), String>>),
    Stop,
}

/// What a sidecore tells.
#[derive(Debug)]
pub(super) enum Event {
    /// The client of this lane broke the protocol.
    Fault(LaneKey, Fault),
    /// The lane could not be taken: the tables are full.
    NoRoom(LaneKey),
    /// A session of this lane is closed: no request finds it any more.
    SessionClosed(LaneKey),
}

/// Reaches one sidecore from the control thread.
#[derive(Clone, Debug)]
pub(super) struct SidecoreHandle {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
}

impl SidecoreHandle {
    pub(super) fn new(commands: Sender<Command>, wake: Arc<OwnedFd>) -> Self {
        Self { commands, wake }
    }

    /// A sidecore that is gone takes no commands; `Service::is_alive` tells.
    pub(super) fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            wake::ring(&*self.wake);
        }
    }
}
