//! Rings that were left with bytes. The service sends these, and this process if the service dies.

use super::Ring;
use crate::sys::signals_blocked::SignalsBlocked;
use sidecore_ipc::sys::connections::{Connections, Listed};
use sidecore_ipc::sys::verified_fd::VerifiedFd;
use sidecore_streams::place::LeaveRequest;
use std::sync::Mutex;

const MAX_ADOPTED: usize = 1024;
/// Adopted connections. Children close them; a program that closes all descriptors leaves them open.
pub(crate) static ADOPTED: Connections<MAX_ADOPTED> = Connections::empty();

/// Left rings of one attachment with bytes, each with a descriptor of ours. No more than there are places.
#[derive(Debug, Default)]
pub(crate) struct AdoptedRings(Mutex<Vec<Adopted>>);

#[derive(Debug)]
struct Adopted {
    ring: Ring,
    wish: LeaveRequest,
    /// Dropped before the socket is closed. `None`: there was no place.
    _listed: Option<Listed>,
    socket: VerifiedFd,
}

impl AdoptedRings {
    /// Has room for the rings of this many places. Memory is allocated and freed while no lock is held: a handler may
    /// wait for a lock within a call of the allocator.
    pub(crate) fn have_room(&self, places: usize) {
        let mut next = Vec::with_capacity(places);
        let blocked = SignalsBlocked::new();
        let mut current = blocked.lock(&self.0);
        next.append(&mut current);
        let before = std::mem::replace(&mut *current, next);
        drop(current);
        drop(before);
    }

    /// Keeps a left ring with bytes, and a descriptor of its socket: if the service dies, this process sends them.
    /// `alone`: the service sends none any more.
    pub(super) fn adopt(&self, ring: Ring, wish: LeaveRequest, alone: bool) {
        let attachment = ring.slot.of.clone();
        // Without a descriptor they cannot be sent.
        if let Ok(socket) = VerifiedFd::copy(ring.socket()) {
            let listed = socket.get().and_then(|socket| ADOPTED.list(socket));
            SignalsBlocked::new().lock(&self.0).push(Adopted { ring, wish, _listed: listed, socket });
        }
        // Only the thread that waits for the end can send them. So the attachment ends: all streams go to the kernel,
        // and enter rings again.
        if alone && !attachment.is_gone() {
            attachment.end();
        }
    }

    /// Forgets the rings that the service has sent.
    pub(crate) fn release(&self) {
        self.retain(|adopted| !adopted.ring.is_concluded());
    }

    /// After the end of the attachment: gives the rings to the kernel. Returns whether nothing is left.
    pub(crate) fn drain(&self) -> bool {
        // If the program reused the descriptor, the rest cannot be sent.
        self.retain(|one| one.socket.get().is_some_and(|socket| one.ring.is_unfinished(socket, one.wish)))
    }

    /// Keeps the rings that `act` wants. Returns whether none is left. The others' sockets are closed while no lock is
    /// held: a close may take as long as the program's linger.
    fn retain(&self, mut act: impl FnMut(&mut Adopted) -> bool) -> bool {
        let most = {
            let blocked = SignalsBlocked::new();
            let adopted = blocked.lock(&self.0);
            if adopted.is_empty() {
                return true;
            }
            adopted.capacity()
        };
        // The calling thread is also the one that enlarges it.
        let mut kept = Vec::with_capacity(most);
        std::mem::swap(&mut *SignalsBlocked::new().lock(&self.0), &mut kept);
        let finished: Vec<Adopted> = kept.extract_if(.., |one| !act(one)).collect();
        drop(finished);
        let blocked = SignalsBlocked::new();
        let mut adopted = blocked.lock(&self.0);
        adopted.append(&mut kept);
        adopted.is_empty()
    }
}
