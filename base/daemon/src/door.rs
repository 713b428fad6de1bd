//! The listening socket of a service.
//!
//! A connection that hung up before it was accepted is closed without further work. Wasted connections narrow the
//! kernel's queue, as [`Intake`] decides.

use crate::declined::{Declined, may_hold_descriptors};
use crate::sys::{message, packet};
use rustix::io::Errno;
use sidecore_core::policy::intake::{self, Intake};
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Connections that are accepted in a row before other work.
const MAX_ACCEPTED: u32 = 64;

/// A listening socket, with its declined connections and the length of its queue.
#[derive(Debug)]
pub struct Door {
    socket: OwnedFd,
    refuses_descriptors: bool,
    declined: Declined,
    intake: Intake,
    backlog: u32,
}

impl Door {
    /// For a listening socket. At most `most_declined` connections may wait to be closed.
    pub fn new(socket: OwnedFd, most_declined: usize) -> Self {
        let refuses_descriptors = message::refuses_descriptors(&socket);
        let declined = Declined::new(most_declined);
        Self { socket, refuses_descriptors, declined, intake: Intake::default(), backlog: intake::WIDE }
    }

    /// The next connection; `None`: it had hung up.
    ///
    /// # Errors
    /// Those of the system. `AGAIN`: there is none.
    pub fn accept(&mut self) -> Result<Option<OwnedFd>, Errno> {
        let socket = packet::accept(&self.socket)?;
        if !packet::has_hung_up(&socket) {
            return Ok(Some(socket));
        }
        self.wasted(1);
        self.close(socket);
        Ok(None)
    }

    /// Most connections to accept in a row before other work.
    pub fn at_once(&self) -> u32 {
        // Under a permanent stream of connections, the queue and one more.
        MAX_ACCEPTED.min(self.backlog + 1)
    }

    /// Whether too many wait to be closed: none is to be accepted.
    pub fn is_full(&self) -> bool {
        self.declined.is_full()
    }

    /// Closes a connection later, where it may hold descriptors.
    pub fn close(&self, socket: OwnedFd) {
        // Where the kernel refuses descriptors, a connection holds nothing that takes long to close.
        if !self.refuses_descriptors {
            self.declined.close(socket);
        }
    }

    /// Closes a connection immediately, unless it may hold descriptors.
    pub fn try_close(&self, socket: OwnedFd) -> Option<OwnedFd> {
        (!self.refuses_descriptors && may_hold_descriptors(&socket)).then_some(socket)
    }

    /// Counts connections that were of no use.
    pub fn wasted(&mut self, connections: u32) {
        self.intake.wasted(clock::now(), connections);
    }

    /// Sets the length of the kernel's queue. Returns the time of the next call.
    pub fn set_backlog(&mut self, now: Nanos) -> Option<Nanos> {
        let backlog = self.intake.backlog(now);
        self.widen_to(backlog);
        self.intake.wide_at()
    }

    /// Stops accepting: the next service finds the clients in the queue.
    pub fn leave(&mut self) {
        self.widen_to(intake::WIDE);
    }

    fn widen_to(&mut self, backlog: u32) {
        // After a failure the queue is as before, and a later call tries again.
        if backlog != self.backlog && packet::set_backlog(&self.socket, backlog).is_ok() {
            self.backlog = backlog;
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declined::tests::without_copies;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    use std::path::Path;

    const HOSTILE: usize = 300;

    fn knock(path: &Path) -> Option<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok().map(|()| socket)
    }

    fn fill(path: &Path) -> Vec<OwnedFd> {
        std::iter::from_fn(|| knock(path)).collect()
    }

    #[test]
    fn dropped_connections_narrow_the_queue_until_they_are_forgotten() {
        let _turn = without_copies();
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let listening = packet::bind_to(&path).unwrap();
        packet::listen(&listening).unwrap();
        let mut door = Door::new(listening, 1);
        assert_eq!(door.set_backlog(clock::now()), None);
        (0..HOSTILE).for_each(|_| drop(knock(&path).unwrap()));
        let client = knock(&path).unwrap();
        for _ in 0..HOSTILE {
            assert!(door.accept().unwrap().is_none() && !door.is_full());
        }
        let accepted = door.accept().unwrap().unwrap();
        assert!(!packet::has_hung_up(&accepted));
        drop(client);
        assert!(packet::has_hung_up(&accepted));
        assert_eq!(door.accept().unwrap_err(), Errno::AGAIN);
        // Another connection waits for this number at most.
        let wide_at = door.set_backlog(0).unwrap();
        let waiting = fill(&path);
        assert_eq!(waiting.len(), intake::NARROW as usize + 1);
        assert_eq!(door.at_once() as usize, waiting.len());
        assert_eq!(door.set_backlog(wide_at), None);
        assert!(fill(&path).len() > HOSTILE);
    }

    #[test]
    fn a_door_that_nobody_keeps_is_wide() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        let listening = packet::bind_to(&path).unwrap();
        packet::listen(&listening).unwrap();
        let mut door = Door::new(listening, 1);
        door.wasted(u32::MAX);
        door.set_backlog(0);
        let narrow = fill(&path);
        door.leave();
        assert!(fill(&path).len() > HOSTILE + narrow.len());
    }
}
