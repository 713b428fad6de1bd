//! The state of one descriptor number, in words that all threads and signal handlers may change at any time.

use sidecore_sockets::protocol::Seated;
use sidecore_sockets::stream::{Remains, Stream};
use sidecore_streams::rule::{PathReason, Rule};
use sidecore_streams::slot::SlotWord;
use std::os::fd::RawFd;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Added to an unknown count. Larger than any connection's bytes.
const UNKNOWN: u64 = 1 << 63;
/// In place of the set: the number is a copy of another one, or has copies. Sets have no identity of their own.
const COPIED: i32 = -1;

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) word: SlotWord,
    rule: AtomicU64,
    stream: AtomicPtr<Stream>,
    /// Number of the program's epoll set for the socket, plus one; 0: none.
    epoll: AtomicI32,
    born: AtomicU32,
    /// In a forked child: the bytes of its parent's ring.
    remains: AtomicPtr<Remains>,
    /// Bytes that the kernel sent, by its own count; unknown with [`UNKNOWN`].
    sent: AtomicU64,
    /// The place of the last ring, see [`Seated::to_word`]; 0: none.
    seat: AtomicU64,
    why: AtomicU8,
    /// The kernel's count before the first byte.
    handshake: AtomicU8,
    /// 1: the program may wait for an edge that the kernel does not produce.
    edge: AtomicU8,
    /// The linger that the program set, seconds plus 1; 0: it set none, or switched it off.
    linger: AtomicU32,
}

impl Slot {
    pub(crate) const fn new() -> Self {
        Self {
            word: SlotWord::new(),
            rule: AtomicU64::new(0),
            stream: AtomicPtr::new(null_mut()),
            epoll: AtomicI32::new(0),
            born: AtomicU32::new(0),
            remains: AtomicPtr::new(null_mut()),
            sent: AtomicU64::new(0),
            seat: AtomicU64::new(0),
            why: AtomicU8::new(0),
            handshake: AtomicU8::new(0),
            edge: AtomicU8::new(0),
            linger: AtomicU32::new(0),
        }
    }

    /// Notes a new socket of this epoch. `sent`: the kernel's count before the first byte.
    pub(crate) fn make(&self, born: u32, sent: u8) {
        self.sent.store(sent.into(), Ordering::Relaxed);
        self.handshake.store(sent, Ordering::Relaxed);
        self.seat.store(0, Ordering::Relaxed);
        self.note(PathReason::Few);
        self.rule.store(0, Ordering::Relaxed);
        self.epoll.store(0, Ordering::Relaxed);
        self.born.store(born, Ordering::Relaxed);
        self.set_edge_due(false);
        self.set_linger(None);
        self.word.make();
    }

    pub(crate) fn set_edge_due(&self, is_due: bool) {
        self.edge.store(is_due.into(), Ordering::SeqCst);
    }

    pub(crate) fn is_edge_due(&self) -> bool {
        self.edge.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn set_linger(&self, seconds: Option<u32>) {
        self.linger.store(seconds.map_or(0, |seconds| seconds.saturating_add(1)), Ordering::Relaxed);
    }

    pub(crate) fn linger(&self) -> Option<u32> {
        self.linger.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn note(&self, why: PathReason) {
        self.why.store(why as u8, Ordering::Relaxed);
    }

    pub(crate) fn why(&self) -> PathReason {
        PathReason::of(self.why.load(Ordering::Relaxed).into()).unwrap_or(PathReason::Few)
    }

    pub(crate) fn set_seat(&self, seat: Option<Seated>) {
        self.seat.store(seat.map_or(0, Seated::to_word), Ordering::Relaxed);
    }

    pub(crate) fn seat(&self) -> Option<Seated> {
        Seated::from_word(self.seat.load(Ordering::Relaxed))
    }

    pub(crate) fn handshake(&self) -> u64 {
        self.handshake.load(Ordering::Relaxed).into()
    }

    pub(crate) fn born(&self) -> u32 {
        self.born.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn sends(&self, result: isize) {
        if result > 0 {
            self.sent.fetch_add(result.cast_unsigned() as u64, Ordering::Relaxed);
        }
    }

    /// Makes the count of sent bytes unknown: another process or a ring also sends.
    pub(crate) fn forget_sent(&self) {
        self.sent.store(UNKNOWN, Ordering::Relaxed);
    }

    /// Sets an unknown count. False: a call has sent bytes since the count was forgotten.
    pub(crate) fn learn_sent(&self, sent: u64) -> bool {
        self.sent.compare_exchange(UNKNOWN, sent, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// True if no call of the kernel sent anything since the count was forgotten.
    pub(crate) fn sent_by_the_ring_alone(&self) -> bool {
        self.sent.load(Ordering::Relaxed) == UNKNOWN
    }

    pub(crate) fn sent(&self) -> Option<u64> {
        Some(self.sent.load(Ordering::Relaxed)).filter(|sent| *sent < UNKNOWN)
    }

    /// Notes that the program polls the socket with this set. False: also with another one.
    pub(crate) fn enters_epoll(&self, set: RawFd) -> bool {
        let entered = self.epoll.compare_exchange(0, set + 1, Ordering::Relaxed, Ordering::Relaxed);
        entered.map_or_else(|before| before == set + 1, |_| true)
    }

    pub(crate) fn leaves_epoll(&self, set: RawFd) {
        let _ = self.epoll.compare_exchange(set + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn epoll(&self) -> Option<RawFd> {
        Some(self.epoll.load(Ordering::Relaxed) - 1).filter(|set| *set >= 0)
    }

    /// Notes that the number and another one refer to the same open file.
    pub(crate) fn is_copied_now(&self) {
        self.epoll.store(COPIED, Ordering::Relaxed);
    }

    pub(crate) fn is_copied(&self) -> bool {
        self.epoll.load(Ordering::Relaxed) == COPIED
    }

    pub(crate) fn forget_copies(&self) {
        if self.is_copied() {
            self.epoll.store(0, Ordering::Relaxed);
        }
    }

    /// Consults the rule, which records sent and received messages. Threads may overwrite each other's records: the
    /// rule is only advice.
    #[inline]
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&mut Rule) -> T) -> T {
        let before = self.rule.load(Ordering::Relaxed);
        let mut rule = Rule::from_word(before);
        let answer = question(&mut rule);
        let after = rule.to_word();
        if after != before {
            self.rule.store(after, Ordering::Relaxed);
        }
        answer
    }

    /// The rule's record after a message of this length in a ring, for [`Slot::remember`]. `None`: consult the rule.
    #[inline]
    pub(crate) fn after(&self, bytes: usize) -> Option<u64> {
        Rule::sends_in_ring(self.rule.load(Ordering::Relaxed), bytes)
    }

    #[inline]
    pub(crate) fn remember(&self, rule: u64) {
        if self.rule.load(Ordering::Relaxed) != rule {
            self.rule.store(rule, Ordering::Relaxed);
        }
    }

    pub(crate) fn begin_behind(&self, remains: Remains) {
        self.remains.store(Box::into_raw(Box::new(remains)), Ordering::Release);
        self.word.begin_behind();
    }

    pub(crate) fn remains(&self) -> Option<&'static Remains> {
        // SAFETY: null, or from `begin_behind`, which never frees it.
        unsafe { self.remains.load(Ordering::Acquire).as_ref() }
    }

    /// Sets the stream of a new ring. Must precede the change of the word.
    pub(crate) fn set_stream(&self, stream: &'static Stream) {
        self.stream.store(from_ref(stream).cast_mut(), Ordering::Release);
    }

    /// The stream of the present ring or of an earlier one: the key decides.
    #[inline]
    pub(crate) fn stream(&self) -> Option<&'static Stream> {
        // SAFETY: null, or from `set_stream`; streams are never freed.
        unsafe { self.stream.load(Ordering::Acquire).as_ref() }
    }
}
