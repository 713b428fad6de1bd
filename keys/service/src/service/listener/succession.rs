//! The former service's side when another one takes its place: [`Former`] decides, this carries it out.

use super::state::{LISTENER, Listener};
use crate::control::{Refused, Reply, Succession};
use crate::events;
use crate::service::command::LaneKey;
use crate::service::succession::Ended;
use rustix::net::{Shutdown, shutdown};
use sidecore_core::policy::succession::{Former, NotNow, Step, Then};
use sidecore_core::time::Nanos;
use sidecore_daemon::sys::packet;
use std::io;
use std::os::fd::AsFd;

/// How far the next service is, and its connection.
#[derive(Debug, Default)]
pub(super) struct Succeeding {
    pub(super) former: Former,
    next: Option<LaneKey>,
}

impl Listener {
    /// `None`: the answer is sent.
    pub(super) fn succeed(&mut self, key: LaneKey, step: Succession, now: Nanos) -> Result<Option<Reply>, Refused> {
        self.administers(key, "take the place of the service")?;
        ensure!(self.setup.legacy.is_some(), "it is part of another program: stop that one");
        if self.succeeding.next.is_some_and(|next| next != key) {
            return Err(not_now(NotNow::Another));
        }
        let mut former = self.succeeding.former;
        let due = match step {
            Succession::Keys => Step::Keys,
            Succession::Socket => Step::Socket,
            Succession::End => Step::End,
        };
        former.ask(due, now).map_err(not_now)?;
        if step == Succession::Keys {
            self.setup.store.release().map_err(Refused::other)?;
            let client = self.connections.get(&key).map_or((0, 0), |connection| connection.client);
            events::next_service_reads(client.0, client.1);
        }
        (self.succeeding.former, self.succeeding.next) = (former, Some(key));
        match step {
            Succession::Keys => Ok(Some(Reply::Done)),
            Succession::Socket => self.give_socket(key).map(|()| None).map_err(Refused::other),
            Succession::End => {
                self.succeeding.next = None;
                let _ = self.reply(key, &Reply::Done);
                self.hang_up();
                self.end_as(Ended::Succeeded);
                Ok(None)
            }
        }
    }

    fn give_socket(&mut self, key: LaneKey) -> io::Result<()> {
        self.poller.remove(&self.door);
        self.resumes = None;
        let Some(legacy) = &self.setup.legacy else { return Ok(()) };
        let connection = self.connections.get(&key).ok_or(io::ErrorKind::NotConnected)?;
        // If it cannot be sent, its connection ends, and this service accepts again.
        let (socket, lock) = (self.door.as_fd(), legacy.lock.as_fd());
        let sent = crate::control::send(&connection.socket, &Reply::Socket, &[socket, lock]);
        if sent.is_err() {
            self.disconnect(key);
        }
        Ok(())
    }

    /// Lets clients move at once: until the process has ended, they would wait for answers.
    fn hang_up(&self) {
        for connection in self.connections.values() {
            // Fails where the client has gone already.
            let _ = shutdown(&connection.socket, Shutdown::Both);
        }
    }

    /// A connection has ended, perhaps that of the next service.
    pub(super) fn next_service_gone(&mut self, key: LaneKey, now: Nanos) {
        if self.succeeding.next == Some(key) {
            self.succeeding.next = None;
            self.succeeding.former.next_is_gone(now);
        }
    }

    /// Looks after a next service that is late or gone.
    pub(super) fn look_after_next(&mut self, now: Nanos) {
        if let Some(key) = self.succeeding.next.filter(|_| self.succeeding.former.is_overdue(now)) {
            self.disconnect(key);
        }
        if !self.succeeding.former.wants_lock() {
            return;
        }
        let accepted = self.succeeding.former.accepts();
        let found = self.setup.store.regain();
        match self.succeeding.former.tried(found, now) {
            Then::Wait => {}
            Then::Resume => {
                events::next_service_gone();
                if !accepted {
                    // Clients are told by the kernel whose socket it is: that of who called `listen` last.
                    let _ = packet::listen(&self.door);
                    self.resumes = self.poller.add_once(&self.door, LISTENER).is_err().then_some(now);
                }
            }
            Then::Fail => self.end_as(Ended::Orphaned),
        }
    }

    fn end_as(&self, why: Ended) {
        if let Some(legacy) = &self.setup.legacy {
            legacy.end(why);
        }
    }
}

fn not_now(why: NotNow) -> Refused {
    Refused::other(match why {
        NotNow::Another => "another service is taking its place already: wait until that one serves or has ended",
        NotNow::OutOfTurn => "this step of a succession is not due: use one version of both services",
    })
}
