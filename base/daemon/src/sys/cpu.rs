//! Cores of threads.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use std::io;
use std::num::NonZeroU64;
use std::thread;

/// Ties the calling thread to one core.
///
/// # Errors
/// There is no such core, or this process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    limit(&[cpu])
}

/// Lets the calling thread run on these cores only.
///
/// # Errors
/// One of the numbers is too large, or this process may use none of them.
pub fn limit(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus {
        if *cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(*cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Whether a thread of this process may be tied to that core. A core that the kernel reserves (`isolcpus`) must be
/// named explicitly, and is not in [`allowed`].
pub fn is_usable(cpu: usize) -> bool {
    allowed().contains(&cpu) || thread::spawn(move || pin(cpu).is_ok()).join().unwrap_or(false)
}

/// The cores that this process may use, in order.
pub fn allowed() -> Vec<usize> {
    sched_getaffinity(None)
        .map_or_else(|_| vec![0], |set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// The one core that the process of this number may use. `None`: there are several, or they are not known.
pub fn only(pid: u32) -> Option<usize> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    let set = sched_getaffinity(Some(pid)).ok().filter(|set| set.count() == 1)?;
    (0..CpuSet::MAX_CPU).find(|cpu| set.is_set(*cpu))
}

/// Timed sleeps of the calling thread end as close to their time as the kernel can (the default slack is 50 us).
pub fn precise_sleep() {
    // A failure costs precision only.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}
