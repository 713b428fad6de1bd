//! The end of a program's part in a ring.

use super::{Drained, Ring};
use crate::backoff::Backoff;
use crate::sys::tcp;
use sidecore_streams::layout::{LINGER, SHARED, STATE, WISH, WRITER};
use sidecore_streams::place::{LeaveRequest, PlaceState, leave_word, state_of};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// How a program leaves a ring that may have bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It shuts the sending side.
    Shut,
    /// It closes the descriptor. `by_all`: no other descriptor, of this process or another, has the socket.
    Closed {
        /// See above.
        by_all: bool,
    },
}

impl Ring {
    /// Also keeps what the kernel does not take now, for the case that the service dies.
    pub(crate) fn leave(mut self, socket: BorrowedFd<'_>, wish: Leaving) {
        // Usually the ring is empty, or the kernel takes all of it: then the peer's wait for the end does not depend
        // on the service.
        let mut backoff = Backoff::default();
        let mut drained = self.drain_by(socket, &mut backoff);
        if drained.is_unfinished() && self.datagrams.is_none() {
            let waiting = self.cursors().map_or(0, |cursors| cursors.waiting());
            tcp::make_room(socket, waiting);
            drained = self.drain_by(socket, &mut backoff);
            if drained.is_unfinished() {
                // Undone by the side that sends the last byte.
                tcp::reset_at_close(socket, self.word(SHARED, LINGER));
            }
        }
        if let Drained::Failed(error) = drained {
            // A copy of the descriptor may still tell it.
            self.keep(error);
        }
        let wish = match wish {
            Leaving::Shut => LeaveRequest::ShutAndLeave,
            // The program's copy, below, would delay the end that the peer sees.
            Leaving::Closed { by_all: true } if drained.is_unfinished() => LeaveRequest::ShutAndLeave,
            Leaving::Closed { .. } => LeaveRequest::Leave,
        };
        self.tell(wish);
        // The wish is stored first: the service reads it after shutting the bell. So at least one side sends the rest.
        let is_alone = !self.ring() || self.slot.of.is_gone();
        if drained.is_unfinished() && (is_alone || self.datagrams.is_none()) {
            self.adopted.clone().adopt(self, wish, is_alone);
        }
    }

    /// The program ends the connection at once: what it has sent is lost, and the peer sees a reset.
    pub(crate) fn abort(self, socket: BorrowedFd<'_>) {
        tcp::abort(socket);
        self.tell(LeaveRequest::Leave);
    }

    /// Whether the service is done with the stream.
    pub(super) fn is_concluded(&self) -> bool {
        let state = self.word(SHARED, STATE).load(Ordering::Acquire);
        matches!(state_of(state, self.slot.number), Some(PlaceState::Free | PlaceState::Ended))
    }

    pub(super) fn is_alone(&self) -> bool {
        self.slot.of.is_gone() || self.at.bell().is_shut()
    }

    pub(crate) fn tell(&self, wish: LeaveRequest) {
        self.word(WRITER, WISH).store(leave_word(self.slot.number, wish), Ordering::Release);
        self.slot.announce();
    }

    /// For an adopted ring: whether the kernel still has no room. Otherwise the program's wish is carried out.
    pub(super) fn is_unfinished(&mut self, socket: BorrowedFd<'_>, wish: LeaveRequest) -> bool {
        let drained = self.drain(socket);
        if drained == Drained::Empty && wish == LeaveRequest::ShutAndLeave {
            tcp::shut_sending(socket);
        }
        drained.is_unfinished()
    }
}
