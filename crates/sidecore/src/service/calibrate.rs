//! Costs of a sleep and a wake-up, and the time of each operation, on this machine.
//!
//! The measurement runs after the service listens, because clients wait for its start. Until then default values
//! hold. Wrong values cost choices, never results.

use crate::engine::crypto::Session;
use crate::engine::crypto::sample;
use crate::sys::poll::wait_readable;
use crate::sys::{clock, wake};
use sidecore_core::policy::balance::Rates;
use sidecore_core::session::{Algorithm, Class, Op};
use sidecore_core::time::Nanos;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

/// Payload sizes of the measurements, bytes.
const SIZES: [u32; 3] = [64, 1024, 16_384];
/// Runs of each measurement; the fastest counts: the others include noise of a starting machine.
const RUNS: u32 = 3;
const TURN: Duration = Duration::from_micros(100);
/// Measured sleeps; the median counts.
const SLEEPS: usize = 31;
/// Bounds of the cost of a sleep and a wake-up, ns: outside them the measurement was disturbed.
const PARK_COST: std::ops::RangeInclusive<Nanos> = 1_000..=100_000;
/// The same for the time of a wake-up.
const WAKE_TIME: std::ops::RangeInclusive<Nanos> = 1_000..=1_000_000;
/// Rank of the sleep that gives the time of a wake-up.
const WAKE_TIME_RANK: usize = SLEEPS * 9 / 10;

#[derive(Clone, Copy, Debug)]
struct Sample {
    class: Class,
    input: u32,
    took: Nanos,
}

/// Empty until the measurement ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Calibration(Arc<OnceLock<Measured>>);

#[derive(Debug)]
struct Measured {
    park: ParkTimes,
    samples: Vec<Sample>,
}

impl Calibration {
    /// Measures sleeps, and operations of up to `max_request` bytes. Takes 0.3 s on an idle core; `stop` ends it
    /// without a result.
    pub(super) fn measure(&self, max_request: u32, stop: &AtomicBool) -> io::Result<()> {
        let park = park_times()?;
        let sizes = SIZES.map(|size| size.min(max_request) as usize);
        let mut samples = Vec::new();
        for class in Class::all().filter(|class| like(*class).is_none()) {
            if stop.load(Ordering::Acquire) {
                return Ok(());
            }
            // Lets a waiting batch device take the lock.
            thread::sleep(TURN);
            let _alone = UNDISTURBED.write().unwrap_or_else(PoisonError::into_inner);
            let (session, of_class) = sample::samples(class, &sizes, 1);
            samples.extend(of_class.iter().filter_map(|sample| measure(&session, class, sample)));
        }
        for (class, (known, times)) in Class::all().filter_map(|class| Some((class, like(class)?))) {
            let known: Vec<Sample> = samples.iter().filter(|sample| sample.class == known).copied().collect();
            samples.extend(known.into_iter().map(|sample| Sample { class, took: sample.took * times, ..sample }));
        }
        self.0.get_or_init(|| Measured { park, samples });
        Ok(())
    }

    pub(super) fn park(&self) -> ParkTimes {
        self.0.get().map_or(ParkTimes::ASSUMED, |measured| measured.park)
    }

    /// Rates of a device with times that `took` computes from this machine's time and the bytes of input. Empty until
    /// the measurement ends.
    pub(super) fn rates(&self, took: impl Fn(Nanos, u32) -> Nanos) -> Rates {
        let mut rates = Rates::new();
        for sample in self.0.get().iter().flat_map(|measured| &measured.samples) {
            rates.observe(sample.class, sample.input, took(sample.took, sample.input));
        }
        rates
    }
}

/// Write-locked while this module measures one class. Batch devices measure under read locks, so they wait for one
/// class at most.
static UNDISTURBED: RwLock<()> = RwLock::new(());

/// Held while a batch device measures.
pub(crate) fn undisturbed() -> RwLockReadGuard<'static, ()> {
    UNDISTURBED.read().unwrap_or_else(PoisonError::into_inner)
}

/// Rates of a device whose time depends on the input size alone.
pub(super) fn rates_by_size(took: impl Fn(u32) -> Nanos) -> Rates {
    let mut rates = Rates::new();
    for class in Class::all() {
        for size in SIZES {
            rates.observe(class, size, took(size));
        }
    }
    rates
}

/// For a class that would take longer to measure than all others together: a smaller class, and the ratio of their
/// times. Private operations grow with the third power of the modulus's length, public ones with the second.
fn like(class: Class) -> Option<(Class, Nanos)> {
    let (private, public) = match class.algorithm() {
        Algorithm::Rsa6144 => (4, 2),
        Algorithm::Rsa8192 => (8, 4),
        _ => return None,
    };
    let times = if matches!(class.op(), Op::Encrypt | Op::Verify) { public } else { private };
    Some((Class::of(Algorithm::Rsa4096, class.op())?, times))
}

fn measure(session: &Session, class: Class, sample: &sample::Sample) -> Option<Sample> {
    let mut output = vec![0; sample.output_len];
    let mut took = Nanos::MAX;
    for _ in 0..RUNS {
        let start = clock::now();
        session.run(sample.op, sample.head_len, &sample.input, &mut output).ok()?;
        took = took.min(clock::now() - start);
    }
    Some(Sample { class, input: sample.input.len() as u32, took })
}

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
    pub(crate) const ASSUMED: Self = Self { cost: 5_000, wake: 20_000 };
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

    #[test]
    fn this_machine_is_measured() {
        let calibration = Calibration::default();
        assert!(calibration.park() == ParkTimes::ASSUMED && !calibration.rates(|here, _| here).known(Class::NOOP));
        calibration.measure(65_536, &AtomicBool::new(false)).unwrap();
        let rates = calibration.rates(|here, _| here);
        for class in Class::all() {
            assert!(rates.known(class), "{}", class.name());
        }
        let modelled = rates_by_size(|bytes| 1000 + Nanos::from(bytes));
        let class = Class::from_name("aes-256-gcm").unwrap();
        assert!((16_000..20_000).contains(&modelled.estimate(class, 16_384)));
    }

    #[test]
    fn a_service_that_stops_measures_nothing_more() {
        let calibration = Calibration::default();
        calibration.measure(65_536, &AtomicBool::new(true)).unwrap();
        assert_eq!(calibration.park(), ParkTimes::ASSUMED);
    }
}
