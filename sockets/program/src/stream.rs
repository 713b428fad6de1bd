//! One connection whose sending goes through a ring, of bytes or of datagrams.
//!
//! Streams are never freed but reused. Each ring has a [`Key`], and each call passes it: so a thread with an outdated
//! key, after another thread closed the socket or left the ring, reaches no other ring.

mod remains;

pub use self::remains::{Progress, Remains};
pub use super::ring::{Drained, Leaving, Sent};

use super::attachment::{Attachment, StreamSlot};
use super::backoff::Backoff;
use super::protocol::Seated;
use super::ring::{AdoptedRings, Ring, send_datagram};
use crate::sys::lock::{Busy, Guard, ThreadLock};
use crate::sys::tcp;
use rustix::io::Errno;
use sidecore_ipc::shm::span::Span;
use sidecore_streams::layout::{BASE, KERNEL_MESSAGES, ROW, SHARED, SOCKET, WHY, reason_word};
use sidecore_streams::place::LeaveRequest;
use sidecore_streams::rule::PathReason;
use sidecore_streams::slot::Key;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

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

/// A connection in a ring, or a former one.
#[derive(Debug, Default)]
pub struct Stream {
    ring: ThreadLock<Option<Ring>>,
    /// Set by a handler that interrupted work on the stream and left it: its wish, other than [`LeaveRequest::Stay`].
    left: AtomicU8,
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

    /// `adopted`: where the ring goes if bytes are left in it.
    pub(super) fn begin(&self, slot: StreamSlot, key: Key, adopted: Arc<AdoptedRings>) {
        if let Some(mut locked) = self.lock() {
            self.take_as_wished(&mut locked.ring);
            slot.bank.word(slot.place, ROW, SOCKET).store(key.number().into(), Ordering::Relaxed);
            *locked.ring = Some(Ring::new(slot, key, adopted));
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
        if locked.of(key).is_none_or(|ring| ring.is_of_datagrams()) {
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
        if ring.is_of_datagrams() {
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
        let Some(ring) = locked.of(key).filter(|ring| ring.is_of_datagrams()) else { return Sent::Left };
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
