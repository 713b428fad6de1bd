//! The right to move bytes of a stream to the kernel. One side has it at a time, and the other waits at most for one
//! system call that does not block.

use sidecore_core::sync::{AtomicU64, Ordering, Reliance};

const FREE: u64 = 0;

/// The holder of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Holder {
    /// Its sidecore, during one transfer.
    Sidecore = 1,
    /// Its program, which continues without the sidecore for a while.
    Program = 2,
}

/// The word of one stream.
#[derive(Clone, Copy, Debug)]
pub struct Hold<'a>(pub &'a AtomicU64);

impl Hold<'_> {
    /// Takes a stream without a holder. Then the head written by the last holder is visible.
    #[must_use]
    #[inline]
    pub fn take(self, holder: Holder) -> bool {
        let taken = Reliance::HoldTake.ordering(Ordering::Acquire);
        self.0.compare_exchange(FREE, holder as u64, taken, Ordering::Relaxed).is_ok()
    }

    /// Takes a stream from a holder that is known to have ended. `false`: that one does not hold it.
    #[must_use]
    pub fn take_over(self, from: Holder, holder: Holder) -> bool {
        self.0.compare_exchange(from as u64, holder as u64, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The holder releases it, after it wrote its position.
    #[inline]
    pub fn release(self) {
        self.0.store(FREE, Reliance::HoldRelease.ordering(Ordering::Release));
    }

    /// The holder. `None`: there is none, or a hostile side wrote another value.
    pub fn holder(self) -> Option<Holder> {
        let word = self.0.load(Ordering::Relaxed);
        [Holder::Sidecore, Holder::Program].into_iter().find(|holder| *holder as u64 == word)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let word = AtomicU64::new(0);
        let hold = Hold(&word);
        assert!(hold.take(Holder::Sidecore));
        assert!(!hold.take(Holder::Program) && !hold.take(Holder::Sidecore));
        assert!(!hold.take_over(Holder::Program, Holder::Sidecore));
        assert!(hold.take_over(Holder::Sidecore, Holder::Program));
        assert_eq!(hold.holder(), Some(Holder::Program));
        hold.release();
        assert_eq!(hold.holder(), None);
        assert!(hold.take(Holder::Program));
    }
}
