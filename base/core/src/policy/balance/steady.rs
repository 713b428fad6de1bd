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
/// Observations that a believed recovery counts as: one long request does not undo it.
const GUESSED: u16 = 16;
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
        let index = class.index() * BUCKETS + bucket(size);
        let test = &mut self.tests[index];
        let before = self.rates.cell_mut(index).seen();
        if before >= TRUSTED
            && let Some((factor, count)) = test.observe(ratio)
        {
            let before = if before < WINDOW { test.slowed } else { 1.0 };
            test.slowed = (before * factor).max(1.0);
            self.rates.cell_mut(index).restart(factor, count);
            if factor < 1.0 {
                self.believe_recovery(index, factor);
            }
            return Learnt::Change;
        }
        self.rates.observe_within(class, size, took, WINDOW);
        let seen = (before + 1).min(WINDOW);
        test.learn(ratio, seen);
        if before < seen && seen == SETTLED { Learnt::Enough } else { Learnt::Little }
    }

    /// A device became faster, by this cell. Others that became slower and had few observations since have recovered as well: with
    /// times too long they might get no request that shows it. Times too short are soon observed.
    fn believe_recovery(&mut self, by: usize, factor: f32) {
        for (index, test) in self.tests.iter_mut().enumerate() {
            let cell = self.rates.cell_mut(index);
            if index != by && test.slowed > 1.0 && cell.seen() < WINDOW {
                // Its time from before is known better than the factor.
                let whole = 1.0 / test.slowed;
                cell.restart(if factor * factor < whole { whole } else { factor }, GUESSED);
                *test = ChangeTest { variance: test.variance, ..ChangeTest::NEW };
            }
        }
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
    /// Multiple of its time before it became slower. It holds while the average is not one of [`WINDOW`] observations.
    slowed: f32,
    slower: Excursion,
    faster: Excursion,
}

impl ChangeTest {
    const NEW: Self = Self { variance: 1.0, slowed: 1.0, slower: Excursion::NONE, faster: Excursion::NONE };

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

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use alloc::vec::Vec;

    const MEAN: f64 = 10_000.0;
    const SIZE: u32 = 64;

    /// Uniform in (0, 1].
    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 33) as f64 + 1.0) / f64::from(1_u32 << 31)
        }

        fn exponential(&mut self) -> f64 {
            -self.uniform().ln()
        }

        /// With the mean 1, and this standard deviation of the logarithm. The normal value is a sum of 12.
        fn lognormal(&mut self, deviation: f64) -> f64 {
            let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
            (deviation * normal - deviation * deviation / 2.0).exp()
        }
    }

    type Draw = fn(&mut Random) -> f64;

    const NOISE: [(&str, Draw); 5] = [
        ("constant", |_| 1.0),
        ("exponential", Random::exponential),
        ("lognormal 0.5", |random| random.lognormal(0.5)),
        ("lognormal 1", |random| random.lognormal(1.0)),
        ("one of ten is long", |random| if random.uniform() < 0.1 { 5.5 } else { 0.5 }),
    ];

    fn observe(steady: &mut SteadyRates, class: Class, time: f64) -> Learnt {
        steady.observe(class, SIZE, (MEAN * time) as Nanos)
    }

    fn learnt(random: &mut Random, draw: Draw) -> SteadyRates {
        let mut steady = SteadyRates::new(&Rates::new());
        (0..2_000).for_each(|_| _ = observe(&mut steady, Class::NOOP, draw(random)));
        steady
    }

    #[test]
    fn noise_is_no_change() {
        let mut random = Random(1);
        for (name, draw) in NOISE {
            let mut steady = learnt(&mut random, draw);
            let all = 300_000;
            let changes =
                (0..all).filter(|_| observe(&mut steady, Class::NOOP, draw(&mut random)) == Learnt::Change).count();
            assert!(changes <= 3, "{name}: {changes} of {all}");
        }
    }

    /// Observations until a change is found, and the time of it relative to the true one; the median of 21.
    fn found(random: &mut Random, draw: Draw, factor: f64) -> (u32, f64) {
        let mut all: Vec<(u32, f64)> = (0..21)
            .map(|_| {
                let mut steady = learnt(random, draw);
                let mut count = 1;
                while observe(&mut steady, Class::NOOP, factor * draw(random)) != Learnt::Change {
                    count += 1;
                }
                (count, steady.estimate(Class::NOOP, SIZE) as f64 / (MEAN * factor))
            })
            .collect();
        all.sort_by_key(|(count, _)| *count);
        all[all.len() / 2]
    }

    #[test]
    fn a_change_is_found_after_a_few_observations() {
        let mut random = Random(2);
        for ((name, draw), most) in NOISE.into_iter().zip([5, 40, 15, 60, 60]) {
            for factor in [4.0, 0.25] {
                let (count, ratio) = found(&mut random, draw, factor);
                assert!(count <= most && (0.6..1.7).contains(&ratio), "{name} x {factor}: {count}, {ratio:.2}");
            }
        }
    }

    #[test]
    fn a_device_that_recovers_by_half_is_half_as_slow() {
        let mut steady = learnt(&mut Random(4), |_| 1.0);
        (0..40).for_each(|_| _ = observe(&mut steady, Class::NOOP, 4.0));
        while observe(&mut steady, Class::NOOP, 2.0) != Learnt::Change {}
        let time = steady.estimate(Class::NOOP, SIZE) as f64 / MEAN;
        assert!((1.8..2.2).contains(&time), "{time}");
    }

    #[test]
    fn a_device_that_recovers_for_one_class_has_recovered_for_those_without_requests() {
        let mut steady = learnt(&mut Random(3), |_| 1.0);
        let other = Class::all().find(|class| *class != Class::NOOP).unwrap();
        (0..300).for_each(|_| _ = observe(&mut steady, other, 1.0));
        let mut run = |class, time, count| (0..count).for_each(|_| _ = observe(&mut steady, class, time));
        run(other, 4.0, 10);
        run(Class::NOOP, 4.0, 300);
        run(Class::NOOP, 1.0, 10);
        let time = steady.estimate(other, SIZE) as f64 / MEAN;
        assert!((0.9..1.1).contains(&time), "{time}");
    }
}
