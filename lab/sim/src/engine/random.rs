//! Random numbers of a run: one generator, one seed.

use rand::Rng;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The generator of a run.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform integer from 0 to `end` - 1; 0 if `end` is 0. Source: Lemire's multiplication, without its rejection:
    /// the bias is below `end` / 2^64.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Uniform from 0 to below 1.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential with this mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        let sample: f64 = Exp1.sample(&mut self.0);
        sample * mean
    }

    /// Uniform from (1 - `part`) to (1 + `part`) times the mean.
    #[inline]
    pub fn around(&mut self, mean: f64, part: f64) -> f64 {
        mean * (1.0 + part * (2.0 * self.uniform() - 1.0))
    }

    /// Normally distributed.
    #[inline]
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let sample: f64 = StandardNormal.sample(&mut self.0);
        mean + sample * deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_as_asked() {
        let mut random = Random::new(1);
        let mut mean = |draw: &dyn Fn(&mut Random) -> f64| (0..100_000).map(|_| draw(&mut random)).sum::<f64>() / 1e5;
        assert!((mean(&|r| r.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean(&|r| r.normal(5.0, 2.0)) - 5.0).abs() < 0.05);
        assert!((mean(&|r| r.below(11) as f64) - 5.0).abs() < 0.05);
        assert!((mean(&Random::uniform) - 0.5).abs() < 0.01);
    }

    #[test]
    fn numbers_stay_the_same_in_every_version() {
        let mut random = Random::new(42);
        assert_eq!([random.bits(), random.bits()], [0xd076_4d4f_4476_689f, 0x519e_4174_576f_3791]);
    }
}
