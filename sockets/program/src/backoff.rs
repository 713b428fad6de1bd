//! Waits for a holder whose hold lasts one system call.

use rustix::thread::nanosleep;
use rustix::time::Timespec;
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use std::hint::spin_loop;
use std::thread;

/// Rounds of spinning: a system call takes microseconds.
const SPINS: u32 = 500;
/// The core is yielded up to this round: the holder may be waiting for it.
const YIELDS: u32 = 600;
/// 50 us.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// Time after which a living holder counts as stopped, ns. A thread that serves others waits that long at most.
const STOPPED: Nanos = 2_000_000;

#[derive(Debug, Default)]
pub(super) struct Backoff {
    rounds: u32,
    /// When the holder counts as stopped. `None`: no nap yet.
    until: Option<Nanos>,
}

impl Backoff {
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| clock::now() >= until)
    }

    /// Waits one round. `true`: the wait is long enough to check whether the holder has ended.
    pub(super) fn wait(&mut self) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds > YIELDS {
            self.until.get_or_insert_with(|| clock::now().saturating_add(STOPPED));
            // The C library's sleep is a cancellation point, at which a thread could end with its locks held.
            let _ = nanosleep(&NAP);
        } else if self.rounds > SPINS {
            thread::yield_now();
        } else {
            spin_loop();
        }
        self.rounds > YIELDS
    }
}
