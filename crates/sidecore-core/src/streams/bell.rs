//! Whether a stream's sidecore looks at its ring by itself, wants to be told, or is gone.
//!
//! The handshake is that of [`crate::doorbell`], with a third state: who writes to a ring that nobody empties any more must
//! learn of it at that write. So the one fence that finds out whether to ring finds that out as well.

use crate::sync::{AtomicU64, Ordering, Reliance};

const WATCHED: u64 = 0;
const ARMED: u64 = 1;
const SHUT: u64 = 2;

/// The word of one stream.
#[derive(Clone, Copy, Debug)]
pub struct Bell<'a>(pub &'a AtomicU64);

/// What a writer has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Nothing: the sidecore looks at the ring by itself.
    Watched,
    /// Announce the stream.
    Announce,
    /// Go on without the sidecore: it does not look at this ring any more.
    Shut,
}

impl Bell<'_> {
    /// Sidecore: the ring was found empty. It must look once more after this.
    pub fn arm(self) {
        self.0.store(ARMED, Ordering::Relaxed);
        Reliance::BellArm.fence(Ordering::SeqCst);
    }

    /// Sidecore: it looks by itself. Writer, before the stream begins: it will.
    pub fn disarm(self) {
        self.0.store(WATCHED, Ordering::Relaxed);
    }

    /// Sidecore: it will not look any more. It must look once more after this: what is not found then, its writer knows of.
    pub fn shut(self) {
        // Release: who sees the bell shut sees why.
        self.0.store(SHUT, Reliance::BellShut.ordering(Ordering::Release));
        Reliance::BellArm.fence(Ordering::SeqCst);
    }

    /// Writer, after each message.
    #[inline]
    pub fn ring(self) -> Rung {
        Reliance::BellRing.fence(Ordering::SeqCst);
        match self.0.load(Ordering::Relaxed) {
            WATCHED => Rung::Watched,
            // Not a swap: the bell may be shut meanwhile, and stays so.
            ARMED => match self.0.compare_exchange(ARMED, WATCHED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => Rung::Announce,
                Err(WATCHED) => Rung::Watched,
                Err(_) => shut(),
            },
            _ => shut(),
        }
    }

    /// True if the sidecore found the ring empty and waits for an announcement.
    #[inline]
    pub fn is_armed(self) -> bool {
        self.0.load(Ordering::Relaxed) == ARMED
    }

    /// Whether the bell is shut, without having written anything.
    pub fn is_shut(self) -> bool {
        self.0.load(Ordering::Relaxed) == SHUT
    }
}

#[cold]
fn shut() -> Rung {
    // Acquire: pairs with the release in `Bell::shut`.
    Reliance::BellSeen.fence(Ordering::Acquire);
    Rung::Shut
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_arming_is_one_announcement_and_a_shut_bell_stays_shut() {
        let word = AtomicU64::new(0);
        let bell = Bell(&word);
        assert_eq!(bell.ring(), Rung::Watched);
        bell.arm();
        assert_eq!((bell.ring(), bell.ring()), (Rung::Announce, Rung::Watched));
        bell.arm();
        bell.shut();
        assert!(bell.is_shut());
        assert_eq!((bell.ring(), bell.ring()), (Rung::Shut, Rung::Shut));
        word.store(77, Ordering::Relaxed);
        assert_eq!(bell.ring(), Rung::Shut, "what is no state of a bell is not trusted");
    }
}
