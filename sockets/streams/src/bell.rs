//! State of a stream's sidecore: it looks at the ring, wants an announcement, or is gone.
//!
//! The handshake is that of [`sidecore_core::doorbell`] with a third state: a writer to an abandoned ring must learn of it at
//! that write. So the one fence that decides whether to ring serves this as well.

use sidecore_core::sync::{AtomicU64, Ordering, Reliance};

const WATCHED: u64 = 0;
const ARMED: u64 = 1;
const SHUT: u64 = 2;

/// The word of one stream.
#[derive(Clone, Copy, Debug)]
pub struct WakeFlag<'a>(pub &'a AtomicU64);

/// A writer's duty after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// None: the sidecore looks at the ring.
    Watched,
    /// Announce the stream.
    Announce,
    /// Continue without the sidecore: it does not look at this ring any more.
    Shut,
}

impl WakeFlag<'_> {
    /// Sidecore: the ring was found empty. It must look once more after this.
    pub fn arm(self) {
        self.0.store(ARMED, Ordering::Relaxed);
        Reliance::BellArm.fence(Ordering::SeqCst);
    }

    /// Sidecore: it looks at the ring. Writer, before the stream begins: the sidecore will look.
    pub fn disarm(self) {
        self.0.store(WATCHED, Ordering::Relaxed);
    }

    /// Sidecore: it will not look any more. It must look once more after this: the writer knows of any later message.
    pub fn shut(self) {
        // Release: a writer that sees the bell shut sees the reason.
        self.0.store(SHUT, Reliance::BellShut.ordering(Ordering::Release));
        Reliance::BellArm.fence(Ordering::SeqCst);
    }

    /// Writer, after each message.
    #[inline]
    pub fn ring(self) -> Rung {
        Reliance::BellRing.fence(Ordering::SeqCst);
        match self.0.load(Ordering::Relaxed) {
            WATCHED => Rung::Watched,
            // Not a swap, since a bell that is shut meanwhile must stay shut.
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

    /// Whether the bell is shut, for a writer that wrote nothing.
    pub fn is_shut(self) -> bool {
        self.0.load(Ordering::Relaxed) == SHUT
    }
}

#[cold]
fn shut() -> Rung {
    // Acquire: pairs with the release in `WakeFlag::shut`.
    Reliance::BellSeen.fence(Ordering::Acquire);
    Rung::Shut
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_arming_is_one_announcement_and_a_shut_bell_stays_shut() {
        let word = AtomicU64::new(0);
        let bell = WakeFlag(&word);
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
