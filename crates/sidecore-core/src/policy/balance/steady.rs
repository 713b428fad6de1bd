//! Learnt times for prices: long averages, which begin anew when a device has changed.
//!
//! [`Rates`] follow each change within some requests, and thus the noise of random times too. Prices turn small errors
//! of times into wrong devices for all requests until the next prices. Here an observation has the weight 1 in
//! [`WINDOW`]. A test of each cell finds a change that such an average would follow too late.
//!
//! The test is the cumulative sum of Page ("Continuous inspection schemes", Biometrika 41, 1954), once for slower and
//! once for faster. A term is the logarithm of the likelihood ratio of twice (half) the learnt time. Its model is a
//! gamma distribution with the variance seen: constant times need few observations, and exponential ones more. The sum
//! passes [`LIMIT`] with noise of constant, exponential and lognormal times in fewer than one of 100,000 observations.
//! The new average is the mean since the sum was last 0, Page's estimate of the time of the change.

use super::rates::{BUCKETS, bucket};
use super::{Measured, Rates};
use crate::session::Class;
use crate::time::Nanos;
use alloc::boxed::Box;
use alloc::vec;
use core::f32::consts::LN_2;

/// A new observation has the weight 1 in this number, once there are as many.
const WINDOW: u16 = 256;
/// Observations of a cell before its average is tested.
const TRUSTED: u16 = 32;
/// Observations of a cell after which prices may rely on its average.
const SETTLED: u16 = 64;
/// Limit of an observation, in multiples of its estimate.
const CLAMP: f32 = 8.0;
/// Sum of log-likelihood ratios that counts as a change.
const LIMIT: f32 = 12.0;
/// Most that one observation adds to a sum: an outlier is no change, nor are two.
const STEP: f32 = LIMIT / 4.0;
/// Limits of the gamma distribution's shape, 1 over its squared coefficient of variation.
const SHAPES: (f32, f32) = (0.25, 16.0);

/// Result of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learnt {
    /// An average moved a little.
    Little,
    /// A device became slower or faster: averages from before are void.
    Change,
    /// An average has enough observations now, at first or after a change.
    Enough,
}

#[derive(Clone, Debug)]
pub(crate) struct SteadyRates {
    rates: Rates,
    /// By class and half-octave of size.
    tests: Box<[ChangeTest]>,
}

impl SteadyRates {
    /// Begins with these averages. Allocates its tables.
    pub(crate) fn new(rates: &Rates) -> Self {
        let tests = vec![ChangeTest::NEW; Class::COUNT * BUCKETS].into_boxed_slice();
        Self { rates: rates.clone(), tests }
    }

    /// As [`Rates::estimate`].
    #[inline]
    pub(crate) fn estimate(&self, class: Class, size: u32) -> Nanos {
        self.rates.estimate(class, size)
    }

    /// As [`Rates::scale`].
    pub(crate) fn scale(&mut self, measured: &Measured) {
        self.rates.scale(measured);
        self.tests[measured.class.index() * BUCKETS..][..BUCKETS].fill(ChangeTest::NEW);
    }

    /// As [`Rates::adopt`].
    pub(crate) fn adopt(&mut self, others: &Rates) {
        self.rates.adopt(others);
    }

    /// A request of this class and size (bytes) took this long (ns).
    pub(crate) fn observe(&mut self, class: Class, size: u32, took: Nanos) -> Learnt {
        let ratio = (took as f32 / self.rates.expected(class, size).max(1.0)).min(CLAMP);
        let test = &mut self.tests[class.index() * BUCKETS + bucket(size)];
        let before = self.rates.seen(class, size);
        if before >= TRUSTED
            && let Some((factor, count)) = test.observe(ratio)
        {
            self.rates.restart(class, size, factor, count);
            return Learnt::Change;
        }
        self.rates.observe_within(class, size, took, WINDOW);
        let seen = (before + 1).min(WINDOW);
        test.learn(ratio, seen);
        if before < seen && seen == SETTLED { Learnt::Enough } else { Learnt::Little }
    }
}

/// Ratios of observed to expected times, since a sum was last 0.
#[derive(Clone, Copy, Debug)]
struct Excursion {
    sum: f32,
    ratios: f32,
    count: u16,
}

impl Excursion {
    const NONE: Self = Self { sum: 0.0, ratios: 0.0, count: 0 };

    /// The mean ratio and the number of observations, if there was a change.
    #[inline]
    fn add(&mut self, term: f32, ratio: f32) -> Option<(f32, u16)> {
        let sum = self.sum + term.min(STEP);
        if sum <= 0.0 {
            *self = Self::NONE;
            return None;
        }
        *self = Self { sum, ratios: self.ratios + ratio, count: self.count.saturating_add(1) };
        (sum > LIMIT).then(|| (self.ratios / f32::from(self.count), self.count))
    }
}

#[derive(Clone, Copy, Debug)]
struct ChangeTest {
    /// Mean squared deviation of the ratios from 1.
    variance: f32,
    slower: Excursion,
    faster: Excursion,
}

impl ChangeTest {
    const NEW: Self = Self { variance: 1.0, slower: Excursion::NONE, faster: Excursion::NONE };

    /// Whether the times changed: the factor, and the number of observations since.
    #[inline]
    fn observe(&mut self, ratio: f32) -> Option<(f32, u16)> {
        let (least, most) = SHAPES;
        let shape = (1.0 / self.variance).clamp(least, most);
        let slower = self.slower.add(shape * (ratio / 2.0 - LN_2), ratio);
        let faster = self.faster.add(shape * (LN_2 - ratio), ratio);
        let change = slower.or(faster);
        if change.is_some() {
            (self.slower, self.faster) = (Excursion::NONE, Excursion::NONE);
        }
        change
    }

    #[inline]
    fn learn(&mut self, ratio: f32, seen: u16) {
        self.variance += ((ratio - 1.0) * (ratio - 1.0) - self.variance) / f32::from(seen);
    }
}
