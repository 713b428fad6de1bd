//! Waits for a holder whose hold lasts one system call.

use rustix::thread::nanosleep;
use rustix::time::Timespec;
use std::hint::spin_loop;
use std::thread;

/// Rounds of spinning: a system call takes microseconds.
const SPINS: u32 = 500;
/// The core is yielded up to this round: the holder may be waiting for it.
const YIELDS: u32 = 600;
/// 50 us.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

/// Naps after which a living holder counts as stopped: 50 ms.
const STOPPED: u32 = 1_000;

impl Backoff {
    pub(super) fn is_over(&self) -> bool {
        self.0 > YIELDS + STOPPED
    }

    /// Waits one round. `true`: the wait is long enough to check whether the holder has ended.
    pub(super) fn wait(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        if self.0 > YIELDS {
            // The C library's sleep is a cancellation point, at which a thread could end with its locks held.
            let _ = nanosleep(&NAP);
        } else if self.0 > SPINS {
            thread::yield_now();
        } else {
            spin_loop();
        }
        self.0 > YIELDS
    }
}
