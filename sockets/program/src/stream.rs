//! One connection whose sending goes through a ring, of bytes or of [`datagrams`].
//!
//! Streams are never freed but reused. Each ring has a [`Key`], and each call passes it: so a thread with an outdated
//! key, after another thread closed the socket or left the ring, reaches no other ring.

mod datagrams;
mod leaving;
mod own;
mod remains;

pub use self::leaving::Leaving;
pub use self::remains::{Progress, Remains};

use self::datagrams::{Datagrams, send_datagram};
use super::attachment::{Attachment, StreamSlot};
use super::backoff::Backoff;
use super::protocol::Seated;
use crate::shm::SlotMemory;
use crate::sys::lock::{Busy, Guard, ThreadLock};
use crate::sys::tcp;
use rustix::io::Errno;
use sidecore_core::sync::AtomicU64;
use sidecore_ipc::shm::span::Span;
use sidecore_streams::bell::Rung;
use sidecore_streams::cursor::{Cursors, word};
use sidecore_streams::hold::Holder;
use sidecore_streams::layout::{
    BASE, DRAINS, ERROR, HEAD, KERNEL_MESSAGES, LINGER, MESSAGES, ROW, SHARED, SOCKET, TAIL, WHY, WRITER, reason_word,
};
use sidecore_streams::place::LeaveRequest;
use sidecore_streams::rule::PathReason;
use sidecore_streams::slot::Key;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

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

/// Result of offering a message of one piece without waiting. One byte, so it stays in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// All of it is accepted.
    Taken,
    /// All of it is accepted, but no service empties the ring: the caller must call [`Stream::fall_back`].
    Alone,
    /// Nothing was done: call [`Stream::send`].
    Not,
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

/// A connection in a ring, or a former one.
#[derive(Debug, Default)]
pub struct Stream {
    ring: ThreadLock<Option<Ring>>,
    /// Set by a handler that interrupted work on the stream and left it: its wish, other than [`LeaveRequest::Stay`].
    left: AtomicU8,
}

#[derive(Debug)]
pub(super) struct Ring {
    pub(super) slot: StreamSlot,
    at: SlotMemory,
    pub(super) key: Key,
    /// The key if the ring is of bytes, else none: [`Stream::offer`] checks both by one comparison.
    of_bytes: Key,
    tail: u64,
    /// Bytes known to be moved.
    head: u64,
    more: bool,
    datagrams: Option<Datagrams>,
}

struct Locked<'a> {
    ring: Guard<'a, Option<Ring>>,
    /// Dropped last.
    _after: After<'a>,
}

/// Runs after a thread's use of a stream, when the lock is free.
struct After<'a>(&'a Stream);

impl Drop for After<'_> {
    #[inline]
    fn drop(&mut self) {
        // From here on a handler leaves by itself.
        compiler_fence(Ordering::SeqCst);
        if self.0.left.load(Ordering::Relaxed) != LeaveRequest::Stay as u8 {
            self.0.leave_as_wished();
        }
    }
}

impl Locked<'_> {
    #[inline]
    fn of(&mut self, key: Key) -> Option<&mut Ring> {
        self.ring.as_mut().filter(|ring| ring.key == key)
    }

    /// After a send that was not taken: the ring is gone, unless its error is kept for the next send.
    #[cold]
    fn after(&mut self, sent: Sent, began: bool) -> Sent {
        match sent {
            Sent::Full | Sent::Held => {}
            Sent::Failed(error) if began => {
                if let Some(ring) = self.ring.as_mut() {
                    ring.keep(error);
                }
            }
            _ => *self.ring = None,
        }
        sent
    }

    /// No service empties the ring any more, and `taken` bytes were just written. `began`: see [`Stream::send`].
    #[cold]
    fn fall_back(&mut self, key: Key, taken: usize, began: bool) -> Sent {
        let Some(ring) = self.of(key) else { return Sent::Left };
        let drained = ring.take_error().map_or_else(|| ring.drain(ring.socket()), Drained::Failed);
        match drained {
            Drained::Failed(error) => {
                let failed = ring.failed(error);
                return self.after(failed, began);
            }
            Drained::Empty => *self.ring = None,
            Drained::Blocked | Drained::Held => {}
        }
        Sent::Taken(taken)
    }
}

impl Stream {
    /// `None`: this thread has it already, further up its stack.
    fn lock(&self) -> Option<Locked<'_>> {
        let mut backoff = Backoff::default();
        loop {
            match self.try_lock() {
                Ok(locked) => return Some(locked),
                Err(Busy::Here) => return None,
                Err(Busy::Elsewhere) => backoff.wait(),
            };
        }
    }

    #[inline]
    fn try_lock(&self) -> Result<Locked<'_>, Busy> {
        self.ring.try_lock().map(|ring| Locked { ring, _after: After(self) })
    }

    /// Whether this thread is using it further up its stack. Then the caller is a handler, and must not use it.
    pub fn is_within(&self) -> bool {
        self.ring.is_here()
    }

    #[cold]
    fn leave_as_wished(&self) {
        if let Some(mut locked) = self.lock() {
            self.take_as_wished(&mut locked.ring);
        }
    }

    fn take_as_wished(&self, ring: &mut Option<Ring>) {
        let left = self.left.swap(LeaveRequest::Stay as u8, Ordering::Relaxed);
        let wish = [LeaveRequest::Leave, LeaveRequest::ShutAndLeave].into_iter().find(|wish| *wish as u8 == left);
        if let Some(wish) = wish
            && let Some(ring) = ring.take()
        {
            ring.tell(wish);
        }
    }

    pub(super) fn begin(&self, slot: StreamSlot, key: Key) {
        if let Some(mut locked) = self.lock() {
            self.take_as_wished(&mut locked.ring);
            slot.bank.word(slot.place, ROW, SOCKET).store(key.number().into(), Ordering::Relaxed);
            let datagrams = slot.target.map(|target| Datagrams::new(target, slot.bank.layout().ring_bytes()));
            let at = SlotMemory::new(slot.bank.clone(), slot.place);
            let of_bytes = if datagrams.is_some() { Key::NONE } else { key };
            *locked.ring = Some(Ring { slot, at, key, of_bytes, tail: 0, head: 0, more: false, datagrams });
        }
    }

    /// Calls `act` with the ring of this key. `None`: the ring is gone, or this thread is within another call.
    fn with<T>(&self, key: Key, act: impl FnOnce(&mut Ring) -> T) -> Option<T> {
        self.lock()?.of(key).map(act)
    }

    /// Accepts a message of one piece, if there surely is room for it.
    #[inline]
    pub fn offer(&self, key: Key, piece: Span<'_>, more: bool) -> Offered {
        let Ok(mut locked) = self.try_lock() else { return Offered::Not };
        let of_bytes = |ring: &&mut Ring| ring.of_bytes == key;
        let Some(ring) = locked.ring.as_mut().filter(of_bytes) else { return Offered::Not };
        if (ring.room() as usize) < piece.len() || ring.at.bell().is_armed() {
            return Offered::Not;
        }
        ring.at.write(ring.tail, &piece);
        ring.tail += piece.len() as u64;
        ring.more = more;
        if ring.publish() { Offered::Taken } else { Offered::Alone }
    }

    /// Must follow [`Offered::Alone`] for `taken` bytes: sends them, or finds that another thread has sent them.
    #[cold]
    pub fn fall_back(&self, key: Key, taken: usize) -> Sent {
        let Some(mut locked) = self.lock() else { return Sent::Taken(taken) };
        if locked.of(key).is_none_or(|ring| ring.datagrams.is_some()) {
            return Sent::Taken(taken);
        }
        locked.fall_back(key, taken, false)
    }

    /// Accepts the part of a message that fits. `pieces` have `len` bytes in all; `more`: further bytes
    /// follow immediately. `began`: the program's call has sent something, so it tells no error; the next one does.
    pub fn send<'m>(
        &self,
        key: Key,
        pieces: impl Iterator<Item = Span<'m>>,
        len: usize,
        more: bool,
        began: bool,
    ) -> Sent {
        let Some(mut locked) = self.lock() else { return Sent::Within };
        let Some(ring) = locked.of(key) else { return Sent::Left };
        let socket = ring.socket();
        if ring.datagrams.is_some() {
            return send_datagram(&mut locked.ring, socket, pieces, len, None);
        }
        if (ring.room() as usize) < len
            && let Err(sent) = ring.make_room(socket, len)
        {
            return locked.after(sent, began);
        }
        match ring.accept(socket, pieces, len, more) {
            Ok((taken, true)) => Sent::Taken(taken),
            Ok((taken, false)) => locked.fall_back(key, taken, began),
            Err(error) => {
                let failed = ring.failed(error);
                locked.after(failed, began)
            }
        }
    }

    /// Accepts a datagram to this address, on an unconnected socket.
    pub fn send_to<'m>(&self, key: Key, pieces: impl Iterator<Item = Span<'m>>, len: usize, to: &SocketAddr) -> Sent {
        let Some(mut locked) = self.lock() else { return Sent::Within };
        let Some(ring) = locked.of(key).filter(|ring| ring.datagrams.is_some()) else { return Sent::Left };
        let socket = ring.socket();
        send_datagram(&mut locked.ring, socket, pieces, len, Some(to))
    }

    /// Gives the ring's content to the kernel, and takes the connection out of the ring unless it is blocked. To a
    /// handler that interrupted this thread here, it is blocked. Also returns the bytes sent by this process, by the
    /// kernel's count; `None`: that count differs from the ring's, or is unknown. `tells`: the caller tells the program
    /// an error from the kernel; otherwise the connection stays in the ring until another caller does.
    pub fn settle(&self, key: Key, tells: bool) -> (Drained, Option<u64>) {
        let Some(mut locked) = self.lock() else { return (Drained::Blocked, None) };
        let Some(ring) = locked.of(key) else { return (Drained::Empty, None) };
        let drained = ring.drain(ring.socket());
        let sent = if drained == Drained::Empty { ring.sent() } else { None };
        if let Drained::Failed(error) = drained
            && !tells
        {
            ring.keep(error);
        } else if !drained.is_unfinished()
            && let Some(ring) = locked.ring.take()
        {
            ring.tell(LeaveRequest::Leave);
        }
        (drained, sent)
    }

    /// Gives the ring's content to the kernel, without leaving the ring. An error from the kernel is kept for the
    /// program's next call. [`Drained::Held`] also if a thread is using the stream.
    pub fn drain(&self, key: Key) -> Drained {
        let Ok(mut locked) = self.try_lock() else { return Drained::Held };
        let Some(ring) = locked.of(key) else { return Drained::Empty };
        let drained = ring.drain(ring.socket());
        if let Drained::Failed(error) = drained {
            ring.keep(error);
        }
        drained
    }

    /// Makes room in the kernel for the ring's content, within the kernel's limit.
    pub fn make_room(&self, key: Key) {
        let _ = self.with(key, |ring| {
            let waiting = ring.cursors().map_or(0, |cursors| cursors.waiting());
            tcp::make_room(ring.socket(), waiting);
        });
    }

    /// Gives the ring's content to the kernel, and then runs `call` with no transfer in between. `call` returns the
    /// number of bytes that the kernel accepted in it.
    ///
    /// # Errors
    /// `call` did not run: the ring could not be emptied, or is gone ([`Drained::Empty`]).
    pub fn with_kernel<T>(&self, key: Key, call: impl FnOnce() -> (T, usize)) -> Result<T, Drained> {
        let Some(mut locked) = self.lock() else { return Err(Drained::Blocked) };
        let Some(ring) = locked.of(key) else { return Err(Drained::Empty) };
        let done = ring.held(ring.socket(), |ring, socket| match ring.drain_held(socket) {
            Drained::Empty => {
                let (value, accepted) = call();
                ring.word(SHARED, BASE).fetch_add(accepted as u64, Ordering::Relaxed);
                ring.count(KERNEL_MESSAGES);
                Ok(value)
            }
            other => Err(other),
        });
        done.unwrap_or(Err(Drained::Held))
    }

    /// Before the descriptor is closed or shut: the service sends the rest of the ring, and this process if the service
    /// dies. If a handler interrupted this thread here, the stream is left afterwards.
    pub fn leave(&self, key: Key, wish: Leaving) {
        let Some(mut locked) = self.lock() else {
            let wish = if wish == Leaving::Shut { LeaveRequest::ShutAndLeave } else { LeaveRequest::Leave };
            return self.left.store(wish as u8, Ordering::Relaxed);
        };
        if let Some(left) = locked.ring.take_if(|ring| ring.key == key) {
            let socket = left.socket();
            left.leave(socket, wish);
        }
    }

    /// Resets the connection before its descriptor is closed, and discards the ring. `false`: a handler interrupted
    /// this thread here.
    pub fn abort(&self, key: Key) -> bool {
        let Some(mut locked) = self.lock() else { return false };
        if let Some(left) = locked.ring.take_if(|ring| ring.key == key) {
            let socket = left.socket();
            left.abort(socket);
        }
        true
    }

    /// After a close that the library did not see; the number may refer to another file now. The service sends the
    /// rest of the ring.
    pub fn detach(&self, key: Key) {
        if let Some(mut locked) = self.lock()
            && let Some(left) = locked.ring.take_if(|ring| ring.key == key)
        {
            left.tell(LeaveRequest::Leave);
        }
    }

    /// Accepted bytes that the kernel does not have yet.
    pub fn waiting(&self, key: Key) -> u32 {
        self.with(key, |ring| ring.cursors().map_or(0, |cursors| cursors.waiting())).unwrap_or(0)
    }

    /// Runs `count` while nothing moves from the ring to the kernel. Also returns the accepted bytes that the kernel
    /// does not have by then. While the service is stopped within a transfer, these may be in both counts.
    pub fn waiting_beside<T>(&self, key: Key, count: impl FnOnce() -> T) -> (T, u32) {
        let mut locked = self.lock();
        let Some(ring) = locked.as_mut().and_then(|locked| locked.of(key)) else { return (count(), 0) };
        let socket = ring.socket();
        let is_held = ring.hold(socket, &mut Backoff::default());
        let waiting = ring.cursors().map_or(0, |cursors| cursors.waiting());
        let counted = count();
        if is_held {
            ring.release();
        }
        (counted, waiting)
    }

    /// The kernel's error for this connection, as noted by the service; returned once.
    pub fn take_error(&self, key: Key) -> Option<Errno> {
        self.with(key, Ring::take_error).flatten()
    }

    /// Stores the reason for the socket's present path, for lists.
    pub fn note(&self, key: Key, why: PathReason) {
        let _ = self.with(key, |ring| {
            ring.word(ROW, WHY).store(reason_word(ring.slot.number, why), Ordering::Relaxed);
        });
    }

    /// The place of this ring.
    pub fn seated(&self, key: Key) -> Option<Seated> {
        self.with(key, |ring| ring.slot.seated())
    }

    /// Whether it is in a ring of this attachment, or may be: this thread is using it further up its stack.
    pub(super) fn is_in(&self, attachment: &Arc<Attachment>) -> bool {
        self.lock().is_none_or(|locked| locked.ring.as_ref().is_some_and(|ring| Arc::ptr_eq(&ring.slot.of, attachment)))
    }

    /// After the end of the attachment's service: gives accepted bytes to the kernel. `None`: a thread is using the
    /// stream, or the kernel has no room now; try again.
    pub(super) fn abandon(&self, of: &Arc<Attachment>) -> Option<()> {
        let mut ring = self.ring.try_lock().ok()?;
        let Some(own) = ring.as_mut().filter(|ring| Arc::ptr_eq(&ring.slot.of, of)) else { return Some(()) };
        match own.drain(own.socket()) {
            Drained::Blocked | Drained::Held => return None,
            Drained::Failed(error) => own.keep(error),
            Drained::Empty => *ring = None,
        }
        Some(())
    }
}

impl Ring {
    /// The program's socket. It is open: a close takes the ring first.
    pub(super) fn socket(&self) -> BorrowedFd<'static> {
        tcp::program_socket(self.key.number().cast_signed())
    }

    #[inline]
    fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        self.at.word(line, word)
    }

    #[inline]
    fn count(&self, word: usize) {
        sidecore_core::words::add(self.word(WRITER, word), 1);
    }

    #[inline]
    fn room(&self) -> u32 {
        self.at.size() - (self.tail - self.head) as u32
    }

    /// The present cursors. `None`: the shared word is invalid, because it went back or past the written bytes.
    fn cursors(&mut self) -> Option<Cursors> {
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
    fn publish(&self) -> bool {
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
    fn make_room(&mut self, socket: BorrowedFd<'_>, len: usize) -> Result<(), Sent> {
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

    fn failed(&self, error: Errno) -> Sent {
        self.tell(LeaveRequest::Leave);
        Sent::Failed(error)
    }

    /// Bytes sent through an empty ring, if the kernel's count agrees. The kernel does not count datagrams.
    fn sent(&self) -> Option<u64> {
        let sent = self.word(SHARED, BASE).load(Ordering::Relaxed).wrapping_add(self.tail);
        let is_counted = || tcp::accepted(self.socket()).is_ok_and(|accepted| accepted == sent);
        (self.datagrams.is_some() || is_counted()).then_some(sent)
    }

    /// The error to tell where the kernel answers with this one: it tells the reason once, and perhaps told it to the
    /// service.
    fn first_error(&mut self, error: Errno) -> Errno {
        self.take_error().unwrap_or(error)
    }

    fn take_error(&mut self) -> Option<Errno> {
        if let Some(error) = self.datagrams.as_mut().and_then(Datagrams::take_error) {
            return Some(error);
        }
        match self.word(SHARED, ERROR).swap(0, Ordering::Relaxed) {
            0 => None,
            error => i32::try_from(error).ok().map(Errno::from_raw_os_error),
        }
    }

    /// Keeps an error from the kernel for the program's next call.
    fn keep(&mut self, error: Errno) {
        match &mut self.datagrams {
            Some(datagrams) => datagrams.keep(error),
            None => self.word(SHARED, ERROR).store(error.raw_os_error().unsigned_abs().into(), Ordering::Relaxed),
        }
    }

    fn drain(&mut self, socket: BorrowedFd<'_>) -> Drained {
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
    fn held<T>(&mut self, socket: BorrowedFd<'_>, act: impl FnOnce(&mut Self, BorrowedFd<'_>) -> T) -> Option<T> {
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
    fn hold(&mut self, socket: BorrowedFd<'_>, backoff: &mut Backoff) -> bool {
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

    fn release(&mut self) {
        self.at.hold().release();
        // The sidecore may have found it held.
        let _ = self.ring();
    }

    fn drain_held(&mut self, socket: BorrowedFd<'_>) -> Drained {
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
