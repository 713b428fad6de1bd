//! Bringing a connection back to the kernel's path, with all that was accepted before.

use crate::calls::wait::room_until;
use crate::interpose::slot::{Path, Slot, State};
use crate::interpose::socket;
use rustix::io::Errno;
use sidecore_client::sockets::program;
use sidecore_client::sockets::stream::{Drained, Stream};
use sidecore_core::streams::place::Wish;
use sidecore_core::streams::rule::{Rule, Why};
use std::os::fd::RawFd;
use std::time::Instant;

/// Whether a connection is on the kernel's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is.
    Kernel,
    /// Not yet: what is in its ring comes first, and the kernel takes nothing now.
    Blocked,
    /// It is; the kernel reported this for what was accepted before.
    Failed(Errno),
    /// Not yet: this is a handler, which cannot wait for the thread that it interrupted.
    Within,
}

/// Brings it there, without waiting. It may enter a ring again later.
pub(crate) fn settle(fd: RawFd, slot: &Slot, why: Why) -> Settled {
    let _ = slot.change(State::Ring, State::Leaving);
    let Path::Leaving(stream) = slot.path() else { return Settled::Kernel };
    if stream.is_within() {
        return Settled::Within;
    }
    let socket = socket::borrowed(fd);
    stream.note(socket, why);
    let settled = match stream.settle(socket) {
        Drained::Blocked => return Settled::Blocked,
        Drained::Empty => Settled::Kernel,
        Drained::Failed(error) => Settled::Failed(error),
    };
    if slot.change(State::Leaving, State::Made) {
        slot.ask(Rule::demoted);
        program::retire(stream);
    }
    settled
}

/// Brings it there for good, without waiting.
pub(crate) fn pin(fd: RawFd, slot: &Slot, why: Why) -> Settled {
    slot.pin();
    settle(fd, slot, why)
}

/// As [`settle`] and [`pin`], and waits until then.
pub(crate) fn settle_until(fd: RawFd, slot: &Slot, why: Why, until: Instant) -> Settled {
    loop {
        let settled = settle(fd, slot, why);
        if settled != Settled::Blocked || !room_until(fd, until) {
            return settled;
        }
    }
}

/// The stream of a slot says that its ring is no more.
pub(crate) fn left(slot: &Slot, stream: &'static Stream) {
    if slot.change(State::Ring, State::Made) || slot.change(State::Leaving, State::Made) {
        slot.ask(Rule::demoted);
        program::retire(stream);
    }
}

/// The descriptor was closed by a call that nobody saw, and a new one has its number.
pub(crate) fn replaced(slot: &Slot) {
    if let Some(stream) = slot.stream().filter(|_| slot.is_in_ring()) {
        slot.forget();
        stream.forsake();
        program::retire(stream);
    }
}

/// The descriptor is about to be closed: what is in the ring is sent by the service.
pub(crate) fn let_go(fd: RawFd, slot: &Slot) {
    let stream = slot.stream().filter(|_| slot.is_in_ring());
    // As long as the service has it open, the kernel would go on to tell of it.
    if let Some(set) = slot.epoll().filter(|_| slot.was_in_ring()) {
        socket::leave_epoll(set, fd);
    }
    slot.forget();
    if let Some(stream) = stream {
        stream.leave(socket::borrowed(fd), Wish::Leave);
        program::retire(stream);
    }
}

/// Nothing more is to be sent on it. `false`: the kernel is to shut it, everything before is there.
pub(crate) fn is_shut_later(fd: RawFd, slot: &Slot) -> bool {
    if !matches!(settle(fd, slot, Why::Special), Settled::Blocked | Settled::Within) {
        return false;
    }
    let Some(stream) = slot.stream().filter(|_| slot.change(State::Leaving, State::Shut)) else { return false };
    stream.leave(socket::borrowed(fd), Wish::ShutAndLeave);
    program::retire(stream);
    true
}
