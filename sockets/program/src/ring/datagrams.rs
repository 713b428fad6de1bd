//! Datagrams in a ring: each enters it whole or not at all, and each error from the kernel is reported once.

use super::{Drained, Ring, Sent};
use crate::attachment::Target;
use crate::datagrams::{Mover, Step};
use crate::sys::udp::{self, Pieces};
use rustix::io::Errno;
use sidecore_ipc::shm::span::Span;
use sidecore_streams::cursor::{Fault, word};
use sidecore_streams::datagrams::{HEADER, MAX_RUN_BYTES, header, record};
use sidecore_streams::layout::{DRAINS, KERNEL_MESSAGES, MESSAGES, TAIL, WRITER};
use sidecore_streams::place::LeaveRequest;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

#[derive(Debug)]
pub(super) struct Datagrams {
    /// Bytes of the largest datagram that goes through the ring.
    most: u32,
    mover: Mover,
    /// An error from the kernel during this program's own transfer, not reported yet.
    error: Option<Errno>,
}

impl Datagrams {
    pub(super) fn new(target: Target, size: u32) -> Self {
        // At least four fit: a ring with room for one would be no faster than the kernel.
        let most = target.packet.min(MAX_RUN_BYTES).min(size / 4);
        Self { most, mover: Mover::new(target.to), error: None }
    }

    pub(super) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    pub(super) fn keep(&mut self, error: Errno) {
        self.error = Some(error);
    }
}

/// Accepts a datagram of `len` bytes, or none of it. Removes the ring if it ended in this call.
pub(crate) fn send_datagram<'m>(
    slot: &mut Option<Ring>,
    socket: BorrowedFd<'_>,
    message: impl Iterator<Item = Span<'m>>,
    len: usize,
    to: Option<&SocketAddr>,
) -> Sent {
    let Some(ring) = slot else { return Sent::Left };
    let became = ring.send_datagram(socket, message, len, to);
    if !matches!(became, Sent::Taken(_) | Sent::Full | Sent::Held) {
        *slot = None;
    }
    became
}

impl Ring {
    fn send_datagram<'m>(
        &mut self,
        socket: BorrowedFd<'_>,
        message: impl Iterator<Item = Span<'m>>,
        len: usize,
        to: Option<&SocketAddr>,
    ) -> Sent {
        let Some(datagrams) = &self.datagrams else { return Sent::Left };
        // A datagram to another receiver goes by the kernel, after all others. An error from the kernel is reported in
        // place of a datagram that no service would send.
        if datagrams.mover.to() != to || datagrams.error.is_some() || self.at.bell().is_shut() {
            return self.end(socket);
        }
        let Some(header_word) = u32::try_from(len).ok().filter(|len| *len <= datagrams.most) else {
            return self.send_around(socket, message, len);
        };
        let bytes = record(header_word);
        if self.room() < bytes
            && let Err(sent) = self.make_room(socket, bytes as usize)
        {
            return sent;
        }
        if self.room() < bytes {
            return Sent::Full;
        }
        let (start, own) = (self.tail, self.begins_own());
        let at = header(start, self.at.size());
        self.slot.bank.span(self.slot.place, at).copy_from(&header_word.to_le_bytes());
        self.tail = start + u64::from(HEADER);
        self.write(message, len, false);
        self.tail = start + u64::from(bytes);
        match self.publish_by(own, socket) {
            Ok(true) => Sent::Taken(len),
            Ok(false) => self.take_back(socket, start, len),
            Err(error) => self.failed(error),
        }
    }

    /// No service empties the ring any more, and a datagram of `len` bytes was just written from `start` on.
    #[cold]
    fn take_back(&mut self, socket: BorrowedFd<'_>, start: u64, len: usize) -> Sent {
        let is_moved = self.held(socket, |ring, _| {
            let is_moved = ring.cursors().is_none_or(|cursors| cursors.head() > start);
            if !is_moved {
                ring.tail = start;
                ring.word(WRITER, TAIL).store(word(start, false), Ordering::Release);
                ring.word(WRITER, MESSAGES).fetch_sub(1, Ordering::Relaxed);
            }
            is_moved
        });
        // A stopped sidecore sends it later.
        let is_moved = is_moved.unwrap_or(true);
        // If the kernel has it already, the next call handles the rest.
        if is_moved { Sent::Taken(len) } else { self.end(socket) }
    }

    /// Ends the stream, unless the kernel has no room now. Its socket may enter a ring again.
    #[cold]
    fn end(&mut self, socket: BorrowedFd<'_>) -> Sent {
        match self.drain(socket) {
            Drained::Blocked => Sent::Full,
            Drained::Held => Sent::Held,
            Drained::Failed(error) => self.failed(error),
            Drained::Empty => {
                self.tell(LeaveRequest::Leave);
                Sent::Left
            }
        }
    }

    #[cold]
    fn send_around<'m>(&mut self, socket: BorrowedFd<'_>, message: impl Iterator<Item = Span<'m>>, len: usize) -> Sent {
        let Some(pieces) = Pieces::new(message) else { return self.end(socket) };
        let sent = self.held(socket, |ring, socket| match ring.drain_held(socket) {
            Drained::Blocked | Drained::Held => Err(Errno::AGAIN),
            Drained::Failed(error) => Err(error),
            Drained::Empty => {
                let to = ring.datagrams.as_ref().and_then(|datagrams| datagrams.mover.to());
                udp::send(socket, &pieces, None, to)
            }
        });
        match sent {
            None => Sent::Held,
            Some(Ok(())) => {
                self.count(KERNEL_MESSAGES);
                Sent::Taken(len)
            }
            Some(Err(Errno::AGAIN)) => Sent::Full,
            Some(Err(error)) => self.failed(error),
        }
    }

    /// Gives the ring's content to the kernel; the program holds the ring. Errors from the kernel are reported at the
    /// end, so that no accepted datagram is lost for them.
    pub(super) fn drain_datagrams(&mut self, socket: BorrowedFd<'_>) -> Drained {
        loop {
            let Some(cursors) = self.cursors() else { return Drained::Failed(Errno::PROTO) };
            if cursors.waiting() == 0 {
                return self.take_error().map_or(Drained::Empty, Drained::Failed);
            }
            let Some(datagrams) = &mut self.datagrams else { return Drained::Empty };
            match datagrams.mover.step(socket, &self.slot.bank, self.slot.place, &cursors) {
                Ok(Step::Moved(_)) => self.count(DRAINS),
                Ok(Step::Again) => {}
                Ok(Step::Noted(error)) => datagrams.error = Some(error),
                Ok(Step::Blocked) => return Drained::Blocked,
                Err(Fault) => return Drained::Failed(Errno::PROTO),
            }
        }
    }
}
