//! The gate that a worker passes before it writes a result where clients see it.
//!
//! Whoever gives the worker's requests to another shuts the gate first. A worker that comes back late then finds it shut and
//! cannot overwrite the other's result; one that is just writing is waited for. If it ends behind the gate, the gate says
//! of which request it may have written a part.

use crate::sync::{AtomicU64, Ordering, Reliance};

const OPEN: u64 = 0;
const WRITING: u64 = 1;
const SHUT: u64 = 2;

/// Open at first; once shut, for good.
#[derive(Debug, Default)]
pub struct Gate {
    state: AtomicU64,
    /// Which request is being written.
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
        // Release: who shuts the gate comes after what was written.
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

    /// What a worker was writing that has ended. The caller saw its end, in whatever way: as a release, all the same.
    pub fn left_in(&self) -> Option<u64> {
        // Acquire: what the worker did before its end is in the past, also where the end was seen by a relaxed look.
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
