//! Attachment of lanes to connections.

use super::connection::{Attached, Claim, not_connected};
use super::descriptors::no_descriptor;
use super::state::Listener;
use crate::config::Sidecores;
use crate::control::{Attach, Refused, Reply, Token};
use crate::events;
use crate::service::command::{ClientKey, Lane, LaneKey, Refusals};
use crate::service::quotas::NoRoom;
use crate::service::sessions::Sessions;
use crate::shm::LaneMemory;
use crate::sys::poll::wait_readable;
use rustix::io::Errno;
use sidecore_core::dispatch::UserShare;
use sidecore_core::layout::Layout;
use sidecore_core::ring::{Consumer, Producer};
use sidecore_core::sidecore::NewLane;
use sidecore_daemon::sys::{cpu, peer, wake};
use sidecore_ipc::sys::clock;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

impl Listener {
    pub(super) fn attach(&mut self, key: LaneKey, attach: &Attach) -> Result<(Reply, [OwnedFd; 4]), NoRoom> {
        let (client, layout) = self.admissible(key, attach)?;
        let master = self.setup.store.is_master(client.0);
        self.quotas.check_lane(client, &self.setup.config, layout, self.blocks.len(), master)?;
        Ok(self.make_lane(key, attach, client, layout)?)
    }

    fn admissible(
        &self,
        key: LaneKey,
        &Attach { slots, arena_bytes, .. }: &Attach,
    ) -> Result<(ClientKey, Layout), Refused> {
        let connection = self.connections.get(&key).ok_or_else(not_connected)?;
        ensure!(connection.attached.is_none(), "this connection has its lane already: connect again for another");
        ensure!(connection.own.is_none(), "this connection has its key: connect again for a lane");
        Ok((connection.client, Layout::new(slots, arena_bytes).map_err(Refused::other)?))
    }

    fn make_lane(
        &mut self,
        key: LaneKey,
        &Attach { ref name, adopt, reclaimable, .. }: &Attach,
        client: ClientKey,
        layout: Layout,
    ) -> Result<(Reply, [OwnedFd; 4]), Refused> {
        let master = self.setup.store.is_master(client.0);
        self.watch(key, client)?;
        let system =
            |error: io::Error| Refused::other(format_args!("{error}: the service is short of memory or descriptors"));
        let (memory, file) = LaneMemory::create(layout).map_err(system)?;
        self.setup.advice.give(&memory, self.setup.config.notify.client);
        let ((doorbell, ring), (reader, writer)) = (wake::pipe().map_err(system)?, wake::pipe().map_err(system)?);
        let theirs = doorbell.try_clone().map_err(system)?;
        if !master && theirs.as_raw_fd() >= self.reserved {
            return Err(no_descriptor());
        }
        let sidecore = self.near(client.1).unwrap_or_else(|| self.least_loaded());
        let block = *self
            .blocks
            .last()
            .ok_or_else(|| Refused::limit("the service has as many lanes as limits.lanes allows"))?;
        let token = Token(random().map_err(system)?);
        let counters = self.setup.counters.lane(block);
        counters.open(client.1, client.0, sidecore as u32, name).map_err(system)?;
        let (sessions, session_bytes) = adopt.map_or_else(Default::default, |token| self.adopt(key, client, token));
        let memory = Arc::new(memory);
        let lane = Lane {
            key,
            user: client.0,
            memory: memory.clone(),
            sessions: sessions.clone(),
            counters: counters.clone(),
            consumer: Consumer::new(),
            producer: Producer::new(),
            doorbell,
            refusals: Refusals::default(),
            wake: writer,
        };
        events::client_attached(client.0, client.1, name, sidecore);
        let limits = self.setup.config.limits_of(client.0);
        let client_name = u64::from(client.0) << 32 | u64::from(client.1);
        let (user, weight) = self.shares(client);
        let (credit, slots) = (limits.in_flight, layout.slots());
        let lane = NewLane { client: client_name, user, weight, credit, slots, end: lane };
        self.quotas.attach(client, layout);
        self.blocks.pop();
        self.loads[sidecore] += 1;
        self.tokens.insert(token, key);
        let claim = Claim::new(reclaimable, clock::now());
        let attached =
            Attached { sidecore, memory, sessions, session_bytes, token, counters, block, published: 0, claim };
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.attached = Some(attached);
        }
        self.setup.sidecores[sidecore].send(move |reactor| reactor.add_lane(lane));
        let max_request_bytes = self.setup.config.limits.max_request_bytes;
        let (slots, arena_bytes) = (layout.slots(), layout.arena_bytes());
        Ok((Reply::Attached { slots, arena_bytes, max_request_bytes, token }, [file, ring, reader, theirs]))
    }

    /// The share of a client's user, and the client's weight within it. A subordinate user's weight is for its processes
    /// among those of its tenant.
    fn shares(&self, client: ClientKey) -> (UserShare, u32) {
        let (tenant, config) = (self.quotas.tenant(client), &self.setup.config);
        let user = UserShare { name: Some(tenant.uid().into()), weight: config.limits_of(tenant.uid()).weight };
        let weight = if tenant.uid() == client.0 { 1 } else { config.limits_of(client.0).weight };
        (user, weight)
    }

    /// Refuses a lane whose shape exceeds a limit even if it were the only one.
    pub(super) fn beyond_limits(&self, key: LaneKey, attach: &Attach) -> Result<(), Refused> {
        let limits = &self.setup.config.limits;
        let (slots, arena) = (limits.slots_per_lane, self.setup.config.limits_of(self.user(key)).arena_bytes);
        ensure_limit!(attach.slots <= slots, "{} slots: use up to {slots} (limits.slots_per_lane)", attach.slots);
        let asked = attach.arena_bytes;
        ensure_limit!(asked <= arena, "{asked} arena bytes: use up to {arena} (limits.arena_bytes_per_client)");
        // An invalid layout is refused for that reason later.
        let bytes = Layout::new(attach.slots, asked).map_or(0, |layout| layout.total_bytes() as u64);
        let most = limits.lane_bytes_per_uid;
        ensure_limit!(bytes <= most, "{bytes} bytes of lane: use up to {most} (limits.lane_bytes_per_uid)");
        Ok(())
    }

    /// The sessions of the parent's lane that a forked child's token names, if it has the same user. Of those on
    /// stored keys, only the ones that the child may use itself; of the others, up to its limit. Also returns their
    /// charge.
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
            match self.quotas.open(client, bytes, &self.setup.config.limits) {
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
    fn watch(&mut self, key: LaneKey, client: ClientKey) -> Result<(), Refused> {
        if let Some((number, process)) = self.watched.get(&client) {
            let number = *number;
            if !has_ended(process) {
                self.is_of(key, number);
                return Ok(());
            }
            // The number is reused, before the event of its process's end.
            self.process_ended(number);
        }
        let Some(connection) = self.connections.get(&key) else { return Ok(()) };
        let process = peer::process_of(&connection.socket);
        let process = process.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let process = match process {
            Ok(process) => process,
            Err(Errno::SRCH | Errno::INVAL) => {
                return Err(Refused::other("the process that connected has ended: connect again"));
            }
            // Not available on this system: the end of its sockets tells, unless a child holds them.
            Err(_) => return Ok(()),
        };
        let number = self.number();
        if self.poller.add_level(&process, number).is_ok() {
            self.processes.insert(number, client);
            self.watched.insert(client, (number, process));
            self.is_of(key, number);
        }
        Ok(())
    }

    fn is_of(&mut self, key: LaneKey, number: u64) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.process = Some(number);
        }
    }

    /// The sidecore on the core that the client is tied to, by the kernel's information. On a shared core neither
    /// wakes another core, and the client's last writes are in the caches.
    fn near(&self, pid: u32) -> Option<usize> {
        let Sidecores { cpus, owned } = &self.setup.config.sidecores;
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

fn has_ended(process: &OwnedFd) -> bool {
    wait_readable(process.as_fd(), Some(0)).unwrap_or(true)
}

pub(super) fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}
