//! Waits until the kernel has room for a connection, as a blocking call would.

use crate::calls::edges;
use crate::gate::Gate;
use crate::interpose::signals::{self, Interrupted};
use libc::c_int;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};
use std::time::{Duration, Instant};

/// The longest single wait. The kernel announces room; the limit is for a number that has been reused.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What a send waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Room in the kernel, which announces it.
    Room,
    /// Its turn: a stopped service is within a transfer, or the bytes of a parent's ring come first. Nothing announces
    /// the end of that.
    Turn,
}

/// Interval of looks whether it is the send's turn.
const LOOK: Duration = Duration::from_millis(1);

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

    /// Waits. `sent`: bytes that the call has sent so far. Afterwards the gate tells whether the number still refers to this socket.
    ///
    /// # Errors
    /// `Errno::AGAIN`: the socket does not block, or its time limit is over. `Errno::INTR`: a signal came whose
    /// handler ends such calls; any handler ends one that has sent something.
    pub(crate) fn wait(&mut self, awaited: Awaited, flags: c_int, sent: usize) -> Result<(), Errno> {
        if !may_block(self.gate, flags) {
            return Err(would_block(self.gate, awaited));
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
                return Err(would_block(self.gate, awaited));
            }
            let (fd, limit) = match awaited {
                Awaited::Room => (Some(self.gate.fd()), left),
                Awaited::Turn => (None, left.min(LOOK)),
            };
            match signals::wait_for_room(fd, limit) {
                // With a time limit the kernel does not restart the call either.
                Err(Interrupted::Continues) if sent == 0 && !matches!(self.until, Until::Then(_)) => {}
                Err(_) => return Err(Errno::INTR),
                Ok(false) if awaited == Awaited::Room => {}
                Ok(_) => return Ok(()),
            }
        }
    }
}

/// The answer to a call that may not wait.
pub(crate) fn would_block(gate: Gate, awaited: Awaited) -> Errno {
    if awaited == Awaited::Turn {
        edges::produce_later(gate);
    }
    Errno::AGAIN
}

pub(crate) fn may_block(gate: Gate, flags: c_int) -> bool {
    let is_told_not_to = || fcntl_getfl(gate.borrowed()).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    flags & libc::MSG_DONTWAIT == 0 && !is_told_not_to()
}
