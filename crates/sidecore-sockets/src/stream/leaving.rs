//! The end of a program's part in a ring.

use super::{Drained, Ring};
use crate::sys::tcp;
use sidecore_core::streams::layout::{LINGER, SHARED, WISH, WRITER};
use sidecore_core::streams::place::{LeaveRequest, leave_word};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

impl Ring {
    pub(super) fn leave(mut self, socket: BorrowedFd<'_>, wish: LeaveRequest) {
        // Usually the ring is empty, or the kernel takes all of it: then the peer's wait for the end does not depend
        // on the service.
        let mut drained = self.drain(socket);
        if drained == Drained::Blocked && self.datagrams.is_none() {
            let waiting = self.cursors().map_or(0, |cursors| cursors.waiting());
            tcp::make_room(socket, waiting);
            drained = self.drain(socket);
            if drained == Drained::Blocked {
                // Undone by the side that sends the last byte.
                tcp::reset_at_close(socket, self.word(SHARED, LINGER));
            }
        }
        self.tell(wish);
        // The wish is stored first: the service reads it after shutting the bell. So at least one side sends the rest.
        let is_alone = !self.ring() || self.slot.of.is_gone();
        if drained == Drained::Blocked && is_alone {
            self.slot.of.clone().adopt(self, wish);
        }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.slot.of.is_gone() || self.at.bell().is_shut()
    }

    pub(super) fn tell(&self, wish: LeaveRequest) {
        self.word(WRITER, WISH).store(leave_word(self.slot.number, wish), Ordering::Release);
        self.slot.announce();
    }

    /// For an adopted ring: whether the kernel still has no room. Otherwise the program's wish is carried out.
    pub(crate) fn is_unfinished(&mut self, socket: BorrowedFd<'_>, wish: LeaveRequest) -> bool {
        let drained = self.drain(socket);
        if drained == Drained::Empty && wish == LeaveRequest::ShutAndLeave {
            tcp::shut_sending(socket);
        }
        drained == Drained::Blocked
    }
}
