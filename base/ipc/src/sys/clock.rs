//! The only place that reads clocks.

use rustix::time::{ClockId, Timespec, clock_gettime};
use sidecore_core::time::Nanos;

/// This clock runs slower by this factor: 1, except in builds for counting instructions. There a program takes a
/// hundred times as long, and periodic work would run permanently.
const SLOWED: Nanos = if option_env!("SIDECORE_SLOW_CLOCK").is_some() { 1000 } else { 1 };

fn read(id: ClockId) -> Nanos {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(id);
    (tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()) / SLOWED
}

/// The machine's monotonic clock, ns: the same in all processes. One reading takes about 20 ns.
#[inline]
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// Time of day, ms since 1970 in UTC. It may jump.
pub fn wall_ms() -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    tv_sec.unsigned_abs() * 1000 + tv_nsec.unsigned_abs() / 1_000_000
}

/// CPU time of the calling thread, ns.
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of the process, ns.
pub fn process_cpu() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

/// A duration in the form of system calls.
pub fn timespec(duration: Nanos) -> Timespec {
    Timespec { tv_sec: (duration / 1_000_000_000).cast_signed(), tv_nsec: (duration % 1_000_000_000).cast_signed() }
}
