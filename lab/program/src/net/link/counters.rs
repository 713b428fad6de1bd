//! Counts of a link, in each direction.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub(crate) struct Counters { $($(#[$doc])* pub(crate) $name: u64,)* }

        /// Counts during a run, written by one thread.
        #[derive(Debug, Default)]
        pub(super) struct Tally { $($(#[$doc])* pub(super) $name: Count,)* }

        impl Tally {
            pub(super) fn read(&self) -> Counters {
                Counters { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    frames,
    /// Their bytes, from the addresses to the end of the payload.
    bytes,
    /// Frames lost by the setting `loss`.
    lost,
    /// Frames dropped because the queue was full.
    dropped,
    delivered,
    delivered_bytes,
    /// Frames that the receiver's interface refused: it is down, or lacks a feature for them.
    refused,
    /// Batches of frames taken from the sender.
    doorbells,
    /// Batches of frames handed to the receiver.
    interrupts,
    /// Accesses to registers; the setting `register` is the cost of one.
    accesses,
    /// Time added by moderation from a frame's arrival to its interrupt, summed over all frames, ns.
    held_ns,
}

/// It has one writer.
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
