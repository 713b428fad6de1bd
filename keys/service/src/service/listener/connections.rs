//! Connections: accepting, declining, ending. The reaper frees their objects.

use super::connection::{Attached, Connection, Ending, EndingLane};
use super::descriptors::no_descriptor;
use super::state::{LISTENER, Listener, Work};
use crate::control::{self, Refused, Reply, Request};
use crate::events;
use crate::service::command::{ClientKey, Lane, LaneKey};
use crate::service::reaper::ClosedConnection;
use rustix::io::Errno;
use sidecore_core::time::Nanos;
use sidecore_counters::LaneCounter;
use sidecore_daemon::sys::message::{self, ReceivedMessage};
use sidecore_daemon::sys::peer::{self, Credentials};
use sidecore_daemon::sys::{packet, wake};
use sidecore_ipc::sys::clock;
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use zeroize::Zeroize;

/// Pause of accepting while the system lacks resources, or after too many declined connections, ns.
const PAUSE: Nanos = 10_000_000;
const HIDDEN: &str = "the service cannot see this process, which is in another PID namespace: run both in one (for \
                      containers: the host's, --pid=host, hostPID)";

/// Receives a request, which arrives without descriptors, and its sender. `room` is wiped.
///
/// # Errors
/// Those of the socket, or `InvalidData`; `UnexpectedEof`: the client is gone; `PermissionDenied` where the kernel
/// does not name the sender; a [`Refused`]: it is a request of another version.
pub(super) fn receive_request(socket: impl AsFd, room: &mut [u8]) -> io::Result<(Request, Credentials)> {
    let ReceivedMessage { len, speaker } = match message::receive(socket, room) {
        Ok(heard) => heard,
        Err(error) => {
            // A message that is too long has filled it.
            if error.kind() == io::ErrorKind::InvalidData {
                room.zeroize();
            }
            return Err(error);
        }
    };
    let request = control::read(&room[..len]);
    let refusal = request.as_ref().err().and_then(|_| Request::of_other_version(&room[..len]));
    room[..len].zeroize();
    if let Some(refusal) = refusal {
        return Err(io::Error::new(io::ErrorKind::Unsupported, refusal));
    }
    Ok((request?, speaker.ok_or(io::ErrorKind::PermissionDenied)?))
}

impl Listener {
    /// Accepts waiting connections, or pauses: the poller would report them again immediately.
    pub(super) fn accept(&mut self) {
        if !self.succeeding.former.accepts() {
            self.resumes = None;
            return;
        }
        let resumes = !self.accept_some() || self.poller.watch_again(&self.door, LISTENER).is_err();
        self.resumes = resumes.then(|| clock::now() + PAUSE);
    }

    /// Accepts up to a limit, so that accepted clients get turns in between. `false`: no further attempt is useful.
    fn accept_some(&mut self) -> bool {
        for _ in 0..self.door.at_once() {
            if self.door.is_full() {
                return false;
            }
            match self.door.accept() {
                Ok(Some(socket)) => self.accepted(socket),
                Err(Errno::MFILE | Errno::NFILE) => return self.accept_without_descriptors(),
                // Gone again.
                Ok(None) | Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return error == Errno::AGAIN,
            }
        }
        true
    }

    fn accepted(&mut self, socket: OwnedFd) {
        let client = match peer::credentials(&socket) {
            Ok(Credentials { pid: 0, uid, .. }) => return self.decline((uid, 0), socket, Refused::other(HIDDEN)),
            Ok(Credentials { pid, uid, .. }) => (uid, pid),
            Err(error) => return self.decline((u32::MAX, 0), socket, Refused::other(error)),
        };
        if socket.as_raw_fd() >= self.reserved && !self.setup.store.is_master(client.0) {
            return self.decline(client, socket, no_descriptor());
        }
        if let Err(why) = self.quotas.connect(client) {
            return self.decline(client, socket, why);
        }
        let key = self.number();
        let connection = Connection {
            socket,
            client,
            speaker: None,
            polled: false,
            busy: false,
            attached: None,
            process: None,
            own: None,
            chain: None,
            transfers: None,
        };
        self.connections.insert(key, connection);
        // It may have sent a message already.
        self.turns.push(&self.quotas.tenant(client), Work::Listen(key));
    }

    /// Without this the next client would get no answer. `false`: the client could not be notified.
    fn accept_without_descriptors(&mut self) -> bool {
        let gave_up = self.spare.take().is_some();
        let accepted = if gave_up { packet::accept(&self.door).ok() } else { None };
        let declines = accepted.is_some();
        if let Some(socket) = accepted {
            let client = peer::credentials(&socket).map_or((u32::MAX, 0), |peer| (peer.uid, peer.pid));
            self.decline(client, socket, no_descriptor());
        }
        self.spare = wake::event().ok();
        declines
    }

    fn decline(&mut self, client: ClientKey, socket: OwnedFd, why: Refused) {
        self.tell_refused(client, &why);
        let _ = control::send(&socket, &Reply::Refused(why), &[]);
        self.door.wasted(1);
        self.door.close(socket);
    }

    pub(super) fn disconnect(&mut self, key: LaneKey) {
        let Some(Connection { socket, client, speaker, polled, attached, busy, own, .. }) =
            self.connections.remove(&key)
        else {
            return;
        };
        if polled {
            self.poller.remove(&socket);
        }
        self.gateways.remove(&key);
        self.next_service_gone(key, clock::now());
        self.queue.remove(key);
        if speaker.is_none() {
            self.door.wasted(1);
        }
        if busy {
            self.jobs.forget(self.quotas.tenant(client), key);
        }
        if let Some(own) = own {
            self.forget_key(client, &own);
        }
        let Some(Attached { sidecore, memory, sessions, session_bytes, token, counters, block, .. }) = attached else {
            let unclosed = self.door.try_close(socket);
            let closed = unclosed.map(|socket| ClosedConnection {
                key: Some(key),
                rest: vec![Box::new(socket)],
                ..ClosedConnection::default()
            });
            let is_closed = closed.is_none();
            self.ending.insert(key, Ending { client, closed, lane: None });
            return if is_closed { self.freed(key) } else { self.dispose(key, None) };
        };
        let mut closed =
            ClosedConnection { key: Some(key), rest: vec![Box::new(socket)], ..ClosedConnection::default() };
        if counters.get(LaneCounter::Submitted) == 0 {
            self.door.wasted(1);
        }
        events::client_left(client.0, client.1, sidecore);
        self.setup.sidecores[sidecore].send(move |reactor| reactor.end_lane(key));
        self.tokens.remove(&token);
        counters.close();
        let lane = EndingLane { session_bytes, layout: *memory.layout(), sidecore, block };
        (closed.session_bytes, closed.memory) = (session_bytes, Some(memory));
        closed.rest.push(Box::new(sessions));
        self.ending.insert(key, Ending { client, closed: Some(closed), lane: Some(lane) });
    }

    pub(super) fn dispose(&mut self, key: LaneKey, left: Option<Box<Lane>>) {
        let Some(ending) = self.ending.get_mut(&key) else { return };
        // A lane that the sidecore ended itself is reported twice.
        let Some(mut closed) = ending.closed.take() else { return };
        closed.rest.extend(left.map(|lane| lane as Box<dyn Any + Send>));
        self.reaper.close(self.quotas.tenant(ending.client), closed);
    }

    pub(super) fn freed(&mut self, key: LaneKey) {
        let Some(Ending { client, lane, .. }) = self.ending.remove(&key) else { return };
        let tenant = self.quotas.tenant(client);
        match lane {
            None => self.quotas.disconnect(client),
            Some(lane) => {
                self.loads[lane.sidecore] -= 1;
                self.blocks.push(lane.block);
                self.quotas.close(client, lane.session_bytes);
                self.quotas.detach(client, lane.layout);
            }
        }
        if self.quotas.is_gone(client) {
            self.forget_process(client);
        }
        self.room_for_next(tenant);
        self.spare = self.spare.take().or_else(|| wake::event().ok());
    }

    /// Ends the connections of the process that was watched under this number, even if its child still holds the
    /// sockets. Connections of keys stay, since they are the child's too. Another process may have its process number
    /// by now, with connections of its own.
    pub(super) fn process_ended(&mut self, number: u64) {
        let Some(client) = self.processes.get(&number).copied() else { return };
        self.forget_process(client);
        let tenant = self.quotas.tenant(client);
        let own = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.process == Some(number) && connection.own.is_none());
        for (key, _) in own {
            self.turns.push(&tenant, Work::End(*key));
        }
    }

    fn forget_process(&mut self, client: ClientKey) {
        if let Some((number, process)) = self.watched.remove(&client) {
            self.poller.remove(&process);
            self.processes.remove(&number);
        }
    }

    /// The service ends: nothing is closed here, for that could take long.
    pub(super) fn leave(mut self) {
        // Else it is the next service's.
        if self.succeeding.former.accepts() {
            self.door.leave();
        }
        self.tell_rest();
        let keys: Vec<LaneKey> = self.connections.keys().copied().collect();
        for key in keys {
            self.disconnect(key);
        }
        let ending: Vec<LaneKey> = self.ending.keys().copied().collect();
        for key in ending {
            self.dispose(key, None);
        }
        self.reaper.start_threads();
    }
}
