//! What a link counts, in each direction.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What one direction of a link has counted.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub(crate) struct Counters { $($(#[$doc])* pub(crate) $name: u64,)* }

        /// The same while it is counted, by one thread.
        #[derive(Debug, Default)]
        pub(super) struct Tally { $($(#[$doc])* pub(super) $name: Count,)* }

        impl Tally {
            /// What was counted so far.
            pub(super) fn read(&self) -> Counters {
                Counters { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Frames that the sender's interface handed over.
    frames,
    /// Their bytes, from the addresses to the end of what they carry.
    bytes,
    /// Frames that were lost, as `loss` says.
    lost,
    /// Frames that the queue had no room for.
    dropped,
    /// Frames that the receiver's interface took.
    delivered,
    /// Their bytes.
    delivered_bytes,
    /// Frames that the receiver's interface would not take: it is down, or has not what they need.
    refused,
    /// Doorbells: batches of frames that were taken from the sender.
    doorbells,
    /// Interrupts: batches of frames that were handed to the receiver.
    interrupts,
    /// Accesses to registers, each of which cost what is set.
    accesses,
    /// What moderation added, from a frame's arrival to its interrupt, of all frames together, ns.
    held_ns,
}

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, count: u64) {
        self.set(self.0.load(Ordering::Relaxed).wrapping_add(count));
    }

    pub(super) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}
