//! What is known of one descriptor number, in words that all threads and signal handlers may change at any time.

use sidecore_client::sockets::stream::Stream;
use sidecore_core::streams::rule::Rule;
use std::os::fd::RawFd;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};

/// State of a number, in the lowest bits of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    /// Nothing is known of it: the kernel's.
    Unknown = 0,
    /// The kernel's for good, while it is open.
    Kernel = 1,
    /// A connection, on the kernel's path for now.
    Made = 2,
    /// A thread is about to promote it.
    Entering = 3,
    /// In a ring.
    Ring = 4,
    /// In a ring that nothing is written to any more, and that has not been emptied yet.
    Leaving = 5,
    /// The service shuts its sending when the ring is empty.
    Shut = 6,
}

const STATE: u64 = 0b111;
/// Somebody sent on it while it was about to be promoted.
const DISTURBED: u64 = 1 << 3;
/// It is the kernel's for good once it is out of its ring.
const PINNED: u64 = 1 << 4;
/// It was in a ring since it was made: the service may still have it open.
const PROMOTED: u64 = 1 << 5;
/// It sends datagrams.
const DATAGRAMS: u64 = 1 << 6;
/// From which bit on the epoch stands in which it was made.
const BORN: u32 = 8;
/// One thread that sends on it by the kernel.
const USER: u64 = 1 << 40;
const USERS: u64 = !(USER - 1);

/// How a thread that sends goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    /// By the kernel; there is nothing to say afterwards.
    Kernel,
    /// By the kernel, with [`Slot::exit`] afterwards.
    Counted,
    /// Through the ring.
    Ring(&'static Stream),
    /// By the kernel, after the ring has been emptied.
    Leaving(&'static Stream),
    /// Nothing can be sent any more.
    Shut,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Slot {
    word: AtomicU64,
    rule: AtomicU64,
    stream: AtomicPtr<Stream>,
    /// The set by which the program polls it, plus one; 0: none.
    epoll: AtomicI32,
}

impl Slot {
    /// Of a number that nothing is known of.
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            rule: AtomicU64::new(0),
            stream: AtomicPtr::new(null_mut()),
            epoll: AtomicI32::new(0),
        }
    }

    /// Whether it is, or may become, more than the kernel's.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE > State::Kernel as u64
    }

    /// Whether it is in a ring, also in one that it is leaving.
    pub(crate) fn is_in_ring(&self) -> bool {
        self.is(State::Ring) || self.is(State::Leaving)
    }

    /// Whether the service may have it open, so that closing it here is not its end.
    pub(crate) fn was_in_ring(&self) -> bool {
        self.word.load(Ordering::Acquire) & PROMOTED != 0
    }

    /// The program polls it by that set. `false`: by another one as well.
    pub(crate) fn enters_epoll(&self, set: RawFd) -> bool {
        let entered = self.epoll.compare_exchange(0, set + 1, Ordering::Relaxed, Ordering::Relaxed);
        entered.map_or_else(|before| before == set + 1, |_| true)
    }

    /// The program polls it by that set no more.
    pub(crate) fn leaves_epoll(&self, set: RawFd) {
        let _ = self.epoll.compare_exchange(set + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The set by which the program polls it.
    pub(crate) fn epoll(&self) -> Option<RawFd> {
        Some(self.epoll.load(Ordering::Relaxed) - 1).filter(|set| *set >= 0)
    }

    /// Its state by now.
    #[inline]
    pub(crate) fn is(&self, state: State) -> bool {
        self.word.load(Ordering::Acquire) & STATE == state as u64
    }

    /// The epoch in which it was made.
    pub(crate) fn born(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> BORN) as u32
    }

    /// What the rule says, which remembers what is sent and received. Threads may overwrite each other's: it is advice.
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

    /// The ring that so many bytes of a connection go through, if it is in one and the rule has nothing to say to them; and what the rule
    /// remembers then, for [`Slot::remember`].
    #[inline]
    pub(crate) fn ring_for(&self, bytes: usize) -> Option<(&'static Stream, u64)> {
        // Of datagrams the rule asks more.
        if self.word.load(Ordering::Acquire) & (STATE | DATAGRAMS) != State::Ring as u64 {
            return None;
        }
        let after = Rule::sends_in_ring(self.rule.load(Ordering::Relaxed), bytes)?;
        Some((self.stream()?, after))
    }

    /// What [`Slot::ring_for`] was asked about was sent.
    #[inline]
    pub(crate) fn remember(&self, rule: u64) {
        if self.rule.load(Ordering::Relaxed) != rule {
            self.rule.store(rule, Ordering::Relaxed);
        }
    }

    /// A thread is about to send.
    #[inline]
    pub(crate) fn enter(&self) -> Path {
        loop {
            if self.word.load(Ordering::Acquire) & STATE != State::Made as u64 {
                match self.path() {
                    Path::Counted => {}
                    path => return path,
                }
            }
            let before = self.word.fetch_add(USER, Ordering::AcqRel) & STATE;
            if before == State::Made as u64 {
                return Path::Counted;
            }
            if before == State::Entering as u64 {
                self.word.fetch_or(DISTURBED, Ordering::AcqRel);
                return Path::Counted;
            }
            self.exit();
        }
    }

    /// How a thread would go on now, without being counted.
    #[inline]
    pub(crate) fn path(&self) -> Path {
        let state = self.word.load(Ordering::Acquire) & STATE;
        if state == State::Made as u64 || state == State::Entering as u64 {
            return Path::Counted;
        }
        if state == State::Shut as u64 {
            return Path::Shut;
        }
        match self.stream() {
            Some(stream) if state == State::Ring as u64 => Path::Ring(stream),
            Some(stream) if state == State::Leaving as u64 => Path::Leaving(stream),
            _ => Path::Kernel,
        }
    }

    /// A thread has sent by the kernel.
    #[inline]
    pub(crate) fn exit(&self) {
        self.word.fetch_sub(USER, Ordering::Release);
    }

    /// A thread that is counted is about to promote it. `false`: others are sending.
    pub(crate) fn is_alone(&self) -> bool {
        let alone = |word: u64| {
            let only = word & STATE == State::Made as u64 && word & USERS == USER;
            only.then_some((word & !(STATE | DISTURBED)) | State::Entering as u64)
        };
        self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, alone).is_ok()
    }

    /// It is in that ring from now on, and the thread is not counted any more. `false`: somebody came between.
    pub(crate) fn is_entered(&self, stream: &'static Stream) -> bool {
        self.stream.store(from_ref(stream).cast_mut(), Ordering::Release);
        let enter = |word: u64| {
            let undisturbed = word & (STATE | DISTURBED) == State::Entering as u64;
            undisturbed.then_some(((word & !STATE) | PROMOTED | State::Ring as u64).wrapping_sub(USER))
        };
        self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, enter).is_ok()
    }

    /// Changes the state, if it is that; what would be a connection on the kernel's path is the kernel's for good if it was
    /// pinned. `false`: it was another.
    pub(crate) fn change(&self, from: State, to: State) -> bool {
        let change = |word: u64| {
            let to = if to == State::Made && word & PINNED != 0 { State::Kernel } else { to };
            (word & STATE == from as u64).then_some((word & !STATE) | to as u64)
        };
        self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, change).is_ok()
    }

    /// It is the kernel's for good, or will be when it is out of its ring. A thread that is about to promote it finds that.
    pub(crate) fn pin(&self) {
        let pin = |word: u64| {
            let state = word & STATE;
            if state == State::Made as u64 || state == State::Entering as u64 {
                return Some((word & !STATE) | State::Kernel as u64);
            }
            (state > State::Entering as u64).then_some(word | PINNED)
        };
        let _ = self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, pin);
    }

    /// A connection was made there in that epoch. Who still sends on one that was there before stays counted.
    pub(crate) fn make(&self, born: u32) {
        self.rule.store(0, Ordering::Relaxed);
        self.epoll.store(0, Ordering::Relaxed);
        let make = |word: u64| Some((word & USERS) | u64::from(born) << BORN | State::Made as u64);
        let _ = self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, make);
    }

    /// What was made there sends datagrams.
    pub(crate) fn sends_datagrams(&self) {
        self.word.fetch_or(DATAGRAMS, Ordering::SeqCst);
    }

    /// Whether it sends datagrams.
    #[inline]
    pub(crate) fn is_of_datagrams(&self) -> bool {
        self.word.load(Ordering::Relaxed) & DATAGRAMS != 0
    }

    /// Nothing is known of it any more.
    pub(crate) fn forget(&self) {
        let _ = self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |word| Some(word & USERS));
    }

    /// The same in a forked child, which has none of the other threads. What is the kernel's for good stays so: what is
    /// accepted there would get options that it has.
    pub(crate) fn clear(&self) {
        let state = if self.is(State::Kernel) { State::Kernel } else { State::Unknown };
        self.word.store(state as u64, Ordering::SeqCst);
    }

    /// The ring that it is in, or was.
    #[inline]
    pub(crate) fn stream(&self) -> Option<&'static Stream> {
        // SAFETY: null, or what `is_entered` was given, which is never freed.
        unsafe { self.stream.load(Ordering::Acquire).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Slot {
        let slot = Slot::new();
        slot.make(7);
        slot
    }

    fn stream() -> &'static Stream {
        Box::leak(Box::default())
    }

    #[test]
    fn a_ring_is_entered_by_a_thread_that_is_alone() {
        let slot = made();
        assert!(matches!(slot.enter(), Path::Counted));
        assert!(matches!(slot.enter(), Path::Counted));
        assert!(!slot.is_alone());
        slot.exit();
        assert!(slot.is_alone() && slot.is_entered(stream()));
        assert!(matches!(slot.enter(), Path::Ring(_)));
        assert_eq!(slot.born(), 7);
        assert!(slot.ring_for(64).is_none(), "the rule does not know of it");
        slot.ask(Rule::promoted);
        let (_, one) = slot.ring_for(64).unwrap();
        assert_eq!(slot.ring_for(64).unwrap().1, one, "it was not sent");
        slot.remember(one);
        assert_ne!(slot.ring_for(64).unwrap().1, one);
        assert!(slot.change(State::Ring, State::Leaving) && slot.ring_for(64).is_none());
    }

    #[test]
    fn who_sends_meanwhile_keeps_it_out_of_the_ring() {
        let slot = made();
        assert!(matches!(slot.enter(), Path::Counted));
        assert!(slot.is_alone());
        assert!(matches!(slot.enter(), Path::Counted));
        slot.exit();
        assert!(!slot.is_entered(stream()));
        assert!(slot.change(State::Entering, State::Made));
        assert!(slot.is_alone(), "the next time");
    }

    #[test]
    fn what_still_sends_on_a_closed_number_is_counted_on_the_next() {
        let slot = made();
        assert!(matches!(slot.enter(), Path::Counted));
        slot.forget();
        assert!(matches!(slot.enter(), Path::Kernel));
        slot.make(8);
        assert!(matches!(slot.enter(), Path::Counted));
        assert!(!slot.is_alone());
        slot.exit();
        assert!(slot.is_alone());
    }
}
