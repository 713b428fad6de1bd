//! Brings a socket back to the kernel's path, after all bytes accepted before.

use crate::calls::forks;
use crate::calls::room::{has_room, room_until};
use crate::calls::wait::{Awaited, would_block};
use crate::gate::{self, Gate, InRing, Path};
use crate::interpose::{signals, socket};
use rustix::io::Errno;
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use sidecore_ipc::sys::clock;
use sidecore_sockets::program;
use sidecore_sockets::stream::{Drained, Leaving, Progress, Remains};
use sidecore_sockets::sys::tcp;
use sidecore_streams::rule::{PathReason, Rule};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Time limit for rings that a full kernel does not take, if the kernel's own call would not wait.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of checks of a parent's ring: 200 us.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the kernel's next call would overtake what the ring still has"]
pub(crate) enum Settled {
    Kernel,
    /// Not yet: the ring's content comes first, and waits for this.
    Waits(Awaited),
    /// The socket is on the kernel's path; this is the kernel's error for bytes accepted before.
    Failed(Errno),
    /// Not yet: the caller is a handler, which cannot wait for the thread that it interrupted.
    Within,
}

/// Brings the socket there, without waiting. It may enter a ring again later. The caller tells the program an error.
pub(crate) fn settle(gate: Gate, why: PathReason) -> Settled {
    settle_by(gate, why, true)
}

/// As [`settle`], for a call that cannot tell an error: the next one that sends or receives tells it.
fn settle_quietly(gate: Gate, why: PathReason) -> Settled {
    settle_by(gate, why, false)
}

pub(crate) fn settle_by(gate: Gate, why: PathReason, tells: bool) -> Settled {
    let is_first = !matches!(gate.path(), Path::Leaving(_));
    let ring = match gate.leave() {
        Path::Leaving(ring) => ring,
        Path::Behind(remains) => return behind(gate, remains, tells),
        _ => return Settled::Kernel,
    };
    // The first reason counts: later calls find the ring on its way out.
    if is_first {
        gate.slot().note(why);
    }
    if ring.stream.is_within() {
        return Settled::Within;
    }
    if is_first {
        ring.stream.note(ring.key, why);
    }
    let (drained, sent) = ring.stream.settle(ring.key, tells);
    let settled = match drained {
        Drained::Blocked => return Settled::Waits(Awaited::Room),
        Drained::Held => return Settled::Waits(Awaited::Turn),
        Drained::Empty => Settled::Kernel,
        Drained::Failed(error) if tells => Settled::Failed(error),
        Drained::Failed(error) => return Settled::Failed(error),
    };
    if drained == Drained::Empty && sent.is_none() && gate.slot().sent_by_the_ring_alone() {
        // The kernel's bytes differ from those that the ring and this library gave it.
        gate.pin(PathReason::Unseen);
    }
    if left(gate, ring)
        && let Some(sent) = sent
    {
        gate.slot().learn_sent(sent);
    }
    settled
}

/// In a child, or for a copy of a descriptor: the bytes of a ring come first. Its process or the service sends them.
fn behind(gate: Gate, remains: &Remains, tells: bool) -> Settled {
    match remains.progress(clock::now(), has_room(gate)) {
        Progress::Over if !tells => Settled::Kernel,
        Progress::Over => {
            gate.end_behind();
            remains.take_error().map_or(Settled::Kernel, Settled::Failed)
        }
        Progress::Moving => {
            let _ = nanosleep(&NAP);
            Settled::Waits(Awaited::Turn)
        }
        Progress::Stuck => {
            tcp::abort(gate.borrowed());
            gate.end_behind();
            Settled::Kernel
        }
    }
}

/// As [`settle`], if no bytes follow immediately: the next call that sends continues it.
pub(crate) fn settle_soon(gate: Gate, why: PathReason) {
    let _ = settle_quietly(gate, why);
}

/// As [`settle_soon`], and the socket stays there.
pub(crate) fn pin(gate: Gate, why: PathReason) {
    gate.pin(why);
    settle_soon(gate, why);
}

/// As [`pin`], before the descriptor is copied. Returns what the copy must come behind.
pub(crate) fn pin_for_copy(gate: Gate) -> Result<Option<Remains>, Errno> {
    gate.pin(PathReason::Duplicated);
    if settle_quietly(gate, PathReason::Duplicated) == Settled::Kernel {
        return Ok(None);
    }
    // To keep it takes memory, and a handler may have interrupted the allocator.
    if signals::is_handler() {
        return Err(Errno::AGAIN);
    }
    let remains = match gate.path() {
        Path::Ring(ring) | Path::Leaving(ring) => ring.stream.remains(ring.key),
        Path::Behind(remains) => Some(remains.again()),
        _ => None,
    };
    Ok(remains)
}

/// Waits, up to a limit, until the kernel has all bytes accepted before. `Errno::AGAIN`: it does not; further bytes
/// would overtake them.
pub(crate) fn drain(gate: Gate, why: PathReason) -> Result<(), Errno> {
    drain_until(gate, why, Instant::now() + DRAIN_TIMEOUT)
}

/// As [`drain`], and the socket stays on the kernel's path.
pub(crate) fn drain_for_good(gate: Gate, why: PathReason) -> Result<(), Errno> {
    gate.pin(why);
    drain(gate, why)
}

/// As [`drain`], until this time. After it, the kernel's buffer is enlarged within its limit.
pub(crate) fn drain_until(gate: Gate, why: PathReason, until: Instant) -> Result<(), Errno> {
    let settled = loop {
        match settle_quietly(gate, why) {
            Settled::Waits(_) if room_until(gate, until) => {}
            Settled::Waits(_) => {
                if let Some(ring) = gate.in_ring() {
                    ring.stream.make_room(ring.key);
                }
                break settle_quietly(gate, why);
            }
            settled => break settled,
        }
    };
    match settled {
        Settled::Kernel | Settled::Failed(_) => Ok(()),
        Settled::Waits(awaited) => Err(would_block(gate, awaited)),
        Settled::Within => Err(Errno::AGAIN),
    }
}

/// Notes that a stream's ring is gone. True for the first thread that does.
pub(crate) fn left(gate: Gate, ring: InRing) -> bool {
    let is_first = gate.has_left(ring);
    if is_first {
        gate.ask(Rule::demoted);
        program::retire(ring.stream);
    }
    is_first
}

/// Called if a new descriptor has the number of one whose close the library did not see.
pub(crate) fn replaced(fd: RawFd) {
    let Some((gate, ring)) = gate::forget(fd) else { return };
    note_closed(gate);
    if let Some(ring) = ring {
        ring.stream.detach(ring.key);
        program::retire(ring.stream);
    }
}

fn note_closed(gate: Gate) {
    if let Some(seat) = gate.slot().seat().filter(|_| gate.was_in_ring()) {
        program::closed(seat);
    }
}

/// Called before a close: the service sends the content of the ring.
pub(crate) fn let_go(fd: RawFd) {
    let Some((gate, ring)) = gate::forget(fd) else { return };
    note_closed(gate);
    // While the service has the socket open, the kernel would still report its events.
    if let Some(set) = gate.slot().epoll().filter(|_| gate.was_in_ring()) {
        socket::leave_epoll(set, fd);
    }
    if let Some(ring) = ring {
        end(gate, ring);
        program::retire(ring.stream);
    }
}

/// Before a close. A linger of the program's own holds for the ring as for the kernel's buffer: 0 discards it, and else
/// the close waits.
fn end(gate: Gate, ring: InRing) {
    match gate.slot().linger() {
        Some(0) if ring.stream.abort(ring.key) => return,
        Some(seconds @ 1..) => {
            let until = Instant::now() + Duration::from_secs(seconds.into());
            while ring.stream.drain(ring.key).is_unfinished() && room_until(gate, until) {}
        }
        _ => {}
    }
    let by_all = gate.slot().why() != PathReason::Duplicated && !forks::is_shared(gate.fd(), gate.slot().born());
    ring.stream.leave(ring.key, Leaving::Closed { by_all });
}

/// Called before a shutdown of sending. `false`: the kernel has all bytes, and is to shut it.
pub(crate) fn is_shut_later(gate: Gate) -> bool {
    if !matches!(settle_quietly(gate, PathReason::Special), Settled::Waits(_) | Settled::Within) {
        return false;
    }
    let Path::Leaving(ring) = gate.leave() else { return false };
    if !gate.is_shut(ring) {
        return false;
    }
    ring.stream.leave(ring.key, Leaving::Shut);
    program::retire(ring.stream);
    true
}
