//! A flag for a queue: a reader tests one rarely changed word to see whether the queue holds anything.
//!
//! The sender queues first and raises the flag then. The reader lowers it first and empties the queue then. An item
//! queued in between is found now or raises the flag again.

use crate::sync::{AtomicU64, Ordering, Reliance};

/// Lowered at first.
#[derive(Debug, Default)]
pub struct Flag(AtomicU64);

impl Flag {
    /// Sender, after queueing.
    pub fn raise(&self) {
        // Release: a reader that lowers the flag finds the queued item. A swap, so that it hides no other sender's
        // raise.
        self.0.swap(1, Reliance::FlagRaise.ordering(Ordering::Release));
    }

    /// Reader: whether something waits.
    #[inline]
    pub fn is_up(&self) -> bool {
        // A reader acts on the queue only after it lowers the flag.
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Reader, before it empties the queue.
    pub fn lower(&self) {
        // Acquire: pairs with the release in `raise`. A swap, so that the items of all raises before it are found.
        self.0.swap(0, Reliance::FlagLower.ordering(Ordering::Acquire));
    }
}
