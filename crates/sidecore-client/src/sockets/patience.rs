//! Waiting for a holder whose hold lasts one system call.

use rustix::thread::nanosleep;
use rustix::time::Timespec;
use std::hint::spin_loop;
use std::thread;

/// Looks that only wait for a moment: a system call takes microseconds.
const SPINS: u32 = 500;
/// Looks until which others get the core between: the holder may wait for it.
const YIELDS: u32 = 600;
/// 50 us.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// How long one has waited.
#[derive(Debug, Default)]
pub(super) struct Patience(u32);

/// Naps after which a holder that lives is taken for stopped: 50 ms.
const STOPPED: u32 = 1_000;

impl Patience {
    /// True if the holder takes as long as only one that is stopped does, or has no processor.
    pub(super) fn is_over(&self) -> bool {
        self.0 > YIELDS + STOPPED
    }

    /// Waits a little. `true`: it takes so long by now that the holder may have ended.
    pub(super) fn wait(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        if self.0 > YIELDS {
            // The C library's sleep is a point at which a thread can be cancelled, with what it holds.
            let _ = nanosleep(&NAP);
        } else if self.0 > SPINS {
            thread::yield_now();
        } else {
            spin_loop();
        }
        self.0 > YIELDS
    }
}
