//! A flag beside a queue: whether anything waits there costs its reader one look at a word that seldom changes.
//!
//! The sender queues first and raises the flag then. The reader lowers it first and empties the queue then, so what comes
//! between is found now or raises the flag again.

use crate::sync::{AtomicU64, Ordering, Reliance};

/// Lowered at first.
#[derive(Debug, Default)]
pub struct Flag(AtomicU64);

impl Flag {
    /// Sender, after queueing.
    pub fn raise(&self) {
        // Release: who lowers the flag finds what was queued. A swap, so that it hides no raise of another sender's.
        self.0.swap(1, Reliance::FlagRaise.ordering(Ordering::Release));
    }

    /// Reader: whether something waits.
    #[inline]
    pub fn is_up(&self) -> bool {
        // Nothing is read because of it before the flag is lowered.
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Reader, before it empties the queue.
    pub fn lower(&self) {
        // Acquire: pairs with the release in `raise`. A swap, so that what each raise that it takes back was for is found.
        self.0.swap(0, Reliance::FlagLower.ordering(Ordering::Acquire));
    }
}
