//! CPU time and sleeps of a thread.

use libc::{RUSAGE_THREAD, rusage, timeval};
use sidecore_core::time::Nanos;
use sidecore_streams::own::Usage;

/// Usage of the calling thread. Safe in a signal handler.
pub fn thread_usage() -> Usage {
    // SAFETY: all-zero bytes are a valid record, which the call writes.
    let found = unsafe {
        let mut found: rusage = std::mem::zeroed();
        libc::getrusage(RUSAGE_THREAD, &raw mut found);
        found
    };
    let ns = |time: timeval| {
        time.tv_sec.unsigned_abs() as Nanos * 1_000_000_000 + time.tv_usec.unsigned_abs() as Nanos * 1_000
    };
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs().into();
    Usage { thread, cpu: ns(found.ru_utime) + ns(found.ru_stime), sleeps: found.ru_nvcsw.unsigned_abs() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_thread_that_sleeps_gives_the_core_away() {
        let before = thread_usage();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let after = thread_usage();
        assert!(after.sleeps >= before.sleeps + 5 && after.thread == before.thread && after.cpu >= before.cpu);
    }
}
