//! Forecasts of completion times, with their uncertainty.
//!
//! A waiter gets a [`Forecast`] under `predict`. A [`Forecaster`] makes it from the observed times of requests of
//! this class and size. It uses [`Rates`] for the mean and keeps the mean absolute deviation, as TCP does for its
//! round-trip time. Source: Jacobson, "Congestion avoidance and control", SIGCOMM 1988.

use crate::policy::balance::Rates;
use crate::session::Class;
use crate::time::Nanos;
use alloc::boxed::Box;
use alloc::vec;

/// Standard deviation over mean absolute deviation of normally distributed values.
const SIGMA: f32 = 1.253;
/// Weight of a new observation: 1 in this number, once there were as many.
const WINDOW: u8 = 8;
/// Observations needed for a forecast.
const ENOUGH: u8 = 4;
/// Limit of an observation's distance from its estimate: this number of standard deviations, and this part of the
/// estimate. One interrupted request must not spoil the forecasts of the next ten.
const CREDIBLE: (f32, f32) = (4.0, 1.0 / 32.0);

/// An expected instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The instant, ns.
    pub at: Nanos,
    /// Standard deviation, ns.
    pub sigma: Nanos,
}

/// Completion times by class and size.
#[derive(Clone, Debug)]
pub struct Forecaster {
    rates: Rates,
    /// By class and half-octave of size.
    deviations: Box<[[Deviation; Rates::BUCKETS]]>,
}

impl Forecaster {
    /// Nothing is known. Allocates its tables, 42 KiB, and nothing after that.
    pub fn new() -> Self {
        let none = [Deviation { mean: 0.0, seen: 0 }; Rates::BUCKETS];
        Self { rates: Rates::new(), deviations: vec![none; Class::COUNT].into_boxed_slice() }
    }

    /// A request of this class and size (bytes) took this long (ns).
    pub fn observe(&mut self, class: Class, size: u32, took: Nanos) {
        let deviation = &mut self.deviations[class.index()][Rates::bucket(size)];
        if deviation.seen == 0 {
            self.rates.observe(class, size, took);
            deviation.seen = 1;
            return;
        }
        let estimate = self.rates.estimate(class, size) as f32;
        let limit = match deviation.seen {
            WINDOW => deviation.sigma() * CREDIBLE.0 + estimate * CREDIBLE.1,
            _ => f32::MAX,
        };
        let off = took as f32 - estimate;
        deviation.observe(off.abs().min(limit));
        self.rates.observe(class, size, (estimate + off.clamp(-limit, limit)) as Nanos);
    }

    /// When a request of this class and size (bytes) that was submitted at `submitted` will be complete; `None` before
    /// enough of its size were observed.
    pub fn forecast(&self, class: Class, size: u32, submitted: Nanos) -> Option<Forecast> {
        let deviation = &self.deviations[class.index()][Rates::bucket(size)];
        let at = submitted.saturating_add(self.rates.estimate(class, size));
        (deviation.seen >= ENOUGH).then(|| Forecast { at, sigma: deviation.sigma() as Nanos })
    }
}

impl Default for Forecaster {
    fn default() -> Self {
        Self::new()
    }
}

/// Moving average of the distance from the estimate.
#[derive(Clone, Copy, Debug)]
struct Deviation {
    /// In ns.
    mean: f32,
    /// Observations, up to `WINDOW`.
    seen: u8,
}

impl Deviation {
    /// The first observation of a bucket has no estimate of its own, so the second is the first here.
    fn observe(&mut self, off: f32) {
        self.mean += (off - self.mean) / f32::from(self.seen);
        self.seen = (self.seen + 1).min(WINDOW);
    }

    fn sigma(self) -> f32 {
        self.mean * SIGMA
    }
}

/// Mean excess of a sleep beyond its given time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overshoot {
    /// In ns.
    mean: f32,
    deviation: Deviation,
}

impl Overshoot {
    pub(super) fn new() -> Self {
        Self { mean: 0.0, deviation: Deviation { mean: 0.0, seen: 0 } }
    }

    /// A sleep lasted this much longer, ns. Outliers are limited as in [`Forecaster`].
    pub(super) fn observe(&mut self, late: Nanos) {
        let late = late as f32;
        if self.deviation.seen == 0 {
            self.mean = late;
            self.deviation.seen = 1;
            return;
        }
        let off = late - self.mean;
        let limit =
            if self.deviation.seen == WINDOW { self.deviation.sigma() * CREDIBLE.0 + self.mean } else { f32::MAX };
        self.mean += off.clamp(-limit, limit) / f32::from(self.deviation.seen.max(2));
        self.deviation.observe(off.abs().min(limit));
    }

    /// No sleep was tried: the mean decays, so that one is tried again some time.
    pub(super) fn fade(&mut self) {
        self.mean -= self.mean / 256.0;
    }

    pub(super) fn mean(&self) -> Nanos {
        self.mean as Nanos
    }

    pub(super) fn sigma(&self) -> Nanos {
        self.deviation.sigma() as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observes times that go through these distances from 20 us in turn.
    fn observed(offsets: &[i64], count: usize) -> Forecaster {
        let mut forecaster = Forecaster::new();
        for offset in offsets.iter().cycle().take(count) {
            forecaster.observe(Class::NOOP, 1_024, 20_000_u64.saturating_add_signed(*offset));
        }
        forecaster
    }

    fn forecast(forecaster: &Forecaster, size: u32) -> Option<Forecast> {
        forecaster.forecast(Class::NOOP, size, 1_000_000)
    }

    #[test]
    fn little_is_nothing() {
        assert_eq!(forecast(&observed(&[0], 3), 1_024), None);
        assert_eq!(forecast(&observed(&[0], 4), 1_024), Some(Forecast { at: 1_020_000, sigma: 0 }));
        assert_eq!(forecast(&observed(&[0], 4), 16_384), None, "another size");
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_observed() {
        let Forecast { at, sigma } = forecast(&observed(&[200, -200], 1_000), 1_024).unwrap();
        assert!(at.abs_diff(1_020_000) < 50, "{at}");
        assert!((200..300).contains(&sigma), "{sigma}");
    }

    #[test]
    fn an_outlier_moves_little_and_a_change_is_followed() {
        let mut forecaster = observed(&[200, -200], 1_000);
        forecaster.observe(Class::NOOP, 1_024, 10_000_000);
        let Forecast { at, sigma } = forecast(&forecaster, 1_024).unwrap();
        assert!(at < 1_020_400 && sigma < 600, "{at} {sigma}");
        (0..60).for_each(|_| forecaster.observe(Class::NOOP, 1_024, 60_000));
        let Forecast { at, sigma } = forecast(&forecaster, 1_024).unwrap();
        assert!(at.abs_diff(1_060_000) < 500 && sigma < 500, "{at} {sigma}");
    }

    #[test]
    fn sizes_within_a_half_octave_are_told_apart() {
        let mut forecaster = Forecaster::new();
        for size in [(1_024, 2_048), (2_048, 3_072), (1_100, 2_124), (1_500, 2_524)].iter().cycle().take(400) {
            forecaster.observe(Class::NOOP, size.0, size.1);
        }
        let at = forecast(&forecaster, 1_250).unwrap().at;
        assert!(at.abs_diff(1_002_274) < 100, "{at}");
    }

    #[test]
    fn extremes_are_survived() {
        let mut forecaster = Forecaster::default();
        for took in [Nanos::MAX, 0, Nanos::MAX, 1, 0, Nanos::MAX, 3, 5, 0, Nanos::MAX] {
            forecaster.observe(Class::NOOP, u32::MAX, took);
        }
        let forecast = forecaster.forecast(Class::NOOP, u32::MAX, Nanos::MAX).unwrap();
        assert_eq!(forecast.at, Nanos::MAX);
    }

    #[test]
    fn an_overshoot_is_a_mean_that_fades() {
        let mut overshoot = Overshoot::new();
        assert_eq!((overshoot.mean(), overshoot.sigma()), (0, 0));
        (0..100).for_each(|i| overshoot.observe(4_900 + i % 2 * 200));
        assert!(overshoot.mean().abs_diff(5_000) < 50 && (90..160).contains(&overshoot.sigma()));
        overshoot.observe(50_000_000);
        assert!(overshoot.mean() < 6_000, "{}", overshoot.mean());
        (0..1_000).for_each(|_| overshoot.fade());
        assert!(overshoot.mean() < 300);
    }
}
