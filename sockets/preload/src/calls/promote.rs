//! Promotion of a connection into a ring.

use crate::calls::{edges, forks, permit, report, settle};
use crate::gate::{Gate, InRing};
use crate::interpose::{has_rings_of_its_own, signals};
use sidecore_sockets::program::{self, Candidate, Process};
use sidecore_sockets::stream::Leaving;
use sidecore_sockets::sys::signals_blocked::SignalsBlocked;
use sidecore_streams::rule::{PathReason, Rule};
use sidecore_streams::slot::SlotState;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

static PASSES: AtomicU32 = AtomicU32::new(0);
/// Attempts skipped after finding no service: the cost of a failed attempt is then small per message.
const PASSES_WITHOUT_SERVICE: u32 = 16;

/// Called by a counted thread when the rule advises a ring; `to`: the receiver named in the call, if any. On success
/// the thread is not counted any more.
#[cold]
pub(crate) fn promote(gate: Gate, to: Option<&SocketAddr>) -> Option<InRing> {
    if permit::is_never() || !permit::pause() {
        return None;
    }
    let passes = PASSES.load(Ordering::Relaxed);
    let promoted = if passes == 0 { enter(gate, to) } else { Err(PathReason::NoService) };
    PASSES.fetch_sub(u32::from(passes > 0), Ordering::Relaxed);
    permit::resume();
    match promoted {
        Ok(_) => {}
        // The library's thread is about to attach.
        Err(PathReason::Few) => gate.ask(Rule::put_off),
        Err(why) => {
            gate.slot().note(why);
            gate.ask(Rule::demoted);
        }
    }
    promoted.ok()
}

fn enter(gate: Gate, to: Option<&SocketAddr>) -> Result<InRing, PathReason> {
    let epoch = forks::epoch();
    if forks::is_shared(gate.fd(), gate.slot().born()) {
        return Err(PathReason::Forked);
    }
    // A handler might fork, close or send, and must not find a half-made promotion.
    let blocked = SignalsBlocked::new();
    let (key, ticket) = gate.begin_entering().ok_or(PathReason::Special)?;
    let process = Process {
        may_prepare: || !signals::is_handler(),
        sends_unseen: has_rings_of_its_own,
        sockets: report::report,
        tick: edges::tick,
    };
    let candidate = Candidate { socket: gate.borrowed(), key, to, sent: gate.slot().sent() };
    let stream = program::promote(&candidate, process, &blocked).inspect_err(|why| {
        if *why == PathReason::NoService {
            PASSES.store(PASSES_WITHOUT_SERVICE, Ordering::Relaxed);
        }
        let is_final = matches!(why, PathReason::Special | PathReason::Inherited | PathReason::Unseen);
        gate.stop_entering(ticket, if is_final { SlotState::Kernel } else { SlotState::Made });
    })?;
    forks::attached();
    gate.slot().forget_sent();
    gate.slot().set_seat(stream.seated(key));
    let Some(ring) = gate.entered(stream, (key, ticket)) else {
        stream.leave(key, Leaving::Closed { by_all: false });
        program::retire(stream);
        gate.stop_entering(ticket, SlotState::Made);
        return Err(PathReason::Special);
    };
    gate.ask(Rule::promoted);
    stream.note(key, PathReason::Row);
    // A fork changes the epoch first, and then looks for rings.
    if forks::epoch() != epoch {
        settle::settle_soon(gate, PathReason::Forked);
    }
    Ok(ring)
}
