//! Room in the kernel for a socket's bytes, as the kernel announces it.

use crate::gate::Gate;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::time::{Duration, Instant};

pub(crate) fn has_room(gate: Gate) -> bool {
    polled(gate, Duration::ZERO)
}

pub(crate) fn room_until(gate: Gate, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    !left.is_zero() && polled(gate, left)
}

fn polled(gate: Gate, limit: Duration) -> bool {
    let (socket, limit) = (gate.borrowed(), Timespec::try_from(limit).ok());
    poll(&mut [PollFd::new(&socket, PollFlags::OUT)], limit.as_ref()) == Ok(1)
}
