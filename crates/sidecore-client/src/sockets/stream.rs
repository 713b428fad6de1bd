//! One connection whose sending goes through a ring, of bytes or of [`datagrams`].
//!
//! Objects of this type are never freed but used again. A ring has a [`Key`], which each call names: a thread that still has
//! the object after another thread closed the socket, or took it out of its ring, reaches no other ring.

mod datagrams;
mod leaving;
mod own;
mod remains;

pub use self::remains::{Progress, Remains};

use self::datagrams::{Datagrams, send_datagram};
use super::attachment::{Attachment, Seat};
use super::patience::Patience;
use super::protocol::Seated;
use crate::shm::PlaceMemory;
use crate::shm::span::Span;
use crate::sys::lock::{Busy, Guard, ThreadLock};
use crate::sys::tcp;
use rustix::io::Errno;
use sidecore_core::streams::bell::Rung;
use sidecore_core::streams::cursor::{Cursors, word};
use sidecore_core::streams::hold::Holder;
use sidecore_core::streams::layout::{
    BASE, DRAINS, ERROR, HEAD, KERNEL_MESSAGES, LINGER, MESSAGES, ROW, SHARED, SOCKET, TAIL, WHY, WRITER, why_word,
};
use sidecore_core::streams::place::Wish;
use sidecore_core::streams::rule::Why;
use sidecore_core::streams::slot::Key;
use sidecore_core::sync::AtomicU64;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many of its bytes are accepted. Not all: the ring, and the kernel behind it, hold no more now.
    Taken(usize),
    /// The kernel takes nothing now, and says when it does.
    Full,
    /// The connection is on the kernel's path again, with all that was accepted before.
    Left,
    /// The kernel reported this for bytes that were accepted before. The connection is on the kernel's path again.
    Failed(Errno),
    /// This thread is within another call on the stream: it is a signal's handler.
    Within,
}

/// What became of a message of one piece that was offered without waiting. A byte: it stays in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// All of it is accepted.
    Taken,
    /// The same, and nobody empties the ring any more: [`Stream::go_on_alone`] is to be called.
    Alone,
    /// Nothing was done: ask [`Stream::send`].
    Not,
}

/// What of a ring is the kernel's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// All.
    Empty,
    /// Not all: the kernel takes nothing now.
    Blocked,
    /// The kernel reported this, and the rest is of no use any more.
    Failed(Errno),
}

/// A connection in a ring, or one that was.
#[derive(Debug, Default)]
pub struct Stream {
    ring: ThreadLock<Option<Ring>>,
    /// What a handler wished that interrupted whoever is at work on it: another than [`Wish::Stay`] when it left.
    left: AtomicU8,
}

/// What is known of the ring, while there is one.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) seat: Seat,
    /// The seat's memory.
    at: PlaceMemory,
    pub(super) key: Key,
    /// The key where the ring is of bytes, else none: [`Stream::offer`] asks for both by one comparison.
    of_bytes: Key,
    /// Bytes written.
    tail: u64,
    /// Bytes known to be moved.
    head: u64,
    /// Whether more follows the last message at once.
    more: bool,
    /// It holds those, and not bytes.
    datagrams: Option<Datagrams>,
}

/// A stream that this thread is at work on.
struct Locked<'a> {
    ring: Guard<'a, Option<Ring>>,
    /// Dropped last.
    _after: After<'a>,
}

/// What comes after a thread's work on a stream, when it has given the lock back.
struct After<'a>(&'a Stream);

impl Drop for After<'_> {
    #[inline]
    fn drop(&mut self) {
        // From now on a handler leaves by itself.
        compiler_fence(Ordering::SeqCst);
        if self.0.left.load(Ordering::Relaxed) != Wish::Stay as u8 {
            self.0.leave_as_wished();
        }
    }
}

impl Locked<'_> {
    /// The ring of that key.
    #[inline]
    fn of(&mut self, key: Key) -> Option<&mut Ring> {
        self.ring.as_mut().filter(|ring| ring.key == key)
    }

    /// Nobody empties the ring any more, and `taken` bytes were just written.
    #[cold]
    fn go_on_alone(&mut self, key: Key, taken: usize) -> Sent {
        let Some(ring) = self.of(key) else { return Sent::Left };
        let socket = ring.socket();
        let sent = ring.go_on_alone(socket, taken);
        if ring.is_over(socket) {
            *self.ring = None;
        }
        sent
    }
}

impl Stream {
    /// `None`: this thread has it already, further up its stack.
    fn lock(&self) -> Option<Locked<'_>> {
        let mut patience = Patience::default();
        loop {
            match self.try_lock() {
                Ok(locked) => return Some(locked),
                Err(Busy::Here) => return None,
                Err(Busy::Elsewhere) => patience.wait(),
            };
        }
    }

    #[inline]
    fn try_lock(&self) -> Result<Locked<'_>, Busy> {
        self.ring.try_lock().map(|ring| Locked { ring, _after: After(self) })
    }

    /// Whether this thread is at work on it, further up its stack: then this is a handler, and nothing can be done with it.
    pub fn is_within(&self) -> bool {
        self.ring.is_here()
    }

    /// A handler left while its thread was at work on the stream.
    #[cold]
    fn leave_as_wished(&self) {
        if let Some(mut locked) = self.lock() {
            self.take_as_wished(&mut locked.ring);
        }
    }

    fn take_as_wished(&self, ring: &mut Option<Ring>) {
        let left = self.left.swap(Wish::Stay as u8, Ordering::Relaxed);
        let wish = [Wish::Leave, Wish::ShutAndLeave].into_iter().find(|wish| *wish as u8 == left);
        if let Some(wish) = wish
            && let Some(ring) = ring.take()
        {
            ring.tell(wish);
        }
    }

    /// A ring begins here, of a stream that this thread is not at work on.
    pub(super) fn begin(&self, seat: Seat, key: Key) {
        if let Some(mut locked) = self.lock() {
            self.take_as_wished(&mut locked.ring);
            seat.bank.word(seat.place, ROW, SOCKET).store(key.number().into(), Ordering::Relaxed);
            let datagrams = seat.target.map(|target| Datagrams::new(target, seat.bank.layout().ring_bytes()));
            let at = PlaceMemory::new(seat.bank.clone(), seat.place);
            let of_bytes = if datagrams.is_some() { Key::NONE } else { key };
            *locked.ring = Some(Ring { seat, at, key, of_bytes, tail: 0, head: 0, more: false, datagrams });
        }
    }

    /// Calls `act` with the ring of that key. `None`: the ring is gone, or this thread is within another call.
    fn with<T>(&self, key: Key, act: impl FnOnce(&mut Ring) -> T) -> Option<T> {
        self.lock()?.of(key).map(act)
    }

    /// Accepts a message of one piece, where there surely is room for it.
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

    /// After [`Offered::Alone`] for so many bytes: what becomes of them. Whoever came between has sent them as well.
    #[cold]
    pub fn go_on_alone(&self, key: Key, taken: usize) -> Sent {
        let Some(mut locked) = self.lock() else { return Sent::Taken(taken) };
        if locked.of(key).is_none_or(|ring| ring.datagrams.is_some()) {
            return Sent::Taken(taken);
        }
        locked.go_on_alone(key, taken)
    }

    /// Accepts what there is room for of a message, whose `pieces` have `len` bytes in all; `more`: more follows at once.
    pub fn send<'m>(&self, key: Key, pieces: impl Iterator<Item = Span<'m>>, len: usize, more: bool) -> Sent {
        let Some(mut locked) = self.lock() else { return Sent::Within };
        let Some(ring) = locked.of(key) else { return Sent::Left };
        let socket = ring.socket();
        if ring.datagrams.is_some() {
            return send_datagram(&mut locked.ring, socket, pieces, len, None);
        }
        if (ring.room() as usize) < len
            && let Err(sent) = ring.make_room(socket, len)
        {
            if !matches!(sent, Sent::Full) {
                *locked.ring = None;
            }
            return sent;
        }
        match ring.accept(socket, pieces, len, more) {
            Ok((taken, true)) => Sent::Taken(taken),
            Ok((taken, false)) => locked.go_on_alone(key, taken),
            Err(error) => {
                let failed = ring.failed(error);
                *locked.ring = None;
                failed
            }
        }
    }

    /// Accepts a datagram to that address, on a socket that is connected to nobody.
    pub fn send_to<'m>(&self, key: Key, pieces: impl Iterator<Item = Span<'m>>, len: usize, to: &SocketAddr) -> Sent {
        let Some(mut locked) = self.lock() else { return Sent::Within };
        let Some(ring) = locked.of(key).filter(|ring| ring.datagrams.is_some()) else { return Sent::Left };
        let socket = ring.socket();
        send_datagram(&mut locked.ring, socket, pieces, len, Some(to))
    }

    /// Gives to the kernel what waits in the ring, and the connection goes on without one, with nothing between, unless it is
    /// blocked. A handler that interrupted this thread while it was at it finds it blocked. Returns as well how many bytes
    /// this process sent, by the kernel's count; `None`: that is another than the ring's, or is not known.
    pub fn settle(&self, key: Key) -> (Drained, Option<u64>) {
        let Some(mut locked) = self.lock() else { return (Drained::Blocked, None) };
        let Some(ring) = locked.of(key) else { return (Drained::Empty, None) };
        let drained = ring.drain(ring.socket());
        let sent = if drained == Drained::Empty { ring.sent() } else { None };
        if drained != Drained::Blocked
            && let Some(ring) = locked.ring.take()
        {
            ring.tell(Wish::Leave);
        }
        (drained, sent)
    }

    /// Gives to the kernel what waits in the ring, which it stays in.
    #[cfg(test)]
    pub(super) fn drain(&self, key: Key) -> Drained {
        self.with(key, |ring| ring.drain(ring.socket())).unwrap_or(Drained::Empty)
    }

    /// Makes room in the kernel for what waits in the ring, where its limit allows that.
    pub fn make_room(&self, key: Key) {
        let _ = self.with(key, |ring| {
            let waiting = ring.cursors().map_or(0, |cursors| cursors.waiting());
            tcp::make_room(ring.socket(), waiting);
        });
    }

    /// Gives to the kernel what waits in the ring, and then calls it with nothing between. `call` returns how many bytes
    /// the kernel accepted beside.
    ///
    /// # Errors
    /// Nothing was called: the ring could not be emptied, or is gone ([`Drained::Empty`]).
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
        done.unwrap_or(Err(Drained::Blocked))
    }

    /// The descriptor is about to be closed, or to be shut as wished: what still waits in the ring is sent by the service,
    /// which then does as wished. Where a handler interrupted this thread while it was at it, the stream is left afterwards.
    pub fn leave(&self, key: Key, wish: Wish) {
        let Some(mut locked) = self.lock() else { return self.left.store(wish as u8, Ordering::Relaxed) };
        if let Some(left) = locked.ring.take_if(|ring| ring.key == key) {
            let socket = left.socket();
            left.leave(socket, wish);
        }
    }

    /// The descriptor was closed by a call that nobody saw, and its number may be another's by now: what still waits in the
    /// ring is sent by the service.
    pub fn forsake(&self, key: Key) {
        if let Some(mut locked) = self.lock()
            && let Some(left) = locked.ring.take_if(|ring| ring.key == key)
        {
            left.tell(Wish::Leave);
        }
    }

    /// Bytes that were accepted and that the kernel does not have yet.
    pub fn waiting(&self, key: Key) -> u32 {
        self.with(key, |ring| ring.cursors().map_or(0, |cursors| cursors.waiting())).unwrap_or(0)
    }

    /// What the kernel reported to the service for this connection, once.
    pub fn take_error(&self, key: Key) -> Option<Errno> {
        self.with(key, Ring::take_error).flatten()
    }

    /// Says for people why it is where it is.
    pub fn note(&self, key: Key, why: Why) {
        let _ = self.with(key, |ring| {
            ring.word(ROW, WHY).store(why_word(ring.seat.number, why), Ordering::Relaxed);
        });
    }

    /// The place of that ring.
    pub fn seated(&self, key: Key) -> Option<Seated> {
        self.with(key, |ring| ring.seat.seated())
    }

    /// Whether it is in a ring of that attachment, or may be: this thread is at work on it, further up its stack.
    pub(super) fn is_in(&self, attachment: &Arc<Attachment>) -> bool {
        self.lock().is_none_or(|locked| locked.ring.as_ref().is_some_and(|ring| Arc::ptr_eq(&ring.seat.of, attachment)))
    }

    /// The service of that attachment has ended: what it had accepted goes to the kernel. `None`: somebody is at work on
    /// the stream, or the kernel takes nothing now; ask again.
    pub(super) fn abandon(&self, of: &Arc<Attachment>) -> Option<()> {
        let mut ring = self.ring.try_lock().ok()?;
        let Some(own) = ring.as_mut().filter(|ring| Arc::ptr_eq(&ring.seat.of, of)) else { return Some(()) };
        match own.drain(own.socket()) {
            Drained::Blocked => return None,
            // The program's next call is told.
            Drained::Failed(error) if own.keeps(error) => {}
            Drained::Empty | Drained::Failed(_) => *ring = None,
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

    /// Bytes that surely fit.
    #[inline]
    fn room(&self) -> u32 {
        self.at.size() - (self.tail - self.head) as u32
    }

    /// How far it was moved by now. `None`: the shared word cannot be, as it went back or past what was written.
    fn cursors(&mut self) -> Option<Cursors> {
        let head = self.word(SHARED, HEAD).load(Ordering::Acquire);
        if !(self.head..=self.tail).contains(&head) {
            return None;
        }
        let cursors = Cursors::read(head, word(self.tail, self.more), self.at.size()).ok()?;
        self.head = head;
        Some(cursors)
    }

    /// Copies what fits. Returns how much that is.
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

    /// Has the sidecore know of what was written. `false`: there is none any more.
    #[inline]
    fn publish(&self) -> bool {
        self.publish_unheard();
        self.ring()
    }

    /// The same without waking the sidecore.
    #[inline]
    fn publish_unheard(&self) {
        self.count(MESSAGES);
        // Release: who sees the cursor sees the bytes.
        self.word(WRITER, TAIL).store(word(self.tail, self.more), Ordering::Release);
    }

    #[inline]
    fn ring(&self) -> bool {
        match self.at.bell().ring() {
            Rung::Watched => true,
            Rung::Announce => self.seat.announce(),
            Rung::Shut => false,
        }
    }

    /// Makes room for so many bytes, or for some where the kernel takes no more. Err: there is none, or no ring any more.
    #[cold]
    fn make_room(&mut self, socket: BorrowedFd<'_>, len: usize) -> Result<(), Sent> {
        // While the sidecore is at it there is room soon, and without a system call of ours.
        let mut patience = Patience::default();
        while self.at.hold().holder() == Some(Holder::Sidecore) && !self.seat.of.is_gone() && !patience.is_over() {
            if self.cursors().is_some() && self.room() as usize >= len {
                return Ok(());
            }
            patience.wait();
        }
        if self.cursors().is_some() && self.room() as usize >= len {
            return Ok(());
        }
        match self.drain(socket) {
            Drained::Failed(error) => return Err(self.failed(error)),
            Drained::Blocked if self.room() == 0 => return Err(Sent::Full),
            Drained::Empty | Drained::Blocked => {}
        }
        Ok(())
    }

    /// The kernel reported this to the program, by way of its ring.
    fn failed(&self, error: Errno) -> Sent {
        self.tell(Wish::Leave);
        Sent::Failed(error)
    }

    /// Of an empty ring: bytes sent, if the kernel's count is the ring's. The kernel does not count datagrams.
    fn sent(&self) -> Option<u64> {
        let sent = self.word(SHARED, BASE).load(Ordering::Relaxed).wrapping_add(self.tail);
        let is_counted = || tcp::accepted(self.socket()).is_ok_and(|accepted| accepted == sent);
        (self.datagrams.is_some() || is_counted()).then_some(sent)
    }

    /// Nobody empties the ring any more, and `taken` bytes were just written.
    #[cold]
    fn go_on_alone(&mut self, socket: BorrowedFd<'_>, taken: usize) -> Sent {
        if let Some(error) = self.take_error() {
            return self.failed(error);
        }
        match self.drain(socket) {
            Drained::Failed(error) => self.failed(error),
            Drained::Empty | Drained::Blocked => Sent::Taken(taken),
        }
    }

    /// Whether nothing is left of a ring that nobody empties any more.
    fn is_over(&mut self, socket: BorrowedFd<'_>) -> bool {
        self.drain(socket) != Drained::Blocked
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

    fn drain(&mut self, socket: BorrowedFd<'_>) -> Drained {
        // Of datagrams there may be something to tell when all are moved.
        let is_empty = self.datagrams.is_none() && self.cursors().is_some_and(|cursors| cursors.waiting() == 0);
        let drained =
            if is_empty { Drained::Empty } else { self.held(socket, Self::drain_held).unwrap_or(Drained::Blocked) };
        if self.datagrams.is_none() && self.is_alone() {
            match drained {
                Drained::Empty => tcp::end_in_order(socket, self.word(SHARED, LINGER)),
                Drained::Blocked => tcp::reset_at_close(socket, self.word(SHARED, LINGER)),
                Drained::Failed(_) => {}
            }
        }
        drained
    }

    /// Calls `act` while the program holds the stream. `None`: its sidecore is stopped in the middle of a transfer. It lives,
    /// and only it knows which bytes it will still send.
    fn held<T>(&mut self, socket: BorrowedFd<'_>, act: impl FnOnce(&mut Self, BorrowedFd<'_>) -> T) -> Option<T> {
        if !self.hold(socket) {
            return None;
        }
        let done = act(self, socket);
        self.release();
        Some(done)
    }

    /// Takes the stream from its sidecore, also from one that ended in the middle of a transfer. False: it does not give it.
    fn hold(&mut self, socket: BorrowedFd<'_>) -> bool {
        let hold = self.at.hold();
        let mut patience = Patience::default();
        while !hold.take(Holder::Program) {
            if patience.is_over() {
                return false;
            }
            if !patience.wait() {
                continue;
            }
            // Long for one system call.
            if self.seat.of.is_gone() {
                let recovered = self.seat.recover(socket, word(self.tail, self.more));
                // Whoever wrote something else there is gone as well.
                let _ = hold.take_over(Holder::Sidecore, Holder::Program);
                if recovered.is_none() {
                    // Neither what was moved nor what was not: the peer must not take one for the other.
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
                Err(error) => return Drained::Failed(error),
            }
        }
    }
}
