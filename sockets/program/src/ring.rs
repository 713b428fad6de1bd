//! A ring that a program writes to, and empties itself where its sidecore is late, stopped or gone.
//!
//! A ring belongs to one stream at a time, under its lock. Whoever moves bytes of it to the kernel has its hold. What is
//! left in it when the program leaves is [`adopted`].

mod adopted;
mod datagrams;
mod leaving;
mod own;

pub(super) use self::adopted::{ADOPTED, AdoptedRings};
pub(super) use self::datagrams::send_datagram;
pub use self::leaving::Leaving;

use self::datagrams::Datagrams;
use super::attachment::StreamSlot;
use super::backoff::Backoff;
use crate::shm::SlotMemory;
use crate::sys::tcp;
use rustix::io::Errno;
use sidecore_core::sync::AtomicU64;
use sidecore_ipc::shm::span::Span;
use sidecore_streams::bell::Rung;
use sidecore_streams::cursor::{Cursors, word};
use sidecore_streams::hold::Holder;
use sidecore_streams::layout::{BASE, DRAINS, ERROR, HEAD, LINGER, MESSAGES, SHARED, TAIL, WRITER};
use sidecore_streams::place::LeaveRequest;
use sidecore_streams::slot::Key;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Number of accepted bytes; fewer than all if the ring, and the kernel behind it, are full.
    Taken(usize),
    /// The kernel has no room now; its readiness tells when it has.
    Full,
    /// The service is stopped within a transfer, and the ring is full. The kernel may have room all the time, so nothing
    /// tells when the service continues.
    Held,
    /// The connection is on the kernel's path again, after all bytes accepted before.
    Left,
    /// An error from the kernel for bytes accepted before. The connection is on the kernel's path again.
    Failed(Errno),
    /// This thread is within another call on the stream: the caller is a signal handler.
    Within,
}

/// State of a ring after draining it to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// The kernel has everything.
    Empty,
    /// Some is left: the kernel has no room now.
    Blocked,
    /// The service is stopped within a transfer. It lives, and only it knows the bytes that it will still send.
    Held,
    /// An error from the kernel; the rest is lost.
    Failed(Errno),
}

impl Drained {
    /// Whether bytes may be left in the ring, to be sent later.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Blocked | Self::Held)
    }
}

#[derive(Debug)]
pub(super) struct Ring {
    pub(super) slot: StreamSlot,
    pub(super) at: SlotMemory,
    pub(super) key: Key,
    /// The key if the ring is of bytes, else none: an offer of a message checks both by one comparison.
    pub(super) of_bytes: Key,
    pub(super) tail: u64,
    /// Bytes known to be moved.
    head: u64,
    pub(super) more: bool,
    datagrams: Option<Datagrams>,
    /// Where it goes if bytes are left in it.
    adopted: Arc<AdoptedRings>,
}

impl Ring {
    /// The ring of a stream that begins.
    pub(super) fn new(slot: StreamSlot, key: Key, adopted: Arc<AdoptedRings>) -> Self {
        let datagrams = slot.target.map(|target| Datagrams::new(target, slot.bank.layout().ring_bytes()));
        let at = SlotMemory::new(slot.bank.clone(), slot.place);
        let of_bytes = if datagrams.is_some() { Key::NONE } else { key };
        Self { slot, at, key, of_bytes, tail: 0, head: 0, more: false, datagrams, adopted }
    }

    #[inline]
    pub(super) fn is_of_datagrams(&self) -> bool {
        self.datagrams.is_some()
    }

    /// The program's socket. It is open: a close takes the ring first.
    pub(super) fn socket(&self) -> BorrowedFd<'static> {
        tcp::program_socket(self.key.number().cast_signed())
    }

    #[inline]
    pub(super) fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        self.at.word(line, word)
    }

    #[inline]
    pub(super) fn count(&self, word: usize) {
        sidecore_core::words::add(self.word(WRITER, word), 1);
    }

    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.at.size() - (self.tail - self.head) as u32
    }

    /// The present cursors. `None`: the shared word is invalid, because it went back or past the written bytes.
    pub(super) fn cursors(&mut self) -> Option<Cursors> {
        let head = self.word(SHARED, HEAD).load(Ordering::Acquire);
        if !(self.head..=self.tail).contains(&head) {
            return None;
        }
        let cursors = Cursors::read(head, word(self.tail, self.more), self.at.size()).ok()?;
        self.head = head;
        Some(cursors)
    }

    fn write<'m>(&mut self, message: impl Iterator<Item = Span<'m>>, len: usize, more: bool) -> usize {
        let taken = len.min(self.room() as usize);
        let (mut at, end) = (self.tail, self.tail + taken as u64);
        for piece in message {
            let most = piece.len().min((end - at) as usize);
            if let Some(part) = piece.slice(0, most) {
                self.at.write(at, &part);
            }
            at += most as u64;
        }
        (self.tail, self.more) = (end, more && taken == len);
        taken
    }

    /// Announces written bytes to the sidecore. `false`: there is none any more.
    #[inline]
    pub(super) fn publish(&self) -> bool {
        self.publish_unheard();
        self.ring()
    }

    #[inline]
    fn publish_unheard(&self) {
        self.count(MESSAGES);
        // Release: a reader of the cursor sees the bytes.
        self.word(WRITER, TAIL).store(word(self.tail, self.more), Ordering::Release);
    }

    #[inline]
    fn ring(&self) -> bool {
        match self.at.bell().ring() {
            Rung::Watched => true,
            Rung::Announce => self.slot.announce(),
            Rung::Shut => false,
        }
    }

    /// Makes room for `len` bytes, or for fewer if the kernel is full. Err: there is no room, or no ring any more.
    #[cold]
    pub(super) fn make_room(&mut self, socket: BorrowedFd<'_>, len: usize) -> Result<(), Sent> {
        // While the sidecore moves bytes there will be room soon, without a system call of ours.
        let mut backoff = Backoff::default();
        while self.at.hold().holder() == Some(Holder::Sidecore) && !self.slot.of.is_gone() && !backoff.is_over() {
            if self.cursors().is_some() && self.room() as usize >= len {
                return Ok(());
            }
            backoff.wait();
        }
        if self.cursors().is_some() && self.room() as usize >= len {
            return Ok(());
        }
        match self.drain_by(socket, &mut backoff) {
            Drained::Failed(error) => return Err(self.failed(error)),
            Drained::Blocked if self.room() == 0 => return Err(Sent::Full),
            Drained::Held if self.room() == 0 => return Err(Sent::Held),
            Drained::Empty | Drained::Blocked | Drained::Held => {}
        }
        Ok(())
    }

    pub(super) fn failed(&self, error: Errno) -> Sent {
        self.tell(LeaveRequest::Leave);
        Sent::Failed(error)
    }

    /// Bytes sent through an empty ring, if the kernel's count agrees. The kernel does not count datagrams.
    pub(super) fn sent(&self) -> Option<u64> {
        let sent = self.word(SHARED, BASE).load(Ordering::Relaxed).wrapping_add(self.tail);
        let is_counted = || tcp::accepted(self.socket()).is_ok_and(|accepted| accepted == sent);
        (self.datagrams.is_some() || is_counted()).then_some(sent)
    }

    /// The error to tell where the kernel answers with this one: it tells the reason once, and perhaps told it to the
    /// service.
    fn first_error(&mut self, error: Errno) -> Errno {
        self.take_error().unwrap_or(error)
    }

    pub(super) fn take_error(&mut self) -> Option<Errno> {
        if let Some(error) = self.datagrams.as_mut().and_then(Datagrams::take_error) {
            return Some(error);
        }
        match self.word(SHARED, ERROR).swap(0, Ordering::Relaxed) {
            0 => None,
            error => i32::try_from(error).ok().map(Errno::from_raw_os_error),
        }
    }

    /// Keeps an error from the kernel for the program's next call.
    pub(super) fn keep(&mut self, error: Errno) {
        match &mut self.datagrams {
            Some(datagrams) => datagrams.keep(error),
            None => self.word(SHARED, ERROR).store(error.raw_os_error().unsigned_abs().into(), Ordering::Relaxed),
        }
    }

    pub(super) fn drain(&mut self, socket: BorrowedFd<'_>) -> Drained {
        self.drain_by(socket, &mut Backoff::default())
    }

    /// As [`drain`](Self::drain), for a call that has waited already.
    fn drain_by(&mut self, socket: BorrowedFd<'_>, backoff: &mut Backoff) -> Drained {
        // A ring of datagrams may still have an error to report.
        let is_empty = self.datagrams.is_none() && self.cursors().is_some_and(|cursors| cursors.waiting() == 0);
        let mut held = |ring: &mut Self| ring.held_by(socket, backoff, Self::drain_held).unwrap_or(Drained::Held);
        let drained = if is_empty { Drained::Empty } else { held(self) };
        if self.datagrams.is_none() && self.is_alone() {
            match drained {
                Drained::Empty => tcp::end_in_order(socket, self.word(SHARED, LINGER)),
                Drained::Blocked | Drained::Held => tcp::reset_at_close(socket, self.word(SHARED, LINGER)),
                Drained::Failed(_) => {}
            }
        }
        drained
    }

    /// Calls `act` while the program holds the stream. `None`: its sidecore is stopped within a transfer.
    pub(super) fn held<T>(
        &mut self,
        socket: BorrowedFd<'_>,
        act: impl FnOnce(&mut Self, BorrowedFd<'_>) -> T,
    ) -> Option<T> {
        self.held_by(socket, &mut Backoff::default(), act)
    }

    fn held_by<T>(
        &mut self,
        socket: BorrowedFd<'_>,
        backoff: &mut Backoff,
        act: impl FnOnce(&mut Self, BorrowedFd<'_>) -> T,
    ) -> Option<T> {
        if !self.hold(socket, backoff) {
            return None;
        }
        let done = act(self, socket);
        self.release();
        Some(done)
    }

    /// Takes the stream from its sidecore, also from one that ended during a transfer. False: the sidecore does not
    /// release it.
    pub(super) fn hold(&mut self, socket: BorrowedFd<'_>, backoff: &mut Backoff) -> bool {
        let hold = self.at.hold();
        while !hold.take(Holder::Program) {
            if backoff.is_over() {
                return false;
            }
            if !backoff.wait() {
                continue;
            }
            // Too long for one system call.
            if self.slot.of.is_gone() {
                let recovered = self.slot.recover(socket, word(self.tail, self.more));
                // A writer of any other value there is gone as well.
                let _ = hold.take_over(Holder::Sidecore, Holder::Program);
                if recovered.is_none() {
                    // Moved and unmoved bytes are unknown: the peer must not take a part for the whole.
                    tcp::abort(socket);
                }
                return true;
            }
        }
        true
    }

    pub(super) fn release(&mut self) {
        self.at.hold().release();
        // The sidecore may have found it held.
        let _ = self.ring();
    }

    pub(super) fn drain_held(&mut self, socket: BorrowedFd<'_>) -> Drained {
        if self.datagrams.is_some() {
            return self.drain_datagrams(socket);
        }
        loop {
            let Some(cursors) = self.cursors() else {
                tcp::abort(socket);
                return Drained::Failed(Errno::PIPE);
            };
            if cursors.waiting() == 0 {
                return Drained::Empty;
            }
            let spans = cursors.filled(u32::MAX).map(|extent| self.at.span(extent));
            match tcp::send(socket, spans, cursors.more()) {
                Ok(sent) => {
                    self.word(SHARED, HEAD).store(cursors.moved(sent as u32), Ordering::Release);
                    self.count(DRAINS);
                }
                Err(Errno::AGAIN) => return Drained::Blocked,
                Err(error) => return Drained::Failed(self.first_error(error)),
            }
        }
    }
}
