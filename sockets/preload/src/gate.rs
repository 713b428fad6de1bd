//! The path from a descriptor's number to a stream, taken by each intercepted call.
//!
//! A call makes one [`Gate`] for its number. The gate stores the number's socket at that time. All later
//! steps reach a stream through the gate only, which checks that the number still refers to this socket. So a call
//! that waited continues with its own socket, or ends.

use crate::interpose::slot::Slot;
use crate::interpose::{is_borrower, socket};
use crate::table;
use sidecore_ipc::sys::verified_fd::VerifiedFd;
use sidecore_sockets::stream::{Remains, Stream};
use sidecore_streams::rule::{PathReason, Rule};
use sidecore_streams::slot::{Key, Look, SlotState, Ticket};
use std::os::fd::{BorrowedFd, RawFd};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    fd: RawFd,
    slot: &'static Slot,
    look: Look,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct InRing {
    pub(crate) stream: &'static Stream,
    pub(crate) key: Key,
    ticket: Ticket,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    Kernel,
    /// The kernel, followed by [`Gate::exit`].
    Counted,
    Ring(InRing),
    /// The kernel, once the ring is empty.
    Leaving(InRing),
    /// The kernel, after the bytes of a parent's ring.
    Behind(&'static Remains),
    Shut,
    /// The socket is closed: the number is free, or another socket's.
    Gone,
}

#[inline]
pub(crate) fn watched(fd: RawFd) -> Option<Gate> {
    let slot = table::slot(fd)?;
    let look = slot.word.look();
    // A child in this memory has descriptors of its own.
    (look.is_watched() && !is_borrower()).then_some(Gate { fd, slot, look })
}

/// All sockets with bytes that the kernel may lack: in a ring, or in a child after a parent's ring.
pub(crate) fn full() -> impl Iterator<Item = Gate> {
    all().filter(|gate| gate.look.is_in_ring() || gate.look.state() == SlotState::Behind)
}

pub(crate) fn all() -> impl Iterator<Item = Gate> {
    known().filter(|gate| gate.look.is_watched())
}

/// All sockets that the library saw this process make, including those on the kernel's path.
pub(crate) fn known() -> impl Iterator<Item = Gate> {
    let gate = |(fd, slot): (RawFd, &'static Slot)| Gate { fd, slot, look: slot.word.look() };
    table::all().map(gate).filter(|gate| gate.look.state() != SlotState::Unknown)
}

impl Gate {
    #[inline]
    pub(crate) fn fd(self) -> RawFd {
        self.fd
    }

    pub(crate) fn borrowed(self) -> BorrowedFd<'static> {
        socket::borrowed(self.fd)
    }

    #[inline]
    pub(crate) fn ask<T>(self, question: impl FnOnce(&mut Rule) -> T) -> T {
        self.slot.ask(question)
    }

    #[inline]
    pub(crate) fn slot(self) -> &'static Slot {
        self.slot
    }

    pub(crate) fn state(self) -> SlotState {
        self.look.state()
    }

    #[inline]
    pub(crate) fn is_of_datagrams(self) -> bool {
        self.look.is_of_datagrams()
    }

    /// A copy of the descriptor. `None`: the number is no longer this socket's, or there are too many descriptors.
    pub(crate) fn copy(self) -> Option<VerifiedFd> {
        let copy = VerifiedFd::copy(self.borrowed()).ok()?;
        self.is_same().then_some(copy)
    }

    pub(crate) fn is_same(self) -> bool {
        self.slot.word.look().ticket().is_same_socket(self.look.ticket())
    }

    /// The ring at the time of making the gate, if it takes messages as bytes.
    #[inline]
    pub(crate) fn ring_of_bytes(self) -> Option<InRing> {
        if self.look.takes_bytes() { self.ring(self.look) } else { None }
    }

    /// The present ring, also one that is being left.
    pub(crate) fn in_ring(self) -> Option<InRing> {
        match self.path() {
            Path::Ring(ring) | Path::Leaving(ring) => Some(ring),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn enter(self) -> Path {
        let look = self.slot.word.enter();
        let path = self.path_of(look);
        if matches!(path, Path::Gone) && matches!(look.state(), SlotState::Made | SlotState::Entering) {
            self.exit(0);
        }
        path
    }

    /// Ends the call of a counted thread. `result`: bytes sent, or -1.
    #[inline]
    pub(crate) fn exit(self, result: isize) {
        self.slot.sends(result);
        self.slot.word.exit();
    }

    /// The present path of a call, without counting it.
    #[inline]
    pub(crate) fn path(self) -> Path {
        self.path_of(self.slot.word.look())
    }

    #[inline]
    fn path_of(self, look: Look) -> Path {
        if !look.ticket().is_same_socket(self.look.ticket()) {
            return Path::Gone;
        }
        match look.state() {
            SlotState::Made | SlotState::Entering => Path::Counted,
            SlotState::Shut => Path::Shut,
            SlotState::Ring => self.ring(look).map_or(Path::Kernel, Path::Ring),
            SlotState::Leaving => self.ring(look).map_or(Path::Kernel, Path::Leaving),
            SlotState::Behind => self.slot.remains().map_or(Path::Kernel, Path::Behind),
            SlotState::Unknown | SlotState::Kernel => Path::Kernel,
        }
    }

    #[inline]
    fn ring(self, look: Look) -> Option<InRing> {
        let ticket = look.ticket();
        Some(InRing { stream: self.slot.stream()?, key: Key::new(self.fd.cast_unsigned(), ticket), ticket })
    }

    pub(crate) fn leave(self) -> Path {
        self.path_of(self.slot.word.leave(self.look.ticket()))
    }

    /// Notes that this ring is gone. True for one caller, which retires the stream.
    #[must_use]
    pub(crate) fn has_left(self, ring: InRing) -> bool {
        self.slot.word.has_left(ring.ticket)
    }

    /// Notes that the service shuts the sending side after this ring. True for one caller, which retires the stream.
    #[must_use]
    pub(crate) fn is_shut(self, ring: InRing) -> bool {
        self.slot.word.is_shut(ring.ticket)
    }

    pub(crate) fn end_behind(self) {
        self.slot.word.end_behind(self.look.ticket());
    }

    /// Keeps the socket on the kernel's path until it is closed, if necessary after its ring.
    pub(crate) fn pin(self, why: PathReason) {
        self.slot.note(why);
        self.slot.word.pin(self.look.ticket());
    }

    pub(crate) fn begin_entering(self) -> Option<(Key, Ticket)> {
        let ticket = self.slot.word.begin_entering(self.look.ticket())?;
        Some((Key::new(self.fd.cast_unsigned(), ticket), ticket))
    }

    /// Completes a promotion; the thread is not counted any more. `None`: the state has changed.
    pub(crate) fn entered(self, stream: &'static Stream, (key, ticket): (Key, Ticket)) -> Option<InRing> {
        self.slot.set_stream(stream);
        self.slot.word.is_entered(ticket).then_some(InRing { stream, key, ticket })
    }

    pub(crate) fn stop_entering(self, ticket: Ticket, to: SlotState) {
        self.slot.word.stop_entering(ticket, to);
    }
}

/// Forgets the number, before its socket is closed or after a close that the library did not see. Returns the last
/// state, and the ring, which only the caller ends.
pub(crate) fn forget(fd: RawFd) -> Option<(Gate, Option<InRing>)> {
    let slot = table::slot(fd)?;
    let look = slot.word.look();
    if look.state() == SlotState::Unknown && !look.was_in_ring() {
        return None;
    }
    let gate = Gate { fd, slot, look: slot.word.forget() };
    let ring = if gate.look.is_in_ring() { gate.ring(gate.look) } else { None };
    Some((gate, ring))
}

impl Gate {
    /// True if the service may have the socket open when the program closes it.
    pub(crate) fn was_in_ring(self) -> bool {
        self.look.was_in_ring()
    }
}
