//! One descriptor number as a program's library knows it: a word that all threads and signal handlers change.
//!
//! A number is used again for one socket after the other, and a socket may enter one ring after the other. The word
//! counts both. A [`Ticket`] holds these counts as one look found them. Each change of a state names its ticket, and
//! fails if the ticket's socket or ring is gone.

use sidecore_core::sync::{AtomicU64, Ordering};

/// State of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum SlotState {
    /// Unknown: the kernel's.
    Unknown = 0,
    /// The kernel's for as long as the socket is open.
    Kernel = 1,
    /// A socket on the kernel's path, which may enter a ring.
    Made = 2,
    /// One thread is promoting the socket.
    Entering = 3,
    /// In a ring.
    Ring = 4,
    /// In a ring that takes no more messages, and is not empty yet.
    Leaving = 5,
    /// The service shuts the sending side when the ring is empty.
    Shut = 6,
    /// In a forked child: the bytes of the parent's ring come first.
    Behind = 7,
}

const STATE: u64 = 0b111;
/// A thread sent by the kernel while the state was [`SlotState::Entering`].
const DISTURBED: u64 = 1 << 3;
/// The state after the ring is [`SlotState::Kernel`], not [`SlotState::Made`].
const PINNED: u64 = 1 << 4;
/// The socket was in a ring: the service may still have it open.
const PROMOTED: u64 = 1 << 5;
const DATAGRAMS: u64 = 1 << 6;
const FLAGS: u64 = 0xff;
/// Count of rings, 16 bits: it is compared within one call.
const ONE_RING: u64 = 1 << 8;
const RINGS: u64 = 0xffff << 8;
/// Count of sockets, 24 bits.
const ONE_SOCKET: u64 = 1 << 24;
const SOCKETS: u64 = 0xff_ffff << 24;
/// Count of threads that send by the kernel.
const ONE_SENDER: u64 = 1 << 48;
const SENDERS: u64 = 0xffff << 48;

/// One socket of a number, and one ring of that socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// True if both name the same socket, perhaps in different rings.
    #[inline]
    pub fn is_same_socket(self, other: Self) -> bool {
        (self.0 ^ other.0) & SOCKETS == 0
    }
}

/// A ring's owner: descriptor number and ticket. The keys of a process's rings are distinct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// No ring has this key.
    pub const NONE: Self = Self(u64::MAX);

    /// The key of a descriptor below 2^20.
    #[inline]
    pub fn new(number: u32, ticket: Ticket) -> Self {
        Self(u64::from(number) << 40 | ticket.0 >> 8)
    }

    /// The descriptor's number.
    #[inline]
    pub fn number(self) -> u32 {
        (self.0 >> 40) as u32
    }
}

/// The word as one load found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look(u64);

impl Look {
    /// The state.
    #[inline]
    pub fn state(self) -> SlotState {
        match self.0 & STATE {
            1 => SlotState::Kernel,
            2 => SlotState::Made,
            3 => SlotState::Entering,
            4 => SlotState::Ring,
            5 => SlotState::Leaving,
            6 => SlotState::Shut,
            7 => SlotState::Behind,
            _ => SlotState::Unknown,
        }
    }

    /// Socket and ring.
    #[inline]
    pub fn ticket(self) -> Ticket {
        Ticket(self.0 & (SOCKETS | RINGS))
    }

    /// True if the socket may enter a ring, or has one.
    #[inline]
    pub fn is_watched(self) -> bool {
        self.0 & STATE > SlotState::Kernel as u64
    }

    /// True if the socket has a ring.
    #[inline]
    pub fn is_in_ring(self) -> bool {
        matches!(self.state(), SlotState::Ring | SlotState::Leaving)
    }

    /// True if the ring takes messages, as bytes.
    #[inline]
    pub fn takes_bytes(self) -> bool {
        self.0 & (STATE | DATAGRAMS) == SlotState::Ring as u64
    }

    /// True if the service may have the socket open, so that a close by the program is not the connection's end.
    #[inline]
    pub fn was_in_ring(self) -> bool {
        self.0 & PROMOTED != 0
    }

    /// True if the socket sends datagrams.
    #[inline]
    pub fn is_of_datagrams(self) -> bool {
        self.0 & DATAGRAMS != 0
    }
}

/// The word of one descriptor number.
#[derive(Debug)]
pub struct SlotWord(AtomicU64);

impl SlotWord {
    /// A number without a known socket.
    #[cfg(not(loom))]
    #[expect(clippy::new_without_default, reason = "a table of them is static memory")]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The same for a model.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The word now.
    #[inline]
    pub fn look(&self) -> Look {
        Look(self.0.load(Ordering::Acquire))
    }

    /// The process made a socket of this number. Senders of the earlier socket stay counted.
    pub fn make(&self) {
        self.update(|word| Some(next(word, ONE_SOCKET, SOCKETS) & !FLAGS | SlotState::Made as u64));
    }

    /// The socket is about to be closed: the number becomes unknown. Returns the word before. If it names a ring,
    /// only the caller ends that.
    pub fn forget(&self) -> Look {
        self.update(|word| Some(next(word, ONE_SOCKET, SOCKETS) & !FLAGS)).unwrap_or(self.look())
    }

    /// In a forked child, without other threads. [`SlotState::Kernel`] stays: sockets accepted here would have its options.
    pub fn clear(&self) {
        self.update(|word| {
            let state = if word & STATE == SlotState::Kernel as u64 { word & STATE } else { 0 };
            Some(next(word, ONE_SOCKET, SOCKETS) & !(FLAGS | SENDERS) | state)
        });
    }

    /// In a forked child, behind its parent's ring.
    pub fn begin_behind(&self) {
        self.update(|word| (word & STATE == SlotState::Unknown as u64).then_some(word | SlotState::Behind as u64));
    }

    /// The parent's ring is empty: that socket is the kernel's.
    pub fn end_behind(&self, of: Ticket) {
        self.update(|word| {
            let is_right = word & STATE == SlotState::Behind as u64 && Look(word).ticket().is_same_socket(of);
            is_right.then_some(word & !STATE | SlotState::Kernel as u64)
        });
    }

    /// The socket sends datagrams.
    pub fn sends_datagrams(&self) {
        self.0.fetch_or(DATAGRAMS, Ordering::SeqCst);
    }

    /// Counts a thread that sends by the kernel, unless the socket has a ring. The thread was counted if the look's
    /// state is [`SlotState::Made`] or [`SlotState::Entering`]. It then calls [`SlotWord::exit`] after its send.
    #[inline]
    pub fn enter(&self) -> Look {
        loop {
            let look = self.look();
            if !matches!(look.state(), SlotState::Made | SlotState::Entering) {
                return look;
            }
            let before = Look(self.0.fetch_add(ONE_SENDER, Ordering::AcqRel));
            match before.state() {
                SlotState::Made => return before,
                SlotState::Entering => {
                    self.0.fetch_or(DISTURBED, Ordering::AcqRel);
                    return before;
                }
                _ => self.exit(),
            }
        }
    }

    /// A counted thread has sent.
    #[inline]
    pub fn exit(&self) {
        self.0.fetch_sub(ONE_SENDER, Ordering::Release);
    }

    /// A counted thread is about to promote that socket. Returns the ticket of the future ring. `None`: the socket is
    /// another, other threads send on it, or one is promoting it.
    pub fn begin_entering(&self, of: Ticket) -> Option<Ticket> {
        let begin = |word: u64| {
            let only = word & STATE == SlotState::Made as u64 && word & SENDERS == ONE_SENDER;
            let is_right = only && Look(word).ticket().is_same_socket(of);
            is_right.then(|| next(word, ONE_RING, RINGS) & !(STATE | DISTURBED) | SlotState::Entering as u64)
        };
        let before = self.update(begin)?;
        Some(Look(next(before.0, ONE_RING, RINGS)).ticket())
    }

    /// The socket is in that ring, and the thread is not counted any more. False: a thread sent meanwhile, pinned the
    /// socket or closed it.
    #[must_use]
    pub fn is_entered(&self, ring: Ticket) -> bool {
        let enter = |word: u64| {
            let is_right = word & (STATE | DISTURBED) == SlotState::Entering as u64 && Look(word).ticket() == ring;
            is_right.then(|| (word & !STATE | PROMOTED | SlotState::Ring as u64).wrapping_sub(ONE_SENDER))
        };
        self.update(enter).is_some()
    }

    /// The promotion failed; `to`: [`SlotState::Made`] or [`SlotState::Kernel`].
    pub fn stop_entering(&self, ring: Ticket, to: SlotState) {
        self.update(|word| {
            let is_right = word & STATE == SlotState::Entering as u64 && Look(word).ticket() == ring;
            is_right.then_some(word & !STATE | to as u64)
        });
    }

    /// The ring of that socket takes no more messages. Returns the word after.
    pub fn leave(&self, of: Ticket) -> Look {
        let leave = |word: u64| {
            let is_right = word & STATE == SlotState::Ring as u64 && Look(word).ticket().is_same_socket(of);
            is_right.then_some(word & !STATE | SlotState::Leaving as u64)
        };
        self.update(leave).map_or_else(|| self.look(), |before| Look(leave(before.0).unwrap_or(before.0)))
    }

    /// That ring is empty and gone: the socket is on the kernel's path. True for one caller, which alone has the
    /// stream.
    #[must_use]
    pub fn has_left(&self, ring: Ticket) -> bool {
        let left = |word: u64| {
            let to = if word & PINNED == 0 { SlotState::Made } else { SlotState::Kernel };
            let is_right = Look(word).is_in_ring() && Look(word).ticket() == ring;
            is_right.then_some(word & !STATE | to as u64)
        };
        self.update(left).is_some()
    }

    /// The service shuts the sending side after that ring. True for one caller, which alone has the stream.
    #[must_use]
    pub fn is_shut(&self, ring: Ticket) -> bool {
        let shut = |word: u64| {
            let is_right = word & STATE == SlotState::Leaving as u64 && Look(word).ticket() == ring;
            is_right.then_some(word & !STATE | SlotState::Shut as u64)
        };
        self.update(shut).is_some()
    }

    /// That socket is the kernel's until it is closed, or will be after its ring.
    pub fn pin(&self, of: Ticket) {
        self.update(|word| {
            if !Look(word).ticket().is_same_socket(of) {
                return None;
            }
            match Look(word).state() {
                SlotState::Made | SlotState::Entering => Some(word & !STATE | SlotState::Kernel as u64),
                SlotState::Ring | SlotState::Leaving | SlotState::Shut => Some(word | PINNED),
                SlotState::Unknown | SlotState::Kernel | SlotState::Behind => None,
            }
        });
    }

    fn update(&self, change: impl Fn(u64) -> Option<u64>) -> Option<Look> {
        self.0.fetch_update(Ordering::SeqCst, Ordering::Acquire, change).ok().map(Look)
    }
}

fn next(word: u64, one: u64, field: u64) -> u64 {
    word & !field | word.wrapping_add(one) & field
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn made() -> SlotWord {
        let slot = SlotWord::new();
        slot.make();
        slot
    }

    fn promoted() -> (SlotWord, Ticket) {
        let slot = made();
        let ring = slot.begin_entering(slot.enter().ticket()).unwrap();
        assert!(slot.is_entered(ring));
        (slot, ring)
    }

    #[test]
    fn a_ring_is_entered_by_a_thread_that_is_alone() {
        let slot = made();
        let look = slot.enter();
        assert_eq!((look.state(), slot.enter().state()), (SlotState::Made, SlotState::Made));
        assert!(slot.begin_entering(look.ticket()).is_none());
        slot.exit();
        let ring = slot.begin_entering(look.ticket()).unwrap();
        assert!(ring != look.ticket() && ring.is_same_socket(look.ticket()));
        assert!(slot.is_entered(ring));
        let look = slot.enter();
        assert!(look.takes_bytes() && look.was_in_ring() && look.ticket() == ring);
        assert_eq!(slot.leave(ring).state(), SlotState::Leaving);
        assert!(slot.has_left(ring) && !slot.has_left(ring));
        assert_eq!(slot.look().state(), SlotState::Made);
    }

    #[test]
    fn a_sender_meanwhile_keeps_the_socket_out_of_the_ring() {
        let slot = made();
        let ring = slot.begin_entering(slot.enter().ticket()).unwrap();
        assert_eq!(slot.enter().state(), SlotState::Entering);
        slot.exit();
        assert!(!slot.is_entered(ring));
        slot.stop_entering(ring, SlotState::Made);
        assert!(slot.begin_entering(ring).is_some(), "the next time");
    }

    #[test]
    fn a_ticket_of_the_socket_before_changes_nothing() {
        let (slot, old) = promoted();
        assert!(slot.forget().is_in_ring() && !slot.forget().is_in_ring());
        slot.make();
        let ring = slot.begin_entering(slot.enter().ticket()).unwrap();
        assert!(!slot.is_entered(old) && slot.is_entered(ring));
        slot.pin(old);
        assert_eq!(slot.leave(old).state(), SlotState::Ring);
        assert!(!slot.has_left(old) && !old.is_same_socket(ring));
        slot.leave(ring);
        assert!(!slot.is_shut(old) && slot.is_shut(ring) && !slot.is_shut(ring));
    }

    #[test]
    fn a_ticket_of_the_ring_before_does_not_end_the_next() {
        let (slot, old) = promoted();
        slot.leave(old);
        assert!(slot.has_left(old));
        let ring = slot.begin_entering(slot.enter().ticket()).unwrap();
        assert!(slot.is_entered(ring));
        assert!(!slot.has_left(old), "the first thread comes late");
        assert_ne!(Key::new(7, old), Key::new(7, ring));
        assert_eq!(Key::new((1 << 20) - 1, ring).number(), (1 << 20) - 1);
        assert_ne!(Key::new((1 << 20) - 1, Ticket(SOCKETS | RINGS)), Key::NONE);
    }

    #[test]
    fn a_pinned_socket_stays_the_kernels_after_its_ring() {
        let (slot, ring) = promoted();
        slot.pin(ring);
        assert!(slot.look().takes_bytes(), "until it has left");
        slot.leave(ring);
        assert!(slot.has_left(ring));
        assert_eq!(slot.look().state(), SlotState::Kernel);
        slot.clear();
        assert_eq!(slot.look().state(), SlotState::Kernel, "in a child too");
        slot.make();
        slot.clear();
        assert_eq!(slot.look().state(), SlotState::Unknown);
    }

    #[test]
    fn a_child_behind_its_parents_ring_goes_on_by_the_kernel() {
        let (slot, ring) = promoted();
        slot.clear();
        slot.begin_behind();
        let look = slot.enter();
        assert!(look.state() == SlotState::Behind && look.is_watched() && !look.is_in_ring());
        slot.end_behind(ring);
        slot.pin(look.ticket());
        assert_eq!(slot.look().state(), SlotState::Behind, "the parent's ticket is another");
        slot.end_behind(look.ticket());
        assert_eq!(slot.look().state(), SlotState::Kernel);
    }

    #[test]
    fn senders_of_a_closed_socket_are_counted_on_the_next() {
        let slot = made();
        slot.enter();
        slot.forget();
        assert_eq!(slot.enter().state(), SlotState::Unknown);
        slot.make();
        let look = slot.enter();
        assert!(slot.begin_entering(look.ticket()).is_none());
        slot.exit();
        assert!(slot.begin_entering(look.ticket()).is_some());
    }

    #[test]
    fn counts_do_not_carry_into_each_other() {
        let full = SlotWord(AtomicU64::new(RINGS | SOCKETS | ONE_SENDER | SlotState::Made as u64));
        let ring = full.begin_entering(full.look().ticket()).unwrap();
        assert_eq!(full.look().0 & (SOCKETS | SENDERS), SOCKETS | ONE_SENDER);
        assert!(full.is_entered(ring));
        full.forget();
        assert_eq!(full.look().0, 0);
    }
}
