//! Waking a peer that may sleep, without a system call while it does not.
//!
//! The waiter stores `1` in the armed word, fences, looks at its ring once more, and sleeps only if that is still
//! empty. The ringer publishes, fences, and makes the wake-up system call only if it finds the word armed; the swap
//! back to `0` makes one arming cost at most one wake-up. The two fences are what rules out that the waiter misses the
//! message *and* the ringer misses the arming: with sequentially consistent fences on both sides at least one of the
//! two loads sees the other side's store (the store-buffering pattern).
//!
//! The word is in shared memory. A hostile peer can cause useless wake-ups of itself, or leave itself asleep.

use crate::sync::{AtomicU64, Ordering, Reliance};

/// One armed word in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Doorbell<'a>(pub &'a AtomicU64);

impl Doorbell<'_> {
    /// Waiter: announces that it is about to sleep. It must look at its ring once more after this, and sleep only if
    /// there is nothing.
    #[inline]
    pub fn arm(self) {
        self.0.store(1, Ordering::Relaxed);
        Reliance::BellArm.fence(Ordering::SeqCst);
    }

    /// Waiter: it is awake, or did not go to sleep.
    #[inline]
    pub fn disarm(self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Ringer: true if the waiter sleeps, or is about to.
    #[inline]
    pub fn is_armed(self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Ringer, after publishing one message or many: `true` if the waiter must be woken by a system call.
    #[inline]
    pub fn must_wake(self) -> bool {
        Reliance::BellRing.fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != 0 && self.0.swap(0, Ordering::Relaxed) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_arming_is_one_wake_up() {
        let word = AtomicU64::new(0);
        let bell = Doorbell(&word);
        assert!(!bell.must_wake());
        bell.arm();
        assert!(bell.must_wake());
        assert!(!bell.must_wake());
        bell.arm();
        bell.disarm();
        assert!(!bell.must_wake());
    }
}
