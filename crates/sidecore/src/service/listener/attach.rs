//! Giving lanes to connections.

use super::{Listener, Reply};
use crate::config::Sidecores;
use crate::control::{self, Attach, Token};
use crate::counters::LaneBlock;
use crate::service::command::{ClientKey, Command, LaneKey, NewLane};
use crate::service::quotas::LaneSize;
use crate::service::sessions::Sessions;
use crate::shm::LaneMemory;
use crate::sys::{cpu, peer, wake};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sidecore_core::layout::{ABI, Layout};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// The lane of a connection.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) sidecore: usize,
    pub(super) memory: Arc<LaneMemory>,
    pub(super) sessions: Sessions,
    /// What they were charged.
    pub(super) session_bytes: u64,
    pub(super) token: Token,
    pub(super) counters: LaneBlock,
    pub(super) block: usize,
    /// Requests when the report was last copied.
    pub(super) published: u64,
}

/// A connection that ended: what is to be closed, and what is still counted until that is done.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) client: ClientKey,
    pub(super) socket: Option<OwnedFd>,
    pub(super) lane: Option<EndingLane>,
}

/// Its lane.
#[derive(Debug)]
pub(super) struct EndingLane {
    pub(super) memory: Option<Arc<LaneMemory>>,
    pub(super) sessions: Option<Sessions>,
    pub(super) session_bytes: u64,
    pub(super) size: LaneSize,
    pub(super) sidecore: usize,
    pub(super) block: usize,
}

impl Ending {
    pub(super) fn laneless(client: ClientKey, socket: OwnedFd) -> Self {
        Self { client, socket: Some(socket), lane: None }
    }

    pub(super) fn of_lane(client: ClientKey, socket: OwnedFd, attached: Attached) -> Self {
        let Attached { sidecore, memory, sessions, session_bytes, block, .. } = attached;
        let size = memory.layout().into();
        let (memory, sessions) = (Some(memory), Some(sessions));
        let lane = EndingLane { memory, sessions, session_bytes, size, sidecore, block };
        Self { client, socket: Some(socket), lane: Some(lane) }
    }
}

impl Listener {
    pub(super) fn attach(
        &mut self,
        key: LaneKey,
        &Attach { abi, slots, arena_bytes, ref name, adopt }: &Attach,
    ) -> Result<(Box<NewLane>, [OwnedFd; 4]), String> {
        if abi != ABI {
            return Err(format!("the client speaks lane layout {abi}, the service {ABI}: use one version of both"));
        }
        let connection = self.connections.get(&key).ok_or("not connected")?;
        let client = connection.client;
        if connection.attached.is_some() {
            return Err("this connection has its lane already: connect again for another".to_owned());
        }
        if connection.own.is_some() {
            return Err("this connection has its key: connect again for a lane".to_owned());
        }
        let layout = Layout::new(slots, arena_bytes).map_err(|error| error.to_string())?;
        let master = self.store.is_master(client.0);
        self.quotas.check_lane(client, &self.config, layout, self.blocks.len(), master)?;
        self.watch(key, client)?;
        let system = |error: io::Error| format!("{error}: the service is short of memory or descriptors");
        let (memory, file) = LaneMemory::create(layout).map_err(system)?;
        self.advice.give(&memory, self.config.notify.client);
        let ((doorbell, ring), (reader, writer)) = (wake::pipe().map_err(system)?, wake::pipe().map_err(system)?);
        let theirs = doorbell.try_clone().map_err(system)?;
        if !master && theirs.as_raw_fd() >= self.reserved {
            return Err(no_descriptor());
        }
        let sidecore = self.near(client.1).unwrap_or_else(|| self.least_loaded());
        let block = *self.blocks.last().ok_or("the service has as many lanes as limits.lanes allows")?;
        let token = Token(random().map_err(system)?);
        let counters = self.counters.lane(block);
        counters.open(client.1, client.0, sidecore as u32, name).map_err(system)?;
        let (sessions, session_bytes) = adopt.map_or_else(Default::default, |token| self.adopt(key, client, token));
        let limits = self.config.limits_of(client.0);
        let memory = Arc::new(memory);
        let lane = NewLane {
            key,
            client,
            weight: limits.weight,
            credit: limits.in_flight,
            memory: memory.clone(),
            doorbell,
            wake: writer,
            counters: counters.clone(),
            sessions: sessions.all().collect(),
        };
        self.enter(
            key,
            client,
            Attached { sidecore, memory, sessions, session_bytes, token, counters, block, published: 0 },
        );
        Ok((Box::new(lane), [file, ring, reader, theirs]))
    }

    /// Why a lane of this shape will never be had, however few others there are.
    pub(super) fn beyond_limits(&self, key: LaneKey, attach: &Attach) -> Option<String> {
        let uid = self.connections.get(&key)?.client.0;
        let limits = &self.config.limits;
        let (slots, arena) = (limits.slots_per_lane, self.config.limits_of(uid).arena_bytes);
        if attach.slots > slots {
            return Some(format!("{} slots: use up to {slots} (limits.slots_per_lane)", attach.slots));
        }
        let asked = attach.arena_bytes;
        if asked > arena {
            return Some(format!("{asked} arena bytes: use up to {arena} (limits.arena_bytes_per_client)"));
        }
        let bytes = Layout::new(attach.slots, asked).ok()?.total_bytes() as u64;
        let most = limits.lane_bytes_per_uid;
        (bytes > most).then(|| format!("{bytes} bytes of lane: use up to {most} (limits.lane_bytes_per_uid)"))
    }

    fn enter(&mut self, key: LaneKey, client: ClientKey, attached: Attached) {
        self.quotas.attach(client, attached.memory.layout().into());
        self.blocks.pop();
        self.loads[attached.sidecore] += 1;
        self.tokens.insert(attached.token, key);
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.attached = Some(attached);
        }
    }

    /// Hands the lane to its sidecore and to its client, in this order.
    pub(super) fn welcome(&mut self, key: LaneKey, lane: NewLane, fds: &[OwnedFd; 4]) -> io::Result<()> {
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

    /// The sessions of the lane that a forked child's token names, if it is of the same user; of those on stored keys,
    /// the ones that it may use itself, of the others as many as it may have. With what they are charged.
    fn adopt(&mut self, key: LaneKey, client: ClientKey, token: Token) -> (Sessions, u64) {
        let parent = self.tokens.get(&token).and_then(|key| self.connections.get(key));
        let parent = parent.filter(|parent| parent.client.0 == client.0);
        let Some(parent) = parent.and_then(|parent| parent.attached.as_ref()) else { return Default::default() };
        let Ok(asker) = self.asker(key) else { return Default::default() };
        // A child that connected as its parent's user may have become another since.
        if asker.peers().any(|peer| peer.uid != client.0) {
            return Default::default();
        }
        let mut sessions = parent.sessions.clone();
        self.keep_permitted(&mut sessions, &asker);
        let mut charged = 0;
        let all: Vec<(u32, u64)> = sessions.all().map(|(handle, session)| (handle, session.heap_bytes())).collect();
        for (handle, bytes) in all {
            match self.quotas.open(client, bytes, &self.config.limits) {
                Ok(()) => charged += bytes,
                Err(_) => drop(sessions.close(handle)),
            }
        }
        (sessions, charged)
    }

    /// Watches a client's process for its end.
    ///
    /// # Errors
    /// It has ended already, and its number may be another's.
    fn watch(&mut self, key: LaneKey, client: ClientKey) -> Result<(), String> {
        let Some(connection) = self.connections.get(&key) else { return Ok(()) };
        if self.watched.contains_key(&client) {
            return Ok(());
        }
        let by_number = || pidfd_open(Pid::from_raw(client.1.cast_signed()).ok_or(Errno::SRCH)?, PidfdFlags::empty());
        let is = |error: &io::Error, other: Errno| error.raw_os_error() == Some(other.raw_os_error());
        let process = match peer::process(&connection.socket) {
            // Before Linux 6.5 there is its number only.
            Err(error) if is(&error, Errno::NOPROTOOPT) => by_number().map_err(io::Error::from),
            other => other,
        };
        let process = match process {
            Ok(process) => process,
            Err(error) if is(&error, Errno::SRCH) || is(&error, Errno::INVAL) => {
                return Err("the process that connected has ended: connect again".to_owned());
            }
            // Not to be had on this system: its sockets tell, unless a child holds them.
            Err(_) => return Ok(()),
        };
        let number = self.number();
        if self.poller.add_level(&process, number).is_ok() {
            self.processes.insert(number, client);
            self.watched.insert(client, (number, process));
        }
        Ok(())
    }

    /// The sidecore on the core that the client is tied to, as the kernel says. Where they share one, neither wakes another
    /// core, and what the client has just written is in the caches.
    fn near(&self, pid: u32) -> Option<usize> {
        let Sidecores { cpus, owned } = &self.config.sidecores;
        if *owned || cpus.len() < 2 {
            return None;
        }
        let cpu = cpu::only(pid)?;
        cpus.iter().position(|own| *own == cpu)
    }

    fn least_loaded(&self) -> usize {
        (0..self.loads.len()).min_by_key(|sidecore| self.loads[*sidecore]).unwrap_or(0)
    }
}

pub(super) fn no_descriptor() -> String {
    "the service has no file descriptor left: raise its limit (ulimit -n)".to_owned()
}

/// Bytes that nobody guesses.
pub(super) fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}
