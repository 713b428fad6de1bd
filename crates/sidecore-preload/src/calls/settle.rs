//! Bringing a socket back to the kernel's path, with all that was accepted before.

use crate::calls::wait::{has_room, room_until};
use crate::gate::{self, Gate, InRing, Path};
use crate::interpose::socket;
use rustix::io::Errno;
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use sidecore_client::sockets::program;
use sidecore_client::sockets::stream::{Drained, Progress, Remains};
use sidecore_client::sys::{clock, tcp};
use sidecore_core::streams::place::Wish;
use sidecore_core::streams::rule::{Rule, Why};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// How long a call waits for a ring that the kernel takes nothing of, where the kernel's own call would not wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks at a parent's ring: 200 us.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };

/// Whether a socket is on the kernel's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the kernel's next call would overtake what the ring still has"]
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
pub(crate) fn settle(gate: Gate, why: Why) -> Settled {
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
        // The kernel has bytes that neither the ring nor this library gave it, or lacks some.
        gate.pin(Why::Unseen);
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

/// The same where nothing follows that the ring's bytes must precede: the next call that sends goes on with it.
pub(crate) fn settle_soon(gate: Gate, why: Why) {
    let _ = settle(gate, why);
}

/// The same, and the socket stays there.
pub(crate) fn pin(gate: Gate, why: Why) {
    gate.pin(why);
    settle_soon(gate, why);
}

/// Waits until all that was accepted before is the kernel's, for a while.
///
/// # Errors
/// `Errno::AGAIN`: it is not, and what follows would overtake it.
pub(crate) fn drain(gate: Gate, why: Why) -> Result<(), Errno> {
    drain_until(gate, why, Instant::now() + PATIENCE)
}

/// The same, and the socket stays on the kernel's path.
///
/// # Errors
/// As for [`drain`].
pub(crate) fn drain_for_good(gate: Gate, why: Why) -> Result<(), Errno> {
    gate.pin(why);
    drain(gate, why)
}

/// The same until that instant. Then room is made in the kernel, as far as its limit allows.
///
/// # Errors
/// As for [`drain`].
pub(crate) fn drain_until(gate: Gate, why: Why, until: Instant) -> Result<(), Errno> {
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

/// The stream says that its ring is gone. True for the first thread that hears it.
pub(crate) fn left(gate: Gate, ring: InRing) -> bool {
    let is_first = gate.has_left(ring);
    if is_first {
        gate.ask(Rule::demoted);
        program::retire(ring.stream);
    }
    is_first
}

/// The descriptor was closed by a call that nobody saw, and a new one has its number.
pub(crate) fn replaced(fd: RawFd) {
    let Some((gate, ring)) = gate::forget(fd) else { return };
    note_closed(gate);
    if let Some(ring) = ring {
        ring.stream.forsake(ring.key);
        program::retire(ring.stream);
    }
}

fn note_closed(gate: Gate) {
    if let Some(seat) = gate.slot().seat().filter(|_| gate.was_in_ring()) {
        program::closed(seat);
    }
}

/// The descriptor is about to be closed: what is in the ring is sent by the service.
pub(crate) fn let_go(fd: RawFd) {
    let Some((gate, ring)) = gate::forget(fd) else { return };
    note_closed(gate);
    // As long as the service has it open, the kernel would go on to tell of it.
    if let Some(set) = gate.slot().epoll().filter(|_| gate.was_in_ring()) {
        socket::leave_epoll(set, fd);
    }
    if let Some(ring) = ring {
        ring.stream.leave(ring.key, Wish::Leave);
        program::retire(ring.stream);
    }
}

/// Nothing more is to be sent on it. `false`: the kernel is to shut it, everything before is there.
pub(crate) fn is_shut_later(gate: Gate) -> bool {
    if !matches!(settle(gate, Why::Special), Settled::Blocked | Settled::Within) {
        return false;
    }
    let Path::Leaving(ring) = gate.leave() else { return false };
    if !gate.is_shut(ring) {
        return false;
    }
    ring.stream.leave(ring.key, Wish::ShutAndLeave);
    program::retire(ring.stream);
    true
}
