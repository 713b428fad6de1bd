//! Costs of a sleep and a wake-up on this machine.

use super::wake;
use sidecore_core::time::Nanos;
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::poll::wait_readable;
use std::io;
use std::os::fd::AsFd;
use std::thread;

const SLEEPS: usize = 31;
/// Bounds of the cost of a sleep and a wake-up, ns: outside them the measurement was disturbed.
const PARK_COST: std::ops::RangeInclusive<Nanos> = 1_000..=100_000;
/// The same for the time of a wake-up.
const WAKE_TIME: std::ops::RangeInclusive<Nanos> = 1_000..=1_000_000;
/// Rank of the sleep that gives the time of a wake-up.
const WAKE_TIME_RANK: usize = SLEEPS * 9 / 10;

/// Costs of a sleep and a wake-up on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkTimes {
    /// CPU time of both, ns: the median.
    pub cost: Nanos,
    /// Time from a ring until the sleeper runs, ns: that of nine in ten sleeps is no longer.
    pub wake: Nanos,
}

impl ParkTimes {
    /// Defaults until the measurement ends.
    pub const ASSUMED: Self = Self { cost: 5_000, wake: 20_000 };
}

/// Measures a ping-pong where each side sleeps until the other wakes it: one side's CPU time, and half of the
/// round trip.
///
/// # Errors
///
/// If pipes cannot be made.
pub fn park_times() -> io::Result<ParkTimes> {
    let (there, back) = (wake::pipe()?, wake::pipe()?);
    let echo = thread::spawn(move || {
        for _ in 0..SLEEPS {
            let _ = wait_readable(there.0.as_fd(), None);
            wake::drain_pipe(&there.0);
            wake::ring_pipe(&back.1);
        }
        back.1
    });
    let (mut costs, mut wakes) = ([0; SLEEPS], [0; SLEEPS]);
    for (cost, wake) in costs.iter_mut().zip(&mut wakes) {
        let (began, start) = (clock::now(), clock::thread_cpu());
        wake::ring_pipe(&there.1);
        wait_readable(back.0.as_fd(), None)?;
        wake::drain_pipe(&back.0);
        *cost = clock::thread_cpu() - start;
        *wake = (clock::now() - began) / 2;
    }
    // Its end of the pipe lives until the thread is no longer needed.
    let _ = echo.join();
    let cost = at(costs, SLEEPS / 2).clamp(*PARK_COST.start(), *PARK_COST.end());
    let wake = at(wakes, WAKE_TIME_RANK).clamp(*WAKE_TIME.start(), *WAKE_TIME.end());
    Ok(ParkTimes { cost, wake })
}

fn at(mut values: [Nanos; SLEEPS], rank: usize) -> Nanos {
    values.sort_unstable();
    values[rank]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_sleeps_may_be_disturbed() {
        let disturbed = |few: Nanos, most: Nanos| std::array::from_fn(|i| if i < SLEEPS / 2 { few } else { most });
        assert_eq!(at(disturbed(1, 5_000), SLEEPS / 2), 5_000);
        assert_eq!(at(disturbed(9_000_000, 5_000), SLEEPS / 2), 5_000);
    }

    #[test]
    fn what_a_sleep_takes_is_within_bounds() {
        let ParkTimes { cost, wake } = park_times().unwrap();
        assert!(PARK_COST.contains(&cost) && WAKE_TIME.contains(&wake), "{cost} {wake}");
    }
}
