//! Who may move bytes of a stream to the kernel: one at a time, and nobody waits for the other for longer than one system
//! call that does not block.

use crate::sync::{AtomicU64, Ordering, Reliance};

const FREE: u64 = 0;

/// Who holds a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Holder {
    /// Its sidecore, during one transfer.
    Sidecore = 1,
    /// Its program, which goes on by itself for a while.
    Program = 2,
}

/// The word of one stream.
#[derive(Clone, Copy, Debug)]
pub struct Hold<'a>(pub &'a AtomicU64);

impl Hold<'_> {
    /// Takes a stream that nobody holds. Then the head that the last holder wrote is seen.
    #[must_use]
    #[inline]
    pub fn take(self, holder: Holder) -> bool {
        let taken = Reliance::HoldTake.ordering(Ordering::Acquire);
        self.0.compare_exchange(FREE, holder as u64, taken, Ordering::Relaxed).is_ok()
    }

    /// Takes a stream from a holder that is known to have ended. `false`: it is not that one's.
    #[must_use]
    pub fn take_over(self, from: Holder, holder: Holder) -> bool {
        self.0.compare_exchange(from as u64, holder as u64, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The holder, after it wrote how far it came.
    #[inline]
    pub fn release(self) {
        self.0.store(FREE, Reliance::HoldRelease.ordering(Ordering::Release));
    }

    /// Who holds it. `None`: nobody, or whatever a hostile side wrote.
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
