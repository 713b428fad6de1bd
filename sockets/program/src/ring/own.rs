//! Messages that find the sidecore asleep: the program sends them itself.

use super::{Drained, Ring};
use crate::backoff::Backoff;
use crate::sys::tcp;
use rustix::io::Errno;
use sidecore_core::time::Nanos;
use sidecore_ipc::shm::span::Span;
use sidecore_ipc::sys::clock;
use sidecore_streams::cursor::word;
use sidecore_streams::hold::Holder;
use sidecore_streams::layout::{DRAINS, HEAD, MESSAGES, SHARED, TAIL, WRITER};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

impl Ring {
    /// Accepts the part of a message of `len` bytes that fits. Returns the accepted bytes, and `false`
    /// if there is no sidecore any more.
    ///
    /// # Errors
    /// As for [`Ring::publish_by`].
    pub(crate) fn accept<'m>(
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

    /// Called before writing a message. Returns the time if the program sends it itself.
    pub(super) fn begins_own(&self) -> Option<Nanos> {
        if !self.at.bell().is_armed() || !self.slot.of.is_asleep() {
            return None;
        }
        let now = clock::now();
        (!self.slot.of.wakes(now)).then_some(now)
    }

    /// Sends a message past the empty ring, which has room for it. The cursors advance by the bytes that the kernel
    /// accepted. Returns that number: 0 if it has no room, or if the sidecore has the stream.
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
            // In this order the kernel's count is right even if the program dies between the two stores.
            self.word(WRITER, TAIL).store(word(self.tail, false), Ordering::Release);
            self.word(SHARED, HEAD).store(self.tail, Ordering::Release);
            self.count(MESSAGES);
            self.count(DRAINS);
        }
        self.at.hold().release();
        self.slot.of.sent(began, clock::now());
        match sent {
            Err(Errno::AGAIN) => Ok(0),
            sent => sent.map_err(|error| self.first_error(error)),
        }
    }

    /// Gives written bytes to the kernel, or announces them. `began`: see [`Ring::begins_own`]. `false`: there is no
    /// sidecore any more.
    ///
    /// # Errors
    /// An error from the kernel for bytes accepted before. The rest of the ring is lost.
    pub(super) fn publish_by(&mut self, began: Option<Nanos>, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        let Some(began) = began else { return Ok(self.publish()) };
        self.publish_unheard();
        let drained = if self.hold(socket, &mut Backoff::default()) {
            let drained = self.drain_held(socket);
            self.at.hold().release();
            drained
        } else {
            Drained::Held
        };
        self.slot.of.sent(began, clock::now());
        match drained {
            // A sidecore that found the ring held checks it again after an announcement. An empty ring needs none.
            Drained::Empty => Ok(true),
            // The sidecore waits for the kernel's room.
            Drained::Blocked | Drained::Held => Ok(self.ring()),
            Drained::Failed(error) if self.datagrams.is_some() => {
                self.keep(error);
                Ok(true)
            }
            Drained::Failed(error) => Err(error),
        }
    }
}
