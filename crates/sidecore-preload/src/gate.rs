//! The way from a descriptor's number to a stream, which each intercepted call goes.
//!
//! A call makes a [`Gate`] for its number, once. The gate remembers which socket has the number then. Each step after that
//! reaches a stream through the gate alone, which finds whether the number is still that socket's. A call that waited goes on
//! with its own socket, or ends.

use crate::interpose::slot::Slot;
use crate::interpose::{is_borrower, socket};
use crate::table;
use sidecore_client::sockets::stream::{Remains, Stream};
use sidecore_client::sys::own::Own;
use sidecore_core::streams::rule::{Rule, Why};
use sidecore_core::streams::slot::{Key, Look, State, Ticket};
use std::os::fd::{BorrowedFd, RawFd};

/// One call's socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    fd: RawFd,
    slot: &'static Slot,
    look: Look,
}

/// A ring, as one look found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InRing {
    pub(crate) stream: &'static Stream,
    pub(crate) key: Key,
    ticket: Ticket,
}

/// How a call goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// By the kernel.
    Kernel,
    /// By the kernel, with [`Gate::exit`] afterwards.
    Counted,
    /// Through the ring.
    Ring(InRing),
    /// By the kernel, after the ring is empty.
    Leaving(InRing),
    /// By the kernel, behind the bytes of a parent's ring.
    Behind(&'static Remains),
    /// Nothing can be sent any more.
    Shut,
    /// The socket is closed: the number is free, or another socket's.
    Gone,
}

/// The socket of that number, if it may enter a ring or has one.
#[inline]
pub(crate) fn watched(fd: RawFd) -> Option<Gate> {
    let slot = table::slot(fd)?;
    let look = slot.word.look();
    // A child that goes on in this memory has descriptors of its own.
    (look.is_watched() && !is_borrower()).then_some(Gate { fd, slot, look })
}

/// All sockets with bytes that the kernel may lack: in a ring, or in a child behind a parent's ring.
pub(crate) fn full() -> impl Iterator<Item = Gate> {
    all().filter(|gate| gate.look.is_in_ring() || gate.look.state() == State::Behind)
}

/// All sockets that may enter a ring or have one.
pub(crate) fn all() -> impl Iterator<Item = Gate> {
    known().filter(|gate| gate.look.is_watched())
}

/// All sockets that this process was seen to make, those of the kernel included.
pub(crate) fn known() -> impl Iterator<Item = Gate> {
    let gate = |(fd, slot): (RawFd, &'static Slot)| Gate { fd, slot, look: slot.word.look() };
    table::all().map(gate).filter(|gate| gate.look.state() != State::Unknown)
}

impl Gate {
    /// The number.
    #[inline]
    pub(crate) fn fd(self) -> RawFd {
        self.fd
    }

    /// The number as a descriptor.
    pub(crate) fn borrowed(self) -> BorrowedFd<'static> {
        socket::borrowed(self.fd)
    }

    /// Asks the rule: see [`Slot::ask`].
    #[inline]
    pub(crate) fn ask<T>(self, question: impl FnOnce(&mut Rule) -> T) -> T {
        self.slot.ask(question)
    }

    #[inline]
    pub(crate) fn slot(self) -> &'static Slot {
        self.slot
    }

    /// The state that the gate was made with.
    pub(crate) fn state(self) -> State {
        self.look.state()
    }

    /// True if the socket sends datagrams.
    #[inline]
    pub(crate) fn is_of_datagrams(self) -> bool {
        self.look.is_of_datagrams()
    }

    /// A copy of the descriptor. `None`: the number is not this socket's any more, or there are too many descriptors.
    pub(crate) fn copy(self) -> Option<Own> {
        let copy = Own::copy(self.borrowed()).ok()?;
        self.is_same().then_some(copy)
    }

    /// True if the number is this socket's now.
    pub(crate) fn is_same(self) -> bool {
        self.slot.word.look().ticket().is_same_socket(self.look.ticket())
    }

    /// The ring that the gate was made with, if it takes messages as bytes.
    #[inline]
    pub(crate) fn ring_of_bytes(self) -> Option<InRing> {
        if self.look.takes_bytes() { self.ring(self.look) } else { None }
    }

    /// The ring now, also one that is being left.
    pub(crate) fn in_ring(self) -> Option<InRing> {
        match self.path() {
            Path::Ring(ring) | Path::Leaving(ring) => Some(ring),
            _ => None,
        }
    }

    /// A thread is about to send.
    #[inline]
    pub(crate) fn enter(self) -> Path {
        let look = self.slot.word.enter();
        let path = self.path_of(look);
        if matches!(path, Path::Gone) && matches!(look.state(), State::Made | State::Entering) {
            self.exit(0);
        }
        path
    }

    /// The call of a counted thread is over. `result`: bytes sent, or -1.
    #[inline]
    pub(crate) fn exit(self, result: isize) {
        self.slot.sends(result);
        self.slot.word.exit();
    }

    /// How a call would go on now, without being counted.
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
            State::Made | State::Entering => Path::Counted,
            State::Shut => Path::Shut,
            State::Ring => self.ring(look).map_or(Path::Kernel, Path::Ring),
            State::Leaving => self.ring(look).map_or(Path::Kernel, Path::Leaving),
            State::Behind => self.slot.remains().map_or(Path::Kernel, Path::Behind),
            State::Unknown | State::Kernel => Path::Kernel,
        }
    }

    #[inline]
    fn ring(self, look: Look) -> Option<InRing> {
        let ticket = look.ticket();
        Some(InRing { stream: self.slot.stream()?, key: Key::new(self.fd.cast_unsigned(), ticket), ticket })
    }

    /// The ring takes no more messages. Returns the path then, which is no ring that takes some.
    pub(crate) fn leave(self) -> Path {
        self.path_of(self.slot.word.leave(self.look.ticket()))
    }

    /// That ring is gone. True for one caller, which retires the stream.
    #[must_use]
    pub(crate) fn has_left(self, ring: InRing) -> bool {
        self.slot.word.has_left(ring.ticket)
    }

    /// The service shuts the sending side after that ring. True for one caller, which retires the stream.
    #[must_use]
    pub(crate) fn is_shut(self, ring: InRing) -> bool {
        self.slot.word.is_shut(ring.ticket)
    }

    /// The parent's ring is empty: the socket is the kernel's.
    pub(crate) fn end_behind(self) {
        self.slot.word.end_behind(self.look.ticket());
    }

    /// The socket is the kernel's until it is closed, or will be after its ring.
    pub(crate) fn pin(self, why: Why) {
        self.slot.note(why);
        self.slot.word.pin(self.look.ticket());
    }

    /// A counted thread is about to promote the socket. Returns the key and the ticket of the ring to be.
    pub(crate) fn begin_entering(self) -> Option<(Key, Ticket)> {
        let ticket = self.slot.word.begin_entering(self.look.ticket())?;
        Some((Key::new(self.fd.cast_unsigned(), ticket), ticket))
    }

    /// The socket is in that ring, and the thread is not counted any more. `None`: something came between.
    pub(crate) fn entered(self, stream: &'static Stream, (key, ticket): (Key, Ticket)) -> Option<InRing> {
        self.slot.set_stream(stream);
        self.slot.word.is_entered(ticket).then_some(InRing { stream, key, ticket })
    }

    /// The promotion has failed.
    pub(crate) fn stop_entering(self, ticket: Ticket, to: State) {
        self.slot.word.stop_entering(ticket, to);
    }
}

/// The socket of that number is about to be closed, or was closed unseen: nothing is known of the number any more. Returns
/// the last knowledge, and the ring, which only the caller ends.
pub(crate) fn forget(fd: RawFd) -> Option<(Gate, Option<InRing>)> {
    let slot = table::slot(fd)?;
    let look = slot.word.look();
    if look.state() == State::Unknown && !look.was_in_ring() {
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
