//! Reports the sockets of this process that are in no ring, with the reasons.
//!
//! The library's thread makes the report at the service's request. Other threads may change the sockets during that.

use crate::calls::permit;
use crate::gate::{self, Gate};
use rustix::net::getpeername;
use sidecore_sockets::protocol::{MAX_REPORTED, Report, Reported};
use sidecore_sockets::sys::tcp;
use sidecore_streams::rule::{PathReason, Rule};
use sidecore_streams::slot::SlotState;
use std::net::SocketAddr;

pub(crate) fn report() -> Report {
    let mut report = Report::default();
    // A process that restricts its system calls could be killed by a query to the kernel.
    if permit::is_never() {
        return report;
    }
    for socket in gate::known().filter_map(|gate| reported(gate, why(gate)?)) {
        if report.sockets.len() == MAX_REPORTED {
            report.others = report.others.saturating_add(1);
        } else {
            report.sockets.push(socket);
        }
    }
    report
}

/// `None`: it has a ring, or is about to enter one.
fn why(gate: Gate) -> Option<PathReason> {
    match gate.state() {
        SlotState::Unknown | SlotState::Entering => None,
        // The ring may belong to a service that has ended.
        SlotState::Ring | SlotState::Leaving => {
            let seat = gate.in_ring().and_then(|ring| ring.stream.seated(ring.key));
            seat.is_none().then_some(PathReason::NoService)
        }
        SlotState::Kernel | SlotState::Shut => Some(gate.slot().why()),
        SlotState::Behind => Some(PathReason::Forked),
        SlotState::Made => Some(gate.ask(|rule: &mut Rule| rule.reason()).unwrap_or(gate.slot().why())),
    }
}

/// `None`: it is a listener, has no peer, or the number refers to another file.
fn reported(gate: Gate, why: PathReason) -> Option<Reported> {
    let (slot, is_of_datagrams) = (gate.slot(), gate.is_of_datagrams());
    let peer: Option<SocketAddr> = match getpeername(gate.borrowed()) {
        Ok(peer) => Some(peer?.try_into().ok()?),
        Err(rustix::io::Errno::NOTCONN) if is_of_datagrams => None,
        Err(_) => return None,
    };
    let accepted = || tcp::accepted(gate.borrowed()).ok().map(|accepted| accepted.saturating_sub(slot.handshake()));
    let bytes = if !is_of_datagrams {
        accepted()
    } else if gate.state() == SlotState::Made {
        slot.sent().map(|sent| sent.saturating_sub(slot.handshake()))
    } else {
        // Calls on a pinned socket are not counted.
        None
    };
    let seat = slot.seat();
    gate.is_same().then(|| Reported { descriptor: gate.fd().cast_unsigned(), why: why as u8, peer, bytes, seat })
}
