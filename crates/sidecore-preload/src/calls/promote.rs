//! A connection enters a ring.

use crate::calls::{forks, settle};
use crate::interpose::has_rings_of_its_own;
use crate::interpose::slot::{Slot, State};
use crate::interpose::socket;
use sidecore_client::sockets::program;
use sidecore_client::sockets::stream::Stream;
use sidecore_client::sys::undisturbed::Undisturbed;
use sidecore_core::streams::place::Wish;
use sidecore_core::streams::rule::{Rule, Why};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The process has calls that nobody sees.
static NEVER: AtomicBool = AtomicBool::new(false);
/// Somebody is about to promote: a signal's handler must not come between, and other threads have time.
static BUSY: AtomicBool = AtomicBool::new(false);

/// There was no service: how many attempts are let pass before the next.
static PASSES: AtomicU32 = AtomicU32::new(0);
/// What an attempt costs that finds none is little beside so many messages.
const PASSES_WITHOUT_SERVICE: u32 = 16;

/// Nothing more is promoted in this process.
pub(crate) fn never() {
    NEVER.store(true, Ordering::SeqCst);
}

/// Nothing is promoted until [`resume`]. `false`: somebody is just about to.
pub(crate) fn pause() -> bool {
    !BUSY.swap(true, Ordering::Acquire)
}

/// After [`pause`].
pub(crate) fn resume() {
    BUSY.store(false, Ordering::Release);
}

/// In a forked child, which may have none of the threads that were at it.
pub(crate) fn after_fork_in_child() {
    BUSY.store(false, Ordering::SeqCst);
}

/// A thread that is counted in the slot sent enough, to that address if it named one. With a ring it is not counted any more.
#[cold]
pub(crate) fn promote(fd: RawFd, slot: &'static Slot, to: Option<&SocketAddr>) -> Option<&'static Stream> {
    if NEVER.load(Ordering::Relaxed) || !pause() {
        return None;
    }
    let passes = PASSES.load(Ordering::Relaxed);
    let promoted = if passes == 0 { enter(fd, slot, to) } else { None };
    PASSES.fetch_sub(u32::from(passes > 0), Ordering::Relaxed);
    resume();
    if promoted.is_none() {
        slot.ask(Rule::demoted);
    }
    promoted
}

fn enter(fd: RawFd, slot: &'static Slot, to: Option<&SocketAddr>) -> Option<&'static Stream> {
    if !forks::is_attached() && has_rings_of_its_own() {
        never();
        return None;
    }
    let epoch = forks::epoch();
    if forks::is_shared(fd, slot.born()) {
        return None;
    }
    // A handler might fork, close or send: nothing of that is to find half of a promotion.
    let undisturbed = Undisturbed::new();
    if !slot.is_alone() {
        return None;
    }
    let socket = socket::borrowed(fd);
    let promoted =
        to.map_or_else(|| program::promote(socket, &undisturbed), |to| program::promote_to(socket, *to, &undisturbed));
    let stream = match promoted {
        Ok(stream) => stream,
        Err(why) => {
            if why == Why::NoService {
                PASSES.store(PASSES_WITHOUT_SERVICE, Ordering::Relaxed);
            }
            let next = if why == Why::Special { State::Kernel } else { State::Made };
            let _ = slot.change(State::Entering, next);
            return None;
        }
    };
    forks::attached();
    if !slot.is_entered(stream) {
        stream.leave(socket::borrowed(fd), Wish::Leave);
        program::retire(stream);
        let _ = slot.change(State::Entering, State::Made);
        return None;
    }
    slot.ask(Rule::promoted);
    stream.note(socket::borrowed(fd), Why::Row);
    // Who forks changes the epoch first, and then looks for rings.
    if forks::epoch() != epoch {
        settle::settle(fd, slot, Why::Forked);
    }
    Some(stream)
}
