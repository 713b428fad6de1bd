//! The one place that reads clocks.

use rustix::time::{ClockId, Timespec, clock_gettime};
use sidecore_core::time::Nanos;

/// So much slower than the machine's clocks: 1, but while instructions are counted, when a program takes a hundred times as
/// long and what is done now and then would be done all the time.
const SLOWED: Nanos = if option_env!("SIDECORE_SLOW_CLOCK").is_some() { 1000 } else { 1 };

fn read(id: ClockId) -> Nanos {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(id);
    (tv_sec.unsigned_abs() * 1_000_000_000 + tv_nsec.unsigned_abs()) / SLOWED
}

/// The machine's monotonic clock, ns. The same in all processes of the machine. Costs about 20 ns.
#[inline]
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// CPU time that the calling thread used, ns.
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// CPU time that all threads of the process used, ns.
pub fn process_cpu() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

/// A duration as system calls take it.
pub fn timespec(duration: Nanos) -> Timespec {
    Timespec { tv_sec: (duration / 1_000_000_000).cast_signed(), tv_nsec: (duration % 1_000_000_000).cast_signed() }
}
