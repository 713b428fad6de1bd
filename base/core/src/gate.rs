//! The gate that a worker passes before it writes a result where clients see it.
//!
//! The caller shuts the gate before it gives the worker's requests to another worker. A late worker finds the gate
//! shut and cannot overwrite the other's result. A worker that is writing delays the shutting. If the worker dies
//! inside the gate, the gate tells which request may be partly written.

use crate::sync::{AtomicU64, Ordering, Reliance};

const OPEN: u64 = 0;
const WRITING: u64 = 1;
const SHUT: u64 = 2;

/// Open at first. Once shut, it stays shut.
#[derive(Debug, Default)]
pub struct Gate {
    state: AtomicU64,
    request: AtomicU64,
}

impl Gate {
    /// Worker: it is about to write the result of the request with this number. `false`: it must not.
    #[inline]
    pub fn enter(&self, request: u64) -> bool {
        self.request.store(request, Ordering::Relaxed);
        self.state.compare_exchange(OPEN, WRITING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Worker: the result is written, and its reply queued.
    #[inline]
    pub fn leave(&self) {
        // Release: a thread that shuts the gate sees the written result.
        self.state.store(OPEN, Reliance::GateLeave.ordering(Ordering::Release));
    }

    /// Keeps the worker out. `false`: it is writing just now; ask again.
    pub fn shut(&self) -> bool {
        // Acquire: pairs with the release in `leave`.
        let success = Reliance::GateShut.ordering(Ordering::Acquire);
        match self.state.compare_exchange(OPEN, SHUT, success, Ordering::Relaxed) {
            Ok(_) => true,
            Err(state) => state == SHUT,
        }
    }

    /// The request that a dead worker was writing, if any. The caller must have seen the worker's end, with any
    /// memory ordering.
    pub fn left_in(&self) -> Option<u64> {
        // Acquire: orders the worker's writes before this, even if the caller saw its end by a relaxed load.
        Reliance::GateLeft.fence(Ordering::Acquire);
        (self.state.load(Ordering::Relaxed) == WRITING).then(|| self.request.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_gate_says_who_is_behind_it_and_stays_shut() {
        let gate = Gate::default();
        assert!(gate.enter(7));
        assert_eq!((gate.shut(), gate.left_in()), (false, Some(7)));
        gate.leave();
        assert_eq!((gate.left_in(), gate.shut(), gate.shut()), (None, true, true));
        assert!(!gate.enter(8));
        assert_eq!(gate.left_in(), None);
    }
}
