//! Costs of a sleep and a wake-up, and the time of each operation, on this machine.
//!
//! The measurement runs after the service listens, because clients wait for its start. Until then default values
//! hold. Wrong values cost choices, never results.

use crate::engine::crypto::Session;
use crate::engine::crypto::sample;
use crate::sys::measuring;
use sidecore_core::policy::balance::Rates;
use sidecore_core::session::{Algorithm, Class, Op};
use sidecore_core::time::Nanos;
use sidecore_daemon::sys::park::{ParkTimes, park_times};
use sidecore_ipc::sys::clock;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// Payload sizes of the measurements, bytes.
const SIZES: [u32; 3] = [64, 1024, 16_384];
/// Runs of each measurement; the fastest counts: the others include noise of a starting machine.
const RUNS: u32 = 3;
/// An operation this long is run once: such noise is small beside it.
const LONG: Nanos = 1_000_000;
const TURN: Duration = Duration::from_micros(100);

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
    /// Measures sleeps, and operations of up to `max_request` bytes. Takes 0.2 s on an idle core; `stop` ends it
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
            let _alone = measuring::alone();
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
        if took >= LONG {
            break;
        }
    }
    Some(Sample { class, input: sample.input.len() as u32, took })
}

#[cfg(test)]
mod tests {
    use super::*;

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
