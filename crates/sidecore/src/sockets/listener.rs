//! The thread that accepts programs, and hands each to the thread of its user. It waits for nobody; before Linux 6.16,
//! where connections that it declines can take long to close, it has 64 of them closed elsewhere at a time.

use super::Shared;
use super::ledger::Kind;
use super::user::{Alive, User};
use crate::control;
use crate::sys::poller::Poller;
use crate::sys::{message, packet, peer, wake};
use rustix::io::Errno;
use sidecore_client::sockets::protocol::Reply;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender};
use std::thread;

/// Numbers among the poller's sources.
const LISTENER: u64 = 0;
const WAKE: u64 = 1;
/// Connections that were declined and are not closed yet, at most.
const DECLINED: usize = 64;

/// The thread's state.
#[derive(Debug)]
pub(super) struct Listener {
    shared: Arc<Shared>,
    socket: OwnedFd,
    poller: Poller,
    users: HashMap<u32, Arc<User>>,
    alive: Alive,
    /// Given up for a moment where there is no other descriptor left, to say so.
    spare: Option<OwnedFd>,
    /// Where the kernel lets descriptors through to a connection that is declined: who closes it may have to wait.
    declined: Option<SyncSender<OwnedFd>>,
}

impl Listener {
    /// # Errors
    /// Those of the system.
    pub(super) fn new(socket: OwnedFd, shared: Arc<Shared>, alive: Alive) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add_level(&socket, LISTENER)?;
        poller.add_edge(&shared.wake, WAKE)?;
        let declined = if message::refuses_descriptors(&socket) { None } else { Some(closes_declined()?) };
        Ok(Self { shared, socket, poller, users: HashMap::new(), alive, spare: wake::event().ok(), declined })
    }

    /// Accepts until the service ends, and has all threads end.
    pub(super) fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            if self.poller.wait(None).any(|number| number == LISTENER) {
                self.accept();
            }
        }
        self.users.values().for_each(|user| user.ring());
    }

    fn accept(&mut self) {
        match packet::accept(&self.socket) {
            Ok(socket) => {
                if let Err((socket, why)) = self.admit(socket) {
                    self.decline(socket, why);
                }
            }
            // Left alone, the next program would be announced again and again, and never know.
            Err(Errno::MFILE | Errno::NFILE) => {
                drop(self.spare.take());
                if let Ok(socket) = packet::accept(&self.socket) {
                    self.decline(socket, "the service has no descriptor left: end some programs".to_owned());
                }
                self.spare = wake::event().ok();
            }
            // Gone again.
            Err(_) => {}
        }
        self.spare = self.spare.take().or_else(|| wake::event().ok());
    }

    fn admit(&mut self, socket: OwnedFd) -> Result<(), (OwnedFd, String)> {
        let mut socket = socket;
        let uid = match peer::credentials(&socket) {
            Ok(peer) => peer.uid,
            Err(error) => return Err((socket, error.to_string())),
        };
        loop {
            let user = match self.user(uid) {
                Ok(user) => user,
                Err(why) => return Err((socket, why)),
            };
            let permit = match user.ledger.take(Kind::Programs, 1) {
                Ok(permit) => permit,
                Err(why) => return Err((socket, why)),
            };
            match user.hand(socket, permit) {
                Ok(()) => return Ok(()),
                // Its thread ended just now.
                Err(back) => socket = back,
            }
        }
    }

    /// The threads of a user, which are started where there are none.
    fn user(&mut self, uid: u32) -> Result<Arc<User>, String> {
        if let Some(user) = self.users.get(&uid).filter(|user| !user.has_ended()) {
            return Ok(user.clone());
        }
        self.users.retain(|_, user| !user.has_ended());
        let most = self.shared.limits.max_users;
        if self.users.len() >= most as usize {
            return Err(format!("the service has all the users that sockets.max_users = {most} allows: raise it"));
        }
        let user = User::start(uid, &self.shared, &self.alive)
            .map_err(|error| format!("the service has no means for one more user: {error}; end some programs, or raise its limits on files and threads"))?;
        self.users.insert(uid, user.clone());
        Ok(user)
    }

    /// Says why there is no connection. Nothing to do where the program does not even take that.
    fn decline(&self, socket: OwnedFd, why: String) {
        let _ = control::send(&socket, &Reply::Refused(why), &[]);
        if let Some(declined) = &self.declined {
            // Where that many wait to be closed, programs wait to be accepted.
            let _ = declined.send(socket);
        }
    }
}

fn closes_declined() -> io::Result<SyncSender<OwnedFd>> {
    let (send, declined) = mpsc::sync_channel(DECLINED);
    thread::Builder::new().name("closes-declined".to_owned()).spawn(move || declined.iter().for_each(drop))?;
    Ok(send)
}
