//! Waits until the kernel has room for a connection, as a blocking call would.

use crate::gate::Gate;
use crate::interpose::{poll_for_room, signals};
use libc::c_int;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::time::Timespec;
use std::time::{Duration, Instant};

/// The longest single wait. The kernel announces room; the limit is for a number that has been reused.
const MAX_WAIT: Duration = Duration::from_secs(60);

pub(crate) struct RoomWait {
    gate: Gate,
    until: Until,
}

#[derive(Clone, Copy)]
enum Until {
    Unknown,
    Ever,
    Then(Instant),
}

impl RoomWait {
    pub(crate) fn of(gate: Gate) -> Self {
        Self { gate, until: Until::Unknown }
    }

    /// Waits for room. Afterwards the gate tells whether the number still refers to this socket.
    ///
    /// # Errors
    /// `Errno::AGAIN`: the socket does not block, or its time limit is over. `Errno::INTR`: a signal came whose
    /// handler ends such calls.
    pub(crate) fn wait(&mut self) -> Result<(), Errno> {
        if !may_block(self.gate, 0) {
            return Err(Errno::AGAIN);
        }
        if matches!(self.until, Until::Unknown) {
            let limit = socket_timeout(self.gate.borrowed(), Timeout::Send).ok().flatten();
            self.until = limit.map_or(Until::Ever, |limit| Until::Then(Instant::now() + limit));
        }
        loop {
            let left = match self.until {
                Until::Then(until) => until.saturating_duration_since(Instant::now()),
                _ => MAX_WAIT,
            };
            if left.is_zero() {
                return Err(Errno::AGAIN);
            }
            match poll_for_room(self.gate.fd(), milliseconds(left)) {
                0 => {}
                // With a time limit the kernel does not restart the call either.
                -1 if matches!(self.until, Until::Then(_)) || !signals::all_restart() => return Err(Errno::INTR),
                -1 => {}
                _ => return Ok(()),
            }
        }
    }
}

pub(crate) fn may_block(gate: Gate, flags: c_int) -> bool {
    let is_told_not_to = || fcntl_getfl(gate.borrowed()).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    flags & libc::MSG_DONTWAIT == 0 && !is_told_not_to()
}

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

fn milliseconds(left: Duration) -> i32 {
    left.min(MAX_WAIT).as_micros().div_ceil(1000) as i32
}
