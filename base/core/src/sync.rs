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
    /// A consumer that sees a slot's sequence number sees its message.
    RingPublish,
    /// The look at a sequence number that pairs with it.
    RingLook,
    /// A waiter's fence between arming and its last look.
    BellArm,
    /// A ringer's fence between publishing and its look at the armed word.
    BellRing,
    /// A worker's writes are done when its gate is open again.
    GateLeave,
    /// A thread that shuts an open gate sees the writes made inside it.
    GateShut,
    /// A thread that saw a worker's end sees which request it left half-written.
    GateLeft,
    /// A reader that lowers the flag of a mailbox finds the item of each raise.
    FlagRaise,
    /// The lowering that pairs with it.
    FlagLower,
    /// A reader that sees a block open sees the writes for its owner.
    BlockOpen,
    /// A single look at its generation that pairs with it.
    BlockLook,
    /// The first of two looks at its generation, which pairs with it.
    BlockSeen,
    /// A reader that sees a word of a block's next owner sees the block closed for the one before.
    BlockClose,
    /// The last look at its generation, which pairs with it.
    BlockStayed,
    /// A thread that finds the object of this process finds it complete.
    PlacePut,
    /// The look that pairs with it.
    PlaceLook,
    /// The failed put, which pairs with it: another thread was first.
    PlaceLost,
    /// A writer that sees the bell of a stream shut sees the reason.
    BellShut,
    /// The fence behind the look that pairs with it.
    BellSeen,
    /// A side that takes the hold of a stream sees the last holder's position.
    HoldTake,
    /// The release that pairs with it.
    HoldRelease,
}

/// The named ordering, where nothing is weakened.
#[cfg(not(loom))]
impl Reliance {
    /// The ordering of an access: `said`, unless a model has another one in its place.
    #[inline]
    pub const fn ordering(self, said: Ordering) -> Ordering {
        said
    }

    /// A fence of that ordering, unless a model has another one in its place.
    #[inline]
    pub fn fence(self, said: Ordering) {
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

    /// Runs a model with these orderings instead of the named ones. A relaxed fence is none.
    pub fn weakened(reliances: &'static [(Reliance, Ordering)], model: impl FnOnce()) {
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
        /// The ordering of an access: `said`, unless the model has another one in its place.
        pub fn ordering(self, said: Ordering) -> Ordering {
            WEAKENED.get().iter().find(|(place, _)| *place == self).map_or(said, |(_, ordering)| *ordering)
        }

        /// A fence of that ordering, or of the one that the model has in its place. A relaxed fence is none.
        pub fn fence(self, said: Ordering) {
            match self.ordering(said) {
                Ordering::Relaxed => {}
                ordering => fence(ordering),
            }
        }
    }
}
