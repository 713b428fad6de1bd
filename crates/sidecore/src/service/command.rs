//! What the control thread tells a sidecore, and the other way round. Outside the hot path, over channels.

use crate::config::{DeviceAction, DeviceConfig, NotifyConfig};
use crate::counters::LaneBlock;
use crate::engine::crypto::Session;
use crate::keys::{Acl, Material, Resealed};
use crate::shm::LaneMemory;
use crate::spec::Scheme;
use crate::sys::wake;
use sidecore_core::dispatch::record::Tape;
use sidecore_core::flag::Flag;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::order::Order;
use sidecore_core::wire::Fault;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

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
    /// The pipe that the client rings.
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
    AddSession {
        lane: LaneKey,
        handle: u32,
        session: Arc<Session>,
    },
    CloseSession {
        lane: LaneKey,
        handle: u32,
    },
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

/// Anything whose only use is to be dropped.
pub(super) trait Leftover: Send + fmt::Debug {}

impl<T: Send + fmt::Debug> Leftover for T {}

/// What became of an order; the reason where nothing did.
#[derive(Debug)]
pub(super) enum Made {
    Session(Session),
    Stored { name: String, material: Arc<Material>, scheme: Scheme, session: Session },
    Import { name: String, material: Material, acl: Acl },
    Key(Material),
    Public(Vec<u8>),
}

/// What the control thread is told. What is left of a lane comes along, to be freed elsewhere than on a sidecore.
#[derive(Debug)]
pub(super) enum Event {
    /// The client of this lane broke the protocol.
    Fault(LaneKey, Fault, Box<dyn Leftover>),
    /// The lane could not be taken: the tables are full.
    NoRoom(LaneKey, Box<dyn Leftover>),
    /// The sidecore does not serve the lane any more; nothing is left where it had ended it itself.
    LaneClosed(LaneKey, Option<Box<dyn Leftover>>),
    /// What this connection had is closed and freed.
    Freed(Freed),
    /// A session of this lane is closed: no request finds it any more.
    SessionClosed(LaneKey),
    /// A key was made, or not: says why.
    KeyGenerated(Box<Result<Material, String>>),
    /// What this connection asked for was parsed, or not: says why.
    Made(LaneKey, Box<Result<Made, String>>),
    /// The keys at rest were sealed anew for this asker, or not.
    Resealed(LaneKey, Box<Resealed>),
}

/// Whose remains were closed and freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freed {
    pub(super) key: LaneKey,
    /// Bytes of sessions among it.
    pub(super) session_bytes: u64,
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
