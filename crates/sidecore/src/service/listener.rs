//! The control thread: accepts clients, gives them lanes within their limits, opens sessions, and changes the
//! service.
//!
//! It does not wait for clients: one that does not read its answers loses its connection. For administrators it does
//! wait: for sidecores that carry out a change, and for the disk that keeps a key. Users take turns, by time
//! ([`FairQueue`]), a message of one connection at a time. The next message of a connection is read after the answer to
//! the one before. The [`JobQueue`] parses clients' keys, and the [`Reaper`] frees the objects of ended connections: a
//! client controls how long either takes.

mod attach;
mod audit;
mod connections;
mod gateways;
mod keys;
mod room;
mod sessions;
mod settings;
mod usage;

use super::advice::Advice;
use super::command::{ClientKey, Event, Lane, LaneKey, SidecoreHandle};
use super::door::Door;
use super::job_queue::JobQueue;
use super::quotas::Quotas;
use super::reactor::Reactor;
use super::reaper::Reaper;
use crate::config::Config;
use crate::control::Refused;
use crate::control::{self, Reply, Request, Token};
use crate::counters::{Counters, LaneCounter, report};
use crate::events;
use crate::keys::{Material, Store, public_part};
use crate::spec::KeyToken;
use crate::sys::peer::Credentials;
use crate::sys::poller::{BATCH, Poller};
use crate::sys::{clock, wake};
use attach::Attached;
use audit::{Complaints, complaints};
use connections::{Ending, receive_request};
use gateways::Gateway;
use keys::OwnKey;
use room::{Queue, ROOM_INTERVAL_NS, Waiting};
use sidecore_core::policy::fair_queue::FairQueue;
use sidecore_core::time::Nanos;
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use usage::Usage;
use zeroize::Zeroizing;

/// Numbers of the poller's sources; connections and processes have theirs from `FIRST` on.
const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const FIRST: u64 = 2;
/// Interval of copies of clients' reports to the counter file while there is traffic, ns; the heartbeat's
/// period.
const PUBLISH: Nanos = 250_000_000;
/// Most batches of ready sources, and most events, between two rounds of answers.
const MAX_SOURCE_BATCHES: usize = 64;
const MAX_EVENTS: usize = 256;
/// Time of answers before the thread looks for further ready sources, ns.
const ROUND: Nanos = 50_000;

/// Continuation of a job. It runs on the control thread and builds the reply.
type Continuation = Box<dyn FnOnce(&mut Listener) -> Result<Reply, Refused> + Send>;
type JobResult = Result<Continuation, Refused>;

fn then(rest: impl FnOnce(&mut Listener) -> Result<Reply, Refused> + Send + 'static) -> Continuation {
    Box::new(rest)
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    client: ClientKey,
    /// The sender of its first message, and the only one permitted for all others.
    speaker: Option<Credentials>,
    polled: bool,
    /// An answer is due, and nothing more is read until it is sent.
    busy: bool,
    attached: Option<Attached>,
    /// The poller number of its watched process: the process number may be reused after its end.
    process: Option<u64>,
    /// A key that exists as long as this connection.
    own: Option<OwnKey>,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// A message has arrived, or the connection was closed.
    Listen(LaneKey),
    /// Its process has ended.
    End(LaneKey),
    Attach(LaneKey),
}

#[derive(Debug)]
pub(super) struct Setup {
    pub(super) config: Config,
    pub(super) advice: Advice,
    /// Signalled after an event.
    pub(super) wake: Arc<OwnedFd>,
    pub(super) events: Receiver<Event>,
    /// The other end of `events`.
    pub(super) tell: Sender<Event>,
    pub(super) sidecores: Vec<Arc<SidecoreHandle<Reactor>>>,
    pub(super) counters: Arc<Counters>,
    pub(super) store: Store,
}

pub(super) struct Listener {
    setup: Setup,
    /// Number of lanes of each sidecore.
    loads: Vec<u32>,
    poller: Poller,
    next: u64,
    connections: HashMap<LaneKey, Connection>,
    /// Ended connections whose objects are not freed yet.
    ending: HashMap<LaneKey, Ending>,
    turns: FairQueue<u32, Work>,
    quotas: Quotas,
    queue: Queue,
    /// Descriptors from this number on are for root and the service's own user.
    reserved: i32,
    door: Door,
    /// Buffer of one message.
    room: Zeroizing<Vec<u8>>,
    /// No connection is accepted before that instant.
    resumes: Option<Nanos>,
    /// Closed for a moment when no other descriptor is left, to send the refusal.
    spare: Option<OwnedFd>,
    /// Descriptors that report the end of a client's process, even if a forked child still holds its sockets.
    watched: HashMap<ClientKey, (u64, OwnedFd)>,
    /// The watched process by poller number.
    processes: HashMap<u64, ClientKey>,
    tokens: HashMap<Token, LaneKey>,
    /// Free lane blocks of the counter file.
    blocks: Vec<usize>,
    parser: JobQueue<JobResult>,
    /// Makes keys for programs, which takes too long for the parser of sessions.
    maker: JobQueue<JobResult>,
    /// Makes stored keys, one at a time: each takes a core. Its jobs are completed even if their connections end.
    keeper: JobQueue<JobResult>,
    /// Seals stored keys again. Its jobs are completed like the keeper's. It does not wait for a key that is being
    /// made, since no stored key can be changed meanwhile.
    sealer: JobQueue<JobResult>,
    /// Results of the four.
    outcomes: Receiver<(LaneKey, JobResult)>,
    /// Keys that were made for programs and whose connections exist.
    made: HashMap<KeyToken, Arc<Material>>,
    gateways: HashMap<LaneKey, Gateway>,
    reaper: Reaper,
    /// Rates of reported refusals and faults.
    complaints: Complaints,
    /// Time since the last request on each stored key.
    usage: Usage,
}

impl Listener {
    pub(super) fn new(setup: Setup, socket: OwnedFd) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add_once(&socket, LISTENER)?;
        poller.add_edge(&*setup.wake, WAKE)?;
        let (tell, outcomes) = mpsc::channel();
        let job_queue = |name| {
            let (tell, wake) = (tell.clone(), setup.wake.clone());
            JobQueue::start(name, move |key, made| {
                // Without a control thread the service is ending.
                if tell.send((key, made)).is_ok() {
                    wake::ring(&*wake);
                }
            })
        };
        let keys = usize::from(setup.config.limits.keys);
        let listener = Self {
            loads: vec![0; setup.sidecores.len()],
            blocks: (0..setup.config.limits.lanes as usize).rev().collect(),
            parser: job_queue("sidecore-opener")?,
            maker: job_queue("sidecore-maker")?,
            keeper: job_queue("sidecore-keeper")?,
            sealer: job_queue("sidecore-sealer")?,
            outcomes,
            made: HashMap::new(),
            gateways: HashMap::new(),
            reaper: Reaper::new(setup.tell.clone(), setup.wake.clone()),
            reserved: connections::reserved(),
            setup,
            poller,
            next: FIRST,
            connections: HashMap::new(),
            ending: HashMap::new(),
            turns: FairQueue::default(),
            quotas: Quotas::default(),
            queue: Queue::default(),
            room: control::room(),
            door: Door::new(socket, connections::most_declined()),
            resumes: None,
            spare: wake::event().ok(),
            watched: HashMap::new(),
            processes: HashMap::new(),
            tokens: HashMap::new(),
            complaints: complaints(),
            usage: Usage::new(keys, clock::now()),
        };
        listener.publish_policies();
        for (place, name) in listener.setup.store.places() {
            listener.setup.counters.open_key(place.into(), name)?;
        }
        Ok(listener)
    }

    /// Answers until `stop` is set.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let (mut publish_at, mut events_wait) = (0, false);
        while !stop.load(Ordering::Acquire) {
            let now = clock::now();
            if now >= publish_at {
                self.publish(now);
                self.tell_overdue(now);
                publish_at = now + PUBLISH;
            }
            let idle = self.turns.is_empty() && !events_wait;
            let room = (!self.queue.is_empty()).then_some(now + ROOM_INTERVAL_NS);
            let wide = self.door.set_backlog(now);
            let until = [room, self.resumes, wide].into_iter().flatten().fold(publish_at, Nanos::min);
            self.look_around(if idle { until.saturating_sub(now) } else { 0 });
            if self.resumes.is_some_and(|resumes| resumes <= clock::now()) {
                self.accept();
            }
            self.look_for_room();
            events_wait = self.hear_events();
            self.take_turns(stop);
            self.reaper.start_threads();
        }
        self.leave();
    }

    /// Finds all ready sources and gives each a turn.
    fn look_around(&mut self, timeout: Nanos) {
        let mut timeout = timeout;
        for _ in 0..MAX_SOURCE_BATCHES {
            let numbers: Vec<u64> = self.poller.wait(Some(timeout)).collect();
            let last = numbers.len() < BATCH;
            for number in numbers {
                self.happened(number);
            }
            if last {
                return;
            }
            timeout = 0;
        }
    }

    /// Takes events of other threads. `true`: there may be more.
    fn hear_events(&mut self) -> bool {
        for _ in 0..MAX_EVENTS {
            if let Ok(event) = self.setup.events.try_recv() {
                self.heard(event);
            } else if let Ok((key, made)) = self.outcomes.try_recv() {
                let reply = made.and_then(|rest| rest(self));
                self.conclude(key, &reply.unwrap_or_else(Reply::Refused));
            } else {
                return false;
            }
        }
        true
    }

    fn happened(&mut self, number: u64) {
        match number {
            LISTENER => self.accept(),
            WAKE => {}
            _ => match self.processes.get(&number).copied() {
                Some(_) => self.process_ended(number),
                None => {
                    if let Some(connection) = self.connections.get(&number) {
                        self.turns.push(&connection.client.0, Work::Listen(number));
                    }
                }
            },
        }
    }

    /// Does waiting work for a while.
    fn take_turns(&mut self, stop: &AtomicBool) {
        let mut now = clock::now();
        let end = now + ROUND;
        while now < end && !stop.load(Ordering::Acquire) {
            let Some((user, work)) = self.turns.next() else { break };
            match work {
                Work::Listen(key) => self.serve(key),
                Work::End(key) => self.disconnect(key),
                Work::Attach(key) => self.attach_again(key),
            }
            let before = std::mem::replace(&mut now, clock::now());
            self.turns.charge(&user, now - before);
        }
    }

    fn heard(&mut self, event: Event) {
        match event {
            Event::Fault(key, fault, left) => {
                let why = format!("its client broke the protocol ({})", fault.name());
                self.tell_fault(key, &why);
                self.lane_ended(key, &why, left);
            }
            Event::NoRoom(key, left) => {
                let why = "the sidecore's tables are full";
                self.tell_refusal(key, &Reply::Refused(Refused::limit(why)));
                self.lane_ended(key, why, left);
            }
            Event::LaneClosed(key, left) => self.dispose(key, left),
            Event::Freed(key) => self.freed(key),
            Event::SessionClosed(key) => self.conclude(key, &Reply::Done),
            Event::Gateway(key, said) => self.gateway_said(key, said),
            Event::DeviceLost { device, sidecore, loss } => events::device_lost(&device, sidecore, loss),
            Event::WrongResult { device, blame } => self.tell_blame(&device, blame),
        }
    }

    /// The sidecore serves this lane no more: its connection ends as well, and gets the reason.
    fn lane_ended(&mut self, key: LaneKey, why: &str, left: Box<Lane>) {
        if let Some(connection) = self.connections.get(&key) {
            // Only to send the reason; the connection ends in any case.
            let _ = control::send(&connection.socket, &Reply::Ended(why.to_owned()), &[]);
            self.disconnect(key);
        }
        self.dispose(key, Some(left));
    }

    fn serve(&mut self, key: LaneKey) {
        let Some(connection) = self.connections.get(&key) else { return };
        let answered = match receive_request(&connection.socket, &mut self.room) {
            Ok((request, speaker)) => match self.recognise(key, speaker) {
                Ok(()) => self.answer(key, request),
                Err(why) => self.refuse_for_good(key, why),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let what = "no message of this protocol: client and service must be of one version".to_owned();
                self.refuse_for_good(key, what.into())
            }
            Err(error) => Err(error),
        };
        if answered.and_then(|()| self.listen_again(key)).is_err() {
            self.disconnect(key);
        }
    }

    /// Checks that the sender of the connection's first message wrote this one. A child that inherited the
    /// connection, or a process that became another user since, loses the rights of the first one.
    fn recognise(&mut self, key: LaneKey, speaker: Credentials) -> Result<(), Refused> {
        let Some(connection) = self.connections.get_mut(&key) else { return Ok(()) };
        let connected = connection.client.1;
        let first = *connection.speaker.get_or_insert(speaker);
        let Credentials { pid, uid, gid, .. } = speaker;
        ensure!(pid == connected, "process {pid} speaks on a connection of process {connected}: connect again");
        ensure!(uid == first.uid, "user {uid} speaks on a connection of user {}: connect again", first.uid);
        ensure!(gid == first.gid, "group {gid} speaks on a connection of group {}: connect again", first.gid);
        Ok(())
    }

    fn refuse_for_good(&mut self, key: LaneKey, why: Refused) -> io::Result<()> {
        self.tell_fault(key, &why);
        if let Some(connection) = self.connections.get(&key) {
            let _ = control::send(&connection.socket, &Reply::Refused(why), &[]);
        }
        Err(io::ErrorKind::PermissionDenied.into())
    }

    /// Reads the next message of this connection, unless an answer is due.
    fn listen_again(&mut self, key: LaneKey) -> io::Result<()> {
        match self.connections.get_mut(&key) {
            Some(connection) if !connection.busy => {
                let known = std::mem::replace(&mut connection.polled, true);
                let watch = if known { Poller::watch_again } else { Poller::add_once };
                watch(&self.poller, &connection.socket, key)
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, key: LaneKey, request: Request) -> io::Result<()> {
        let reply = match request {
            Request::Attach(attach) => return self.give_lane(key, Waiting::new(attach, clock::now())),
            Request::OpenSession(spec) => self.open_session(key, spec),
            // The sidecore reports when it is done: no later request may find the session.
            Request::CloseSession { handle } => self.close_session(key, handle).map(|()| None),
            Request::Set(texts) => self.set_and_tell(key, &texts).map(Some),
            Request::Settings => Ok(Some(Reply::Settings(self.setup.config.settings()))),
            Request::KeyInfo { name } => self.key_info(key, &name).map(|info| Some(Reply::KeyInfo(info))),
            Request::Keys(command) => self.keys(key, command),
            Request::MakeKey(kind) => self.make_key(key, kind).map(|()| None),
            Request::Gateway(hello) => match self.gateway(key, &hello) {
                Ok(()) => return Ok(()),
                Err(reason) => Err(reason),
            },
            Request::PublicPart { kind, raw } => {
                let work = move || Ok(public_part(kind, &raw).map(|public| then(|_| Ok(Reply::Public(public))))?);
                self.parser.push(self.user(key), key, work);
                Ok(None)
            }
        };
        match reply {
            Ok(Some(reply)) => self.reply(key, &reply),
            Ok(None) => {
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.busy = true;
                }
                Ok(())
            }
            Err(reason) => self.reply(key, &Reply::Refused(reason)),
        }
    }

    fn conclude(&mut self, key: LaneKey, reply: &Reply) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        connection.busy = false;
        if self.reply(key, reply).and_then(|()| self.listen_again(key)).is_err() {
            self.disconnect(key);
        }
    }

    fn reply(&mut self, key: LaneKey, reply: &Reply) -> io::Result<()> {
        self.reply_with(key, reply, &[])
    }

    fn reply_with(&mut self, key: LaneKey, reply: &Reply, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.tell_refusal(key, reply);
        let connection = self.connections.get(&key).ok_or(io::ErrorKind::NotConnected)?;
        control::send(&connection.socket, reply, fds)
    }

    /// Copies the reports of the clients with traffic to the counter file.
    fn publish(&mut self, now: Nanos) {
        self.setup.counters.heartbeat(now);
        if self.usage.is_due(now) {
            self.look_at_usage(now);
        }
        for attached in self.connections.values_mut().filter_map(|connection| connection.attached.as_mut()) {
            let requests = attached.counters.get(LaneCounter::Submitted);
            if requests != attached.published {
                attached.published = requests;
                report::publish(attached.memory.report(), &attached.counters);
            }
        }
    }

    fn user(&self, key: LaneKey) -> u32 {
        self.connections.get(&key).map_or(0, |connection| connection.client.0)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}
