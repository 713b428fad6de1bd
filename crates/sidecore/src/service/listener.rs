//! The control thread: accepts clients, gives them lanes within their limits, opens sessions, and changes the service.
//!
//! It works on one message of one connection at a time and never waits for a client: one that does not read its
//! answers loses its connection.

mod keys;
mod settings;

use super::advice::Advice;
use super::command::{ClientKey, Command, Event, LaneKey, NewLane, SidecoreHandle};
use super::sessions::Sessions;
use crate::config::{ClientLimits, Config, Sidecores};
use crate::control::{self, Attach, Reply, Request, Token};
use crate::counters::{Counters, LaneBlock, LaneCounter, report};
use crate::engine::crypto::{KeyMaterial, Session, SessionSpec};
use crate::keys::Store;
use crate::shm::LaneMemory;
use crate::sys::poller::Poller;
use crate::sys::{clock, packet, wake};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sidecore_core::layout::{ABI, Layout};
use sidecore_core::time::Nanos;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// Numbers among the poller's sources; connections and processes have theirs from `FIRST` on.
const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const FIRST: u64 = 2;
/// How often clients' reports are copied to the counter file while there is traffic, ns; the heartbeat's period.
const PUBLISH: Nanos = 250_000_000;
/// Most connections without a lane, of one process and of one user. A client asks for its lane as soon as it is
/// connected, so there are few at a time.
const LANELESS_PER_CLIENT: u32 = 64;
const LANELESS_PER_UID: u32 = 1024;

/// The lane of a connection.
#[derive(Debug)]
struct Attached {
    client: ClientKey,
    sidecore: usize,
    memory: Arc<LaneMemory>,
    sessions: Sessions,
    token: Token,
    counters: LaneBlock,
    block: usize,
    /// Requests when the report was last copied.
    published: u64,
}

/// One connected socket.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    client: ClientKey,
    attached: Option<Attached>,
}

/// One client process.
#[derive(Debug)]
struct Client {
    lanes: u32,
    arena_bytes: u32,
    /// Tells when the process ends, also if a forked child still holds its sockets.
    process: Option<(u64, OwnedFd)>,
}

/// What the thread is started with.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) config: Config,
    pub(super) advice: Advice,
    pub(super) socket: OwnedFd,
    /// Rung after an event.
    pub(super) wake: Arc<OwnedFd>,
    pub(super) events: Receiver<Event>,
    /// The other end of `events`.
    pub(super) tell: Sender<Event>,
    pub(super) sidecores: Vec<SidecoreHandle>,
    pub(super) counters: Arc<Counters>,
    pub(super) store: Store,
}

/// The thread's state.
#[derive(Debug)]
pub(super) struct Listener {
    config: Config,
    advice: Advice,
    socket: OwnedFd,
    wake: Arc<OwnedFd>,
    events: Receiver<Event>,
    tell: Sender<Event>,
    sidecores: Vec<SidecoreHandle>,
    /// Lanes of each sidecore.
    loads: Vec<u32>,
    counters: Arc<Counters>,
    poller: Poller,
    next: u64,
    connections: HashMap<LaneKey, Connection>,
    /// Connections without a lane, of those that have such.
    laneless: HashMap<ClientKey, u32>,
    /// Given up for a moment where there is no other descriptor left, to say so.
    spare: Option<OwnedFd>,
    clients: HashMap<ClientKey, Client>,
    /// Which process a poller number watches.
    processes: HashMap<u64, ClientKey>,
    tokens: HashMap<Token, LaneKey>,
    /// Free lane blocks of the counter file.
    blocks: Vec<usize>,
    store: Store,
    /// Keys that are to be made; the first one is being made.
    wanted: VecDeque<keys::Wanted>,
}

impl Listener {
    pub(super) fn new(setup: Setup) -> io::Result<Self> {
        let Setup { config, advice, socket, wake, events, tell, sidecores, counters, store } = setup;
        let poller = Poller::new()?;
        poller.add_level(&socket, LISTENER)?;
        poller.add_edge(&*wake, WAKE)?;
        let listener = Self {
            loads: vec![0; sidecores.len()],
            blocks: (0..config.limits.lanes as usize).rev().collect(),
            config,
            advice,
            socket,
            wake,
            events,
            tell,
            sidecores,
            counters,
            poller,
            next: FIRST,
            connections: HashMap::new(),
            laneless: HashMap::new(),
            spare: wake::event().ok(),
            clients: HashMap::new(),
            processes: HashMap::new(),
            tokens: HashMap::new(),
            store,
            wanted: VecDeque::new(),
        };
        listener.publish_policies();
        for (place, name) in listener.store.places() {
            listener.counters.open_key(place.into(), name)?;
        }
        Ok(listener)
    }

    /// Answers until told to stop.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let mut publish_at = 0;
        while !stop.load(Ordering::Acquire) {
            let now = clock::now();
            if now >= publish_at {
                self.publish(now);
                publish_at = now + PUBLISH;
            }
            let numbers: Vec<u64> = self.poller.wait(Some(publish_at.saturating_sub(now))).collect();
            for number in numbers {
                self.happened(number);
            }
            while let Ok(event) = self.events.try_recv() {
                self.heard(event);
            }
        }
    }

    fn happened(&mut self, number: u64) {
        match number {
            LISTENER => self.accept(),
            WAKE => {}
            _ => match self.processes.get(&number).copied() {
                Some(client) => self.process_ended(client),
                None => self.serve(number),
            },
        }
    }

    fn heard(&mut self, event: Event) {
        let (key, message) = match event {
            Event::Fault(key, fault) => (key, format!("its client broke the protocol ({})", fault.name())),
            Event::NoRoom(key) => (key, "the sidecore's tables are full".to_owned()),
            Event::SessionClosed(key) => {
                if self.connections.contains_key(&key) && self.reply(key, &Reply::Done).is_err() {
                    self.disconnect(key);
                }
                return;
            }
            Event::KeyGenerated(made) => return self.generated(*made),
        };
        if let Some(connection) = self.connections.get(&key) {
            // Only to say why; the connection ends in any case.
            let _ = control::send(&connection.socket, &Reply::Ended(message), &[]);
            self.disconnect(key);
        }
    }

    fn accept(&mut self) {
        let socket = match packet::accept(&self.socket) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE) => return self.accept_without_descriptors(),
            // Gone again.
            Err(_) => return,
        };
        let Ok(peer) = packet::peer(&socket) else { return };
        let client = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get().cast_unsigned());
        if let Err(why) = self.one_more_laneless(client) {
            return decline(&socket, why);
        }
        let key = self.number();
        let polled = self.poller.add_level(&socket, key);
        self.connections.insert(key, Connection { socket, client, attached: None });
        if polled.is_err() {
            self.disconnect(key);
        }
    }

    /// Left alone, the next client would be announced again and again, and never know.
    fn accept_without_descriptors(&mut self) {
        if self.spare.take().is_some()
            && let Ok(socket) = packet::accept(&self.socket)
        {
            decline(&socket, "the service has no file descriptor left: raise its limit (ulimit -n)".to_owned());
        }
        self.spare = wake::event().ok();
    }

    fn one_more_laneless(&mut self, client: ClientKey) -> Result<(), String> {
        let of_user: u32 = self.laneless.iter().filter(|(other, _)| other.0 == client.0).map(|(_, count)| count).sum();
        let own = self.laneless.entry(client).or_default();
        if *own >= LANELESS_PER_CLIENT {
            return Err(format!("this process has {own} connections without a lane: attach or close them"));
        }
        if of_user >= LANELESS_PER_UID {
            return Err(format!("user {} has {of_user} connections without a lane: attach or close them", client.0));
        }
        *own += 1;
        Ok(())
    }

    fn one_less_laneless(&mut self, client: ClientKey) {
        if let Some(count) = self.laneless.get_mut(&client) {
            *count -= 1;
        }
        self.laneless.retain(|_, count| *count > 0);
    }

    /// One message of one connection.
    fn serve(&mut self, key: LaneKey) {
        let Some(connection) = self.connections.get(&key) else { return };
        let answered = match control::receive_request(&connection.socket) {
            Ok(request) => self.answer(key, request),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let what = "no message of this protocol: client and service must be of one version".to_owned();
                let _ = self.reply(key, &Reply::Refused(what));
                Err(error)
            }
            Err(error) => Err(error),
        };
        if answered.is_err() {
            self.disconnect(key);
        }
    }

    fn answer(&mut self, key: LaneKey, request: Request) -> io::Result<()> {
        let reply = match request {
            Request::Attach(attach) => {
                return match self.attach(key, &attach) {
                    Ok((lane, fds)) => self.welcome(key, *lane, &fds),
                    Err(reason) => self.reply(key, &Reply::Refused(reason)),
                };
            }
            Request::OpenSession(spec) => self.open_session(key, &spec),
            Request::CloseSession { handle } => {
                return match self.close_session(key, handle) {
                    // The sidecore says when it is: no request that follows may still find the session.
                    Ok(()) => Ok(()),
                    Err(reason) => self.reply(key, &Reply::Refused(reason)),
                };
            }
            Request::Set(text) => self.set(key, &text),
            Request::KeyInfo { name } => self.key_info(key, &name).map(Reply::KeyInfo),
            Request::Keys(command) => match self.keys(key, command) {
                Ok(Some(reply)) => Ok(reply),
                Ok(None) => return Ok(()),
                Err(reason) => Err(reason),
            },
        };
        self.reply(key, &reply.unwrap_or_else(Reply::Refused))
    }

    fn reply(&self, key: LaneKey, reply: &Reply) -> io::Result<()> {
        let connection = self.connections.get(&key).ok_or(io::ErrorKind::NotConnected)?;
        control::send(&connection.socket, reply, &[])
    }

    fn attach(
        &mut self,
        key: LaneKey,
        &Attach { abi, slots, arena_bytes, ref name, adopt, cpu }: &Attach,
    ) -> Result<(Box<NewLane>, [OwnedFd; 4]), String> {
        if abi != ABI {
            return Err(format!("the client speaks lane layout {abi}, the service {ABI}: use one version of both"));
        }
        let client = self.connections.get(&key).map(|connection| connection.client).ok_or("not connected")?;
        if self.connections[&key].attached.is_some() {
            return Err("this connection has its lane already: connect again for another".to_owned());
        }
        let layout = Layout::new(slots, arena_bytes).map_err(|error| error.to_string())?;
        let limits = self.config.limits_of(client.0);
        self.check_limits(client, &limits, layout)?;
        let system = |error: io::Error| format!("{error}: the service is short of memory or descriptors");
        let (memory, file) = LaneMemory::create(layout).map_err(system)?;
        self.advice.give(&memory, self.config.notify.client);
        let ((doorbell, ring), (reader, writer)) = (wake::pipe().map_err(system)?, wake::pipe().map_err(system)?);
        let theirs = doorbell.try_clone().map_err(system)?;
        let sidecore = self.near(cpu).unwrap_or_else(|| self.least_loaded());
        let sessions = adopt.map_or_else(Sessions::default, |token| self.adopt(key, client.0, token));
        let block = *self.blocks.last().ok_or("the service has as many lanes as limits.lanes allows")?;
        let token = new_token().map_err(system)?;
        let counters = self.counters.lane(block);
        counters.open(client.1, client.0, sidecore as u32, name).map_err(system)?;
        let lane = NewLane {
            key,
            client,
            weight: limits.weight,
            credit: limits.in_flight,
            memory: Arc::new(memory),
            doorbell,
            wake: writer,
            counters: counters.clone(),
            sessions: sessions.all().collect(),
        };
        let memory = lane.memory.clone();
        let attached = Attached { client, sidecore, memory, sessions, token, counters, block, published: 0 };
        self.enter(key, attached, arena_bytes);
        Ok((Box::new(lane), [file, ring, reader, theirs]))
    }

    fn check_limits(&self, client: ClientKey, limits: &ClientLimits, layout: Layout) -> Result<(), String> {
        let known = self.clients.get(&client);
        if known.is_none() {
            let processes = self.clients.keys().filter(|other| other.0 == client.0).count();
            let most = self.config.limits.clients_per_uid;
            if processes >= most as usize {
                return Err(format!("user {} has {most} clients already (limits.clients_per_uid)", client.0));
            }
        }
        let (lanes, bytes) = known.map_or((0, 0), |client| (client.lanes, client.arena_bytes));
        if lanes >= limits.lanes {
            return Err(format!("this process has {} lanes already (limits.lanes_per_client)", limits.lanes));
        }
        if layout.slots() > self.config.limits.slots_per_lane {
            let most = self.config.limits.slots_per_lane;
            return Err(format!("{} slots: use up to {most} (limits.slots_per_lane)", layout.slots()));
        }
        if bytes.checked_add(layout.arena_bytes()).is_none_or(|sum| sum > limits.arena_bytes) {
            let left = limits.arena_bytes.saturating_sub(bytes);
            return Err(format!(
                "{} arena bytes: {left} are left (limits.arena_bytes_per_client)",
                layout.arena_bytes()
            ));
        }
        Ok(())
    }

    /// Hands the lane to its sidecore and to its client, in this order.
    fn welcome(&mut self, key: LaneKey, lane: NewLane, fds: &[OwnedFd; 4]) -> io::Result<()> {
        let connection = self.connections.get(&key).ok_or(io::ErrorKind::NotConnected)?;
        let attached = connection.attached.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let reply = Reply::Attached {
            slots: lane.memory.layout().slots(),
            arena_bytes: lane.memory.layout().arena_bytes(),
            max_request_bytes: self.config.limits.max_request_bytes,
            token: attached.token,
        };
        self.sidecores[attached.sidecore].send(Command::AddLane(Box::new(lane)));
        control::send(&connection.socket, &reply, &fds.each_ref().map(AsFd::as_fd))
    }

    fn open_session(&mut self, key: LaneKey, spec: &SessionSpec) -> Result<Reply, String> {
        let limit = self.config.limits.sessions_per_lane;
        let session = match &spec.key {
            KeyMaterial::Stored(name) => self.stored_session(key, name, &spec.scheme)?,
            _ => Arc::new(Session::open(spec).map_err(|error| error.to_string())?),
        };
        let algorithm = session.algorithm() as u8;
        let attached = self.attached(key)?;
        let handle = attached
            .sessions
            .open(session.clone(), limit)
            .ok_or_else(|| format!("this lane has {limit} sessions already (limits.sessions_per_lane): close some"))?;
        let sidecore = attached.sidecore;
        self.sidecores[sidecore].send(Command::AddSession { lane: key, handle, session });
        Ok(Reply::Session { handle, algorithm })
    }

    fn close_session(&mut self, key: LaneKey, handle: u32) -> Result<(), String> {
        let attached = self.attached(key)?;
        if !attached.sessions.close(handle) {
            return Err(format!("this lane has no session {handle}"));
        }
        let sidecore = attached.sidecore;
        self.sidecores[sidecore].send(Command::CloseSession { lane: key, handle });
        Ok(())
    }

    fn attached(&mut self, key: LaneKey) -> Result<&mut Attached, String> {
        let connection = self.connections.get_mut(&key);
        connection.and_then(|connection| connection.attached.as_mut()).ok_or_else(|| "attach first".to_owned())
    }

    /// The sessions of the lane that a forked child's token names, if it is of the same user; of those on stored keys,
    /// the ones that it may use itself.
    fn adopt(&self, key: LaneKey, uid: u32, token: Token) -> Sessions {
        let parent = self.tokens.get(&token).and_then(|key| self.connections.get(key)?.attached.as_ref());
        let Some(parent) = parent.filter(|parent| parent.client.0 == uid) else { return Sessions::default() };
        let Ok(peer) = self.peer(key) else { return Sessions::default() };
        let mut sessions = parent.sessions.clone();
        self.keep_permitted(&mut sessions, &peer);
        sessions
    }

    fn enter(&mut self, key: LaneKey, attached: Attached, arena_bytes: u32) {
        let number = self.next;
        let client = self.clients.entry(attached.client).or_insert_with(|| {
            let process = watch(&self.poller, attached.client.1, number);
            Client { lanes: 0, arena_bytes: 0, process: process.map(|process| (number, process)) }
        });
        client.lanes += 1;
        client.arena_bytes += arena_bytes;
        if client.process.as_ref().is_some_and(|(watched, _)| *watched == number) {
            self.processes.insert(number, attached.client);
            self.next += 1;
        }
        self.blocks.pop();
        self.one_less_laneless(attached.client);
        self.loads[attached.sidecore] += 1;
        self.tokens.insert(attached.token, key);
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.attached = Some(attached);
        }
    }

    fn disconnect(&mut self, key: LaneKey) {
        let Some(connection) = self.connections.remove(&key) else { return };
        self.poller.remove(&connection.socket);
        let Some(attached) = connection.attached else { return self.one_less_laneless(connection.client) };
        self.sidecores[attached.sidecore].send(Command::CloseLane(key));
        self.loads[attached.sidecore] -= 1;
        self.tokens.remove(&attached.token);
        attached.counters.close();
        self.blocks.push(attached.block);
        let Some(client) = self.clients.get_mut(&attached.client) else { return };
        client.lanes -= 1;
        client.arena_bytes -= attached.memory.layout().arena_bytes();
        if client.lanes == 0
            && let Some(Client { process: Some((number, process)), .. }) = self.clients.remove(&attached.client)
        {
            self.poller.remove(&process);
            self.processes.remove(&number);
        }
    }

    /// Its lanes end, even if a child of it still holds the sockets.
    fn process_ended(&mut self, client: ClientKey) {
        let lanes: Vec<LaneKey> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.client == client)
            .map(|(key, _)| *key)
            .collect();
        for key in lanes {
            self.disconnect(key);
        }
    }

    /// The sidecore on the core that the client runs on. Where they share one, neither wakes another core, and what the
    /// client has just written is in the caches.
    fn near(&self, cpu: Option<u32>) -> Option<usize> {
        let Sidecores { cpus, owned } = &self.config.sidecores;
        let cpu = cpu.filter(|_| !owned)?;
        cpus.iter().position(|own| *own == cpu as usize)
    }

    fn least_loaded(&self) -> usize {
        (0..self.loads.len()).min_by_key(|sidecore| self.loads[*sidecore]).unwrap_or(0)
    }

    /// Copies the reports of the clients that had traffic to the counter file.
    fn publish(&mut self, now: Nanos) {
        self.counters.heartbeat(now);
        for attached in self.connections.values_mut().filter_map(|connection| connection.attached.as_mut()) {
            let requests = attached.counters.get(LaneCounter::Submitted);
            if requests != attached.published {
                attached.published = requests;
                report::publish(attached.memory.report(), &attached.counters);
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

/// Says why there is no connection. Nothing to do where the client does not even take that.
fn decline(socket: &OwnedFd, why: String) {
    let _ = control::send(socket, &Reply::Refused(why), &[]);
}

/// Watches a process for its end. `None`: it is gone already, or not visible from here.
fn watch(poller: &Poller, pid: u32, number: u64) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    poller.add_level(&process, number).ok()?;
    Some(process)
}

fn new_token() -> io::Result<Token> {
    let mut token = [0; 16];
    rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())?;
    Ok(Token(token))
}
