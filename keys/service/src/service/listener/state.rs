//! State of the control thread: its connections, their lanes and keys, and work that waits for a turn.

use super::complaints::{Complaints, complaints};
use super::connection::{Connection, Ending, Gateway, MadeState};
use super::creators::{Changes, changes};
use super::descriptors;
use super::serving::Messages;
use super::succession::Succeeding;
use super::usage::Usage;
use super::waiting::Queue;
use crate::config::Config;
use crate::control::{self, Token};
use crate::keys::Store;
use crate::service::advice::Advice;
use crate::service::command::{ClientKey, Event, LaneKey, SidecoreHandle};
use crate::service::job_queue::JobQueues;
use crate::service::jobs::JobResult;
use crate::service::quotas::Quotas;
use crate::service::reactor::thread::Reactor;
use crate::service::reaper::Reaper;
use crate::service::succession::Legacy;
use crate::spec::KeyToken;
use rustix::process::geteuid;
use sidecore_core::policy::fair_queue::FairQueue;
use sidecore_core::time::Nanos;
use sidecore_counters::Counters;
use sidecore_daemon::door::Door;
use sidecore_daemon::sys::poller::Poller;
use sidecore_daemon::sys::wake;
use sidecore_daemon::tenants::{Subordinates, Tenant};
use sidecore_ipc::sys::clock;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use zeroize::Zeroizing;

/// Numbers of the poller's sources; connections and processes have theirs from `FIRST` on.
pub(super) const LISTENER: u64 = 0;
pub(super) const WAKE: u64 = 1;
pub(super) const FIRST: u64 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Listen(LaneKey),
    End(LaneKey),
    Attach(LaneKey),
}

#[derive(Debug)]
pub(in crate::service) struct Setup {
    pub(in crate::service) config: Config,
    pub(in crate::service) advice: Advice,
    pub(in crate::service) wake: Arc<OwnedFd>,
    pub(in crate::service) events: Receiver<Event>,
    pub(in crate::service) tell: Sender<Event>,
    pub(in crate::service) sidecores: Vec<Arc<SidecoreHandle<Reactor>>>,
    pub(in crate::service) counters: Arc<Counters>,
    pub(in crate::service) store: Store,
    /// `None`: it gives its place to no other service.
    pub(in crate::service) legacy: Option<Legacy>,
}

pub(in crate::service) struct Listener {
    pub(super) setup: Setup,
    /// Number of lanes of each sidecore.
    pub(super) loads: Vec<u32>,
    pub(super) poller: Poller,
    pub(super) next: u64,
    pub(super) connections: HashMap<LaneKey, Connection>,
    pub(super) ending: HashMap<LaneKey, Ending>,
    pub(super) turns: FairQueue<Tenant, Work>,
    pub(super) quotas: Quotas,
    pub(super) queue: Queue,
    /// Descriptors from this number on are for root and the service's own user.
    pub(super) reserved: i32,
    pub(super) door: Door,
    /// Buffer of one message.
    pub(super) room: Zeroizing<Vec<u8>>,
    /// No connection is accepted before that instant.
    pub(super) resumes: Option<Nanos>,
    /// Closed for a moment when no other descriptor is left, to send the refusal.
    pub(super) spare: Option<OwnedFd>,
    /// Descriptors that report the end of a client's process, even if a forked child still holds its sockets.
    pub(super) watched: HashMap<ClientKey, (u64, OwnedFd)>,
    pub(super) processes: HashMap<u64, ClientKey>,
    pub(super) tokens: HashMap<Token, LaneKey>,
    /// Free lane blocks of the counter file.
    pub(super) blocks: Vec<usize>,
    pub(super) jobs: JobQueues,
    pub(super) results: Receiver<(LaneKey, JobResult)>,
    pub(super) made: HashMap<KeyToken, MadeState>,
    pub(super) gateways: HashMap<LaneKey, Gateway>,
    pub(super) reaper: Reaper,
    pub(super) complaints: Complaints,
    pub(super) changes: Changes,
    pub(super) messages: Messages,
    pub(super) usage: Usage,
    /// Time of the next look at the use of limits.
    pub(super) limits_at: Nanos,
    pub(super) succeeding: Succeeding,
}

impl Setup {
    fn subordinates(&self) -> Subordinates {
        let users = self.config.subordinate_users.clone().unwrap_or_default();
        users.of_service(geteuid().as_raw())
    }
}

impl Listener {
    pub(in crate::service) fn new(setup: Setup, socket: OwnedFd) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add_once(&socket, LISTENER)?;
        poller.add_edge(&*setup.wake, WAKE)?;
        let (tell, results) = mpsc::channel();
        let wake = setup.wake.clone();
        let jobs = JobQueues::start(move |key, result| {
            // Without a control thread the service is ending.
            if tell.send((key, result)).is_ok() {
                wake::ring(&*wake);
            }
        })?;
        let keys = usize::from(setup.config.limits.keys);
        let listener = Self {
            loads: vec![0; setup.sidecores.len()],
            blocks: (0..setup.config.limits.lanes as usize).rev().collect(),
            jobs,
            results,
            made: HashMap::new(),
            gateways: HashMap::new(),
            reaper: Reaper::new(setup.tell.clone(), setup.wake.clone()),
            reserved: descriptors::reserved(),
            changes: changes(&setup.config.keys.creators),
            quotas: Quotas::new(setup.subordinates()),
            setup,
            poller,
            next: FIRST,
            connections: HashMap::new(),
            ending: HashMap::new(),
            turns: FairQueue::default(),
            queue: Queue::default(),
            room: control::room(),
            door: Door::new(socket, descriptors::most_declined()),
            resumes: None,
            spare: wake::event().ok(),
            watched: HashMap::new(),
            processes: HashMap::new(),
            tokens: HashMap::new(),
            complaints: complaints(),
            messages: Messages::default(),
            usage: Usage::new(keys, clock::now()),
            limits_at: 0,
            succeeding: Succeeding::default(),
        };
        listener.publish_policies();
        for (place, name) in listener.setup.store.places() {
            listener.setup.counters.open_key(place.into(), name)?;
        }
        Ok(listener)
    }

    pub(super) fn user(&self, key: LaneKey) -> u32 {
        self.connections.get(&key).map_or(0, |connection| connection.client.0)
    }

    /// The user of a connection, with all its subordinate users.
    pub(super) fn tenant(&self, key: LaneKey) -> Tenant {
        let client = self.connections.get(&key).map(|connection| connection.client);
        client.map_or_else(|| self.quotas.tenant_of(0), |client| self.quotas.tenant(client))
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}
