//! The atomics that protocols between threads are written in: the language's own, or loom's while a model is checked.
//!
//! An ordering that a protocol relies on has a name, a [`Reliance`]. A model can take it away in the real code, to show
//! that the protocol fails without it.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// An ordering that a protocol relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliance {
    /// Who sees a slot's sequence number sees its message.
    RingPublish,
    /// The look at a sequence number that pairs with it.
    RingLook,
    /// A waiter's fence between arming and its last look.
    BellArm,
    /// A ringer's fence between publishing and its look at the armed word.
    BellRing,
    /// What a worker wrote is done when its gate is open again.
    GateLeave,
    /// Who shuts an open gate sees what was written behind it.
    GateShut,
    /// Who saw a worker's end sees which request it left half-written.
    GateLeft,
    /// Who lowers the flag of a mailbox finds what it was raised for.
    FlagRaise,
    /// The lowering that pairs with it.
    FlagLower,
    /// Who sees a block open sees what was written for its owner.
    BlockOpen,
    /// A single look at its generation that pairs with it.
    BlockLook,
    /// The first of two looks at its generation, which pairs with it.
    BlockSeen,
    /// Who sees a word of a block's next owner sees the block closed for the one before.
    BlockClose,
    /// The last look at its generation, which pairs with it.
    BlockStayed,
    /// Who finds what was made for this process finds it made.
    PlacePut,
    /// The look that pairs with it.
    PlaceLook,
    /// Finding, in the place of putting, that another thread was first, which pairs with it.
    PlaceLost,
    /// Who sees the bell of a stream shut sees why.
    BellShut,
    /// The fence behind the look that pairs with it.
    BellSeen,
    /// Who takes the hold of a stream sees how far the last holder came.
    HoldTake,
    /// The release that pairs with it.
    HoldRelease,
}

/// What the code says, where nothing is weakened.
#[cfg(not(loom))]
impl Reliance {
    /// The ordering of an access.
    #[inline]
    #[expect(clippy::unused_self, reason = "only models ask which it is")]
    pub(crate) const fn ordering(self, said: Ordering) -> Ordering {
        said
    }

    /// A fence.
    #[inline]
    #[expect(clippy::unused_self, reason = "only models ask which it is")]
    pub(crate) fn fence(self, said: Ordering) {
        fence(said);
    }
}

#[cfg(loom)]
pub use weak::weakened;

#[cfg(loom)]
mod weak {
    use super::{Ordering, Reliance, fence};
    use core::cell::Cell;

    std::thread_local! {
        /// All threads of a model run on one of the system's.
        static WEAKENED: Cell<&'static [(Reliance, Ordering)]> = const { Cell::new(&[]) };
    }

    /// Runs a model with these orderings in the place of what the code says. A relaxed fence is none.
    pub fn weakened(reliances: &'static [(Reliance, Ordering)], model: impl FnOnce()) {
        /// Also after a panic, which is what is expected.
        struct Restored;
        impl Drop for Restored {
            fn drop(&mut self) {
                WEAKENED.set(&[]);
            }
        }
        let _restored = Restored;
        WEAKENED.set(reliances);
        model();
    }

    impl Reliance {
        pub(crate) fn ordering(self, said: Ordering) -> Ordering {
            WEAKENED.get().iter().find(|(place, _)| *place == self).map_or(said, |(_, ordering)| *ordering)
        }

        pub(crate) fn fence(self, said: Ordering) {
            match self.ordering(said) {
                Ordering::Relaxed => {}
                ordering => fence(ordering),
            }
        }
    }
}
