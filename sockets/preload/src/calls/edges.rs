//! Edges that the kernel does not produce.
//!
//! A send that answers `EAGAIN` because the kernel has no room is followed by an edge: the kernel wakes all who wait for
//! room. If the service is stopped within a transfer, or a parent's ring comes first, the kernel may have room all the
//! time, and a program that waits for an edge would wait for ever. So a thread looks at these sockets until they can send
//! again, and then has the kernel announce its room. The thread exists only as long as there are such sockets.

use crate::calls::room::has_room;
use crate::gate::{self, Gate, Path};
use crate::interpose::signals;
use sidecore_ipc::sys::clock;
use sidecore_sockets::program;
use sidecore_sockets::stream::{Drained, Progress};
use sidecore_sockets::sys::tcp;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Interval of the thread's looks: the first, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(16);

/// Whether the thread looks again before it ends.
static LOOKS: AtomicBool = AtomicBool::new(false);
/// Whether an edge is due without such a thread: the library's other thread looks once a second.
static LATER: AtomicBool = AtomicBool::new(false);

/// The program was told `EAGAIN` without a reason that the kernel knows. Datagrams need no edge: the kernel announces
/// room with each that leaves it.
#[cold]
pub(crate) fn produce_later(gate: Gate) {
    if gate.is_of_datagrams() {
        return;
    }
    gate.slot().set_edge_due(true);
    if LOOKS.load(Ordering::SeqCst) {
        return;
    }
    // A handler may have interrupted the allocator, so it starts no thread.
    if signals::is_handler() {
        LATER.store(true, Ordering::SeqCst);
    } else if !LOOKS.swap(true, Ordering::SeqCst) && !program::start_helper("sidecore-edges", look_until_produced) {
        LOOKS.store(false, Ordering::SeqCst);
        LATER.store(true, Ordering::SeqCst);
    }
}

/// In a forked child, which lacks the thread.
pub(crate) fn after_fork_in_child() {
    LOOKS.store(false, Ordering::SeqCst);
    LATER.store(false, Ordering::SeqCst);
}

/// Produces the edges that are due without a thread of their own.
pub(crate) fn tick() {
    if LATER.swap(false, Ordering::SeqCst) && !produce() {
        LATER.store(true, Ordering::SeqCst);
    }
}

/// Produces the edges whose sockets can send again. `false`: others are still due.
fn produce() -> bool {
    let mut all = true;
    for gate in gate::all().filter(|gate| gate.slot().is_edge_due()) {
        if !is_free(gate) {
            all = false;
            continue;
        }
        gate.slot().set_edge_due(false);
        // If there is no room, this question makes the kernel announce it.
        if has_room(gate) {
            tcp::announce_room(gate.borrowed());
        }
    }
    all
}

fn look_until_produced() {
    let mut interval = FIRST_LOOK;
    loop {
        thread::sleep(interval);
        interval = (interval * 2).min(LAST_LOOK);
        if produce() {
            LOOKS.store(false, Ordering::SeqCst);
            // Unless an edge is due since this thread looked, and nobody else produces it.
            if produce() || LOOKS.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }
}

/// Whether the next send is answered as the kernel answers it.
fn is_free(gate: Gate) -> bool {
    match gate.path() {
        Path::Ring(ring) | Path::Leaving(ring) => ring.stream.drain(ring.key) != Drained::Held,
        // If the bytes before are stuck, the next send resets the connection.
        Path::Behind(remains) => remains.progress(clock::now(), has_room(gate)) != Progress::Moving,
        Path::Kernel | Path::Counted | Path::Shut | Path::Gone => true,
    }
}
