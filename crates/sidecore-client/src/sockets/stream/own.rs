//! Messages that find the sidecore asleep: the program sends them itself.

use super::{Drained, Ring};
use crate::shm::span::Span;
use crate::sys::{clock, tcp};
use rustix::io::Errno;
use sidecore_core::streams::cursor::word;
use sidecore_core::streams::hold::Holder;
use sidecore_core::streams::layout::{DRAINS, HEAD, MESSAGES, SHARED, TAIL, WRITER};
use sidecore_core::time::Nanos;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

impl Ring {
    /// Accepts what there is room for of a message of `len` bytes. Returns its accepted bytes, and `false` where there is no
    /// sidecore any more.
    ///
    /// # Errors
    /// As for [`Ring::publish_by`].
    pub(super) fn accept<'m>(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: impl Iterator<Item = Span<'m>>,
        len: usize,
        more: bool,
    ) -> Result<(usize, bool), Errno> {
        let (mut began, mut pieces) = (self.begins_own(), pieces.peekable());
        let fits = len <= self.at.size() as usize;
        let whole = pieces.peek().copied().filter(|piece| piece.len() == len && fits);
        if let (Some(at), Some(piece)) = (began, whole) {
            match self.send_own(socket, piece, more, at)? {
                0 => began = None,
                sent => return Ok((sent, true)),
            }
        }
        let taken = self.write(pieces, len, more);
        Ok((taken, self.publish_by(began, socket)?))
    }

    /// The program is about to write a message. Returns the time if it sends that itself.
    pub(super) fn begins_own(&self) -> Option<Nanos> {
        if !self.at.bell().is_armed() || !self.seat.of.is_asleep() {
            return None;
        }
        let now = clock::now();
        (!self.seat.of.wakes(now)).then_some(now)
    }

    /// Sends a message around the empty ring, which has room for it. The cursors advance by the bytes that the kernel took. Returns
    /// that number: 0 where it takes none, or where the sidecore has the stream.
    ///
    /// # Errors
    /// As for [`Ring::publish_by`].
    fn send_own(&mut self, socket: BorrowedFd<'_>, piece: Span<'_>, more: bool, began: Nanos) -> Result<usize, Errno> {
        if !self.at.hold().take(Holder::Program) {
            return Ok(0);
        }
        let is_empty = self.cursors().is_some_and(|cursors| cursors.waiting() == 0);
        let sent = if is_empty { tcp::send(socket, [piece, Span::of(&mut [])], more) } else { Ok(0) };
        if let Ok(sent) = sent
            && sent > 0
        {
            self.tail += sent as u64;
            (self.head, self.more) = (self.tail, false);
            // The kernel's count says that nothing waits, should the program die between the two.
            self.word(WRITER, TAIL).store(word(self.tail, false), Ordering::Release);
            self.word(SHARED, HEAD).store(self.tail, Ordering::Release);
            self.count(MESSAGES);
            self.count(DRAINS);
        }
        self.at.hold().release();
        self.seat.of.sent(began, clock::now());
        match sent {
            Err(Errno::AGAIN) => Ok(0),
            sent => sent,
        }
    }

    /// Gives written bytes to the kernel, or announces them. `began`: see [`Ring::begins_own`]. `false`: there is no sidecore any
    /// more.
    ///
    /// # Errors
    /// The kernel reported this for bytes that were accepted before. The ring holds nothing of use any more.
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
