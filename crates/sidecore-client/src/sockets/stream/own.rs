//! A message that finds the sidecore asleep, and that the program sends itself, by way of the ring.

use super::{Drained, Ring};
use crate::sys::clock;
use rustix::io::Errno;
use sidecore_core::time::Nanos;
use std::os::fd::BorrowedFd;

impl Ring {
    /// The program is about to write a message. Returns the time if it sends that itself.
    pub(super) fn begins_own(&self) -> Option<Nanos> {
        if !self.at.bell().is_armed() || !self.seat.of.is_asleep() {
            return None;
        }
        let now = clock::now();
        (!self.seat.of.wakes(now)).then_some(now)
    }

    /// Has the kernel or the sidecore know of what was written. `began`: see [`Ring::begins_own`]. `false`: there is no
    /// sidecore any more.
    ///
    /// # Errors
    /// The kernel reported this for what was accepted before. The ring holds nothing of use any more.
    pub(super) fn publish_by(&mut self, began: Option<Nanos>, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        let Some(began) = began else { return Ok(self.publish()) };
        self.publish_unheard();
        let drained = if self.hold(socket) {
            let drained = self.drain_held(socket);
            self.at.hold().release();
            drained
        } else {
            Drained::Blocked
        };
        self.seat.of.sent(began, clock::now());
        match drained {
            // A sidecore that found the ring held looks at it when it is announced. An empty one is not.
            Drained::Empty => Ok(true),
            // It waits for the kernel's room.
            Drained::Blocked => Ok(self.ring()),
            Drained::Failed(error) if self.keeps(error) => Ok(true),
            Drained::Failed(error) => Err(error),
        }
    }
}
