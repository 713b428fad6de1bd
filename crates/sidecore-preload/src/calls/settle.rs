//! Brings a socket back to the kernel's path, after all bytes accepted before.

use crate::calls::wait::{has_room, room_until};
use crate::gate::{self, Gate, InRing, Path};
use crate::interpose::socket;
use rustix::io::Errno;
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use sidecore_core::streams::place::LeaveRequest;
use sidecore_core::streams::rule::{PathReason, Rule};
use sidecore_ipc::sys::clock;
use sidecore_sockets::program;
use sidecore_sockets::stream::{Drained, Progress, Remains};
use sidecore_sockets::sys::tcp;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Time limit for a ring that a full kernel does not take, if the kernel's own call would not wait.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of checks of a parent's ring: 200 us.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the kernel's next call would overtake what the ring still has"]
pub(crate) enum Settled {
    Kernel,
    /// Not yet: the kernel has no room now for the ring's content, which comes first.
    Blocked,
    /// The socket is on the kernel's path; this is the kernel's error for bytes accepted before.
    Failed(Errno),
    /// Not yet: the caller is a handler, which cannot wait for the thread that it interrupted.
    Within,
}

/// Brings the socket there, without waiting. It may enter a ring again later.
pub(crate) fn settle(gate: Gate, why: PathReason) -> Settled {
    let is_first = !matches!(gate.path(), Path::Leaving(_));
    let ring = match gate.leave() {
        Path::Leaving(ring) => ring,
        Path::Behind(remains) => return behind(gate, remains),
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
    let (drained, sent) = ring.stream.settle(ring.key);
    let settled = match drained {
        Drained::Blocked => return Settled::Blocked,
        Drained::Empty => Settled::Kernel,
        Drained::Failed(error) => Settled::Failed(error),
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

/// In a child: the bytes of its parent's ring come first. The parent or the service sends them.
fn behind(gate: Gate, remains: &Remains) -> Settled {
    match remains.progress(clock::now(), has_room(gate)) {
        Progress::Over => {
            gate.end_behind();
            Settled::Kernel
        }
        Progress::Moving => {
            // The kernel may have room all the time.
            let _ = nanosleep(&NAP);
            Settled::Blocked
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
    let _ = settle(gate, why);
}

/// As [`settle_soon`], and the socket stays there.
pub(crate) fn pin(gate: Gate, why: PathReason) {
    gate.pin(why);
    settle_soon(gate, why);
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
        match settle(gate, why) {
            Settled::Blocked if room_until(gate, until) => {}
            Settled::Blocked => {
                if let Some(ring) = gate.in_ring() {
                    ring.stream.make_room(ring.key);
                }
                break settle(gate, why);
            }
            settled => break settled,
        }
    };
    match settled {
        Settled::Kernel | Settled::Failed(_) => Ok(()),
        Settled::Blocked | Settled::Within => Err(Errno::AGAIN),
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
        ring.stream.leave(ring.key, LeaveRequest::Leave);
        program::retire(ring.stream);
    }
}

/// Called before a shutdown of sending. `false`: the kernel has all bytes, and is to shut it.
pub(crate) fn is_shut_later(gate: Gate) -> bool {
    if !matches!(settle(gate, PathReason::Special), Settled::Blocked | Settled::Within) {
        return false;
    }
    let Path::Leaving(ring) = gate.leave() else { return false };
    if !gate.is_shut(ring) {
        return false;
    }
    ring.stream.leave(ring.key, LeaveRequest::ShutAndLeave);
    program::retire(ring.stream);
    true
}
