//! What the control thread tells a sidecore, and the other way round. Outside the hot path, over channels.

use super::lane::{Lane, LaneKey};
use crate::config::{DeviceAction, DeviceConfig, NotifyConfig};
use crate::engine::crypto::Session;
use crate::sys::wake;
use sidecore_core::dispatch::record::Tape;
use sidecore_core::flag::Flag;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::order::Order;
use sidecore_core::sidecore::NewLane;
use sidecore_core::wire::Fault;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

/// Names a client process: user and process number.
pub(super) type ClientKey = (u32, u32);

/// What a sidecore is told. Sessions go by their handles.
#[derive(Debug)]
pub(super) enum Command {
    AddLane(Box<NewLane<Lane>>),
    CloseLane(LaneKey),
    AddSession(LaneKey, u32, Arc<Session>),
    CloseSession(LaneKey, u32),
    /// The service itself ends these: nobody is told.
    EndSessions(Vec<(LaneKey, u32)>),
    SetNotify(NotifyConfig),
    SetBalance(Balance),
    SetOrder(Order),
    AddDevice(DeviceConfig, SyncSender<Result<(), String>>),
    Device(String, DeviceAction, SyncSender<Result<(), String>>),
    /// The record ends; the answer is what there is of it.
    EndRecord(SyncSender<Option<Box<Tape>>>),
    Stop,
}

/// What the control thread is told. What is left of a lane comes along, to be freed elsewhere than on a sidecore.
#[derive(Debug)]
pub(super) enum Event {
    /// The client of this lane broke the protocol.
    Fault(LaneKey, Fault, Box<Lane>),
    /// The lane could not be taken: the tables are full.
    NoRoom(LaneKey, Box<Lane>),
    /// The sidecore does not serve the lane any more; nothing is left where it had ended it itself.
    LaneClosed(LaneKey, Option<Box<Lane>>),
    /// What this connection had is closed and freed.
    Freed(LaneKey),
    /// A session of this lane is closed: no request finds it any more.
    SessionClosed(LaneKey),
}

/// Reaches one sidecore from the control thread.
#[derive(Clone, Debug)]
pub(super) struct SidecoreHandle {
    commands: Sender<Command>,
    waiting: Arc<Flag>,
    wake: Arc<OwnedFd>,
}

/// The sidecore's end.
#[derive(Debug)]
pub(super) struct Mailbox {
    commands: Receiver<Command>,
    waiting: Arc<Flag>,
}

/// Both ends. `wake` is rung after each command.
pub(super) fn mailbox(wake: Arc<OwnedFd>) -> (SidecoreHandle, Mailbox) {
    let (sender, commands) = mpsc::channel();
    let waiting = Arc::new(Flag::default());
    (SidecoreHandle { commands: sender, waiting: waiting.clone(), wake }, Mailbox { commands, waiting })
}

impl Mailbox {
    /// Whether commands wait. Whoever was told by the control thread that something is done finds it here, so a sidecore
    /// asks before each request; it costs the read of a word that seldom changes.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        self.waiting.is_up()
    }

    /// All commands that wait.
    pub(super) fn take(&self) -> impl Iterator<Item = Command> {
        self.waiting.lower();
        self.commands.try_iter()
    }
}

impl SidecoreHandle {
    /// A sidecore that is gone takes no commands; `Service::is_alive` tells.
    pub(super) fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waiting.raise();
            wake::ring(&*self.wake);
        }
    }
}
