//! The cases of the bake-off.

use super::run::{Card, Change, Run, Traffic};
use super::{LOADS, Setup};
use crate::engine::Random;
use sidecore_core::policy::balance::Balance;

pub(super) const POOLS: &str = "pools";

/// Requests of a run in a random pool, and in a special case.
const REQUESTS: u32 = 200_000;
const MORE_REQUESTS: u32 = 400_000;
/// Fraction of a run before counting begins.
const WARM_UP: f64 = 0.2;

pub(super) struct Case {
    pub(super) scenario: &'static str,
    pub(super) seed: u64,
    pub(super) run: Run,
}

/// The special cases, then the random pools, with this depth of devices.
pub(super) fn all(setup: &Setup, depth: Option<u32>) -> Vec<Case> {
    let case = |scenario, seed, run| {
        let mut run = Run { depth, burst: setup.burst, ..run };
        if setup.slow > 1.0 && run.change.is_none() {
            run.change = Some(Change { after: 0.5, device: run.quickest(), slower: setup.slow });
            (run.warm_up, run.requests) = (0.5, 2 * run.requests);
        }
        Case { scenario, seed, run }
    };
    let single = |scenario, run| case(scenario, 1, run);
    let mut cases: Vec<Case> = LOADS.map(|load| single("regression", regression(Traffic::Open(load)))).into();
    let heavy_tail = Run { sizes: pareto(64.0, 1_048_576.0), ..regression(Traffic::Open(0.8)) };
    // Devices that are alike: prices say nothing.
    let alike = Run { cards: vec![Card::new(1_000.0, 0.6); 4], ..heavy_tail.clone() };
    let change = Some(Change { after: 0.25, device: 0, slower: 4.0 });
    let mut misled = regression(Traffic::Open(0.9));
    for (number, card) in misled.cards.iter_mut().enumerate() {
        card.reports = if number % 2 == 0 { 0.8 } else { 1.2 };
    }
    cases.extend([
        single("regression", regression(Traffic::Closed(64))),
        single("heavy tail", heavy_tail),
        single("alike", alike),
        single("slowed", Run { change, ..regression(Traffic::Open(0.6)) }),
        single("misled", misled),
    ]);
    let pools = (0..setup.seeds).flat_map(|seed| LOADS.map(|load| case(POOLS, seed, random_pool(seed, load))));
    cases.extend(pools);
    cases
}

/// A case of comparative advantage: all devices are equal at long requests, and two are slower at short ones.
fn regression(traffic: Traffic) -> Run {
    let cards = [(350.0, 0.589), (350.0, 0.589), (1_250.0, 0.595), (1_250.0, 0.595)];
    Run {
        cards: cards.map(|(fixed, per_byte)| Card::new(fixed, per_byte)).into(),
        sizes: vec![(0.95, 256), (0.05, 16_384)],
        traffic,
        requests: MORE_REQUESTS,
        warm_up: WARM_UP,
        balance: Balance::Eft,
        change: None,
        depth: None,
        burst: 0,
    }
}

/// The case of comparative advantage, at this fraction of its fluid capacity.
pub fn regression_pool(load: f64) -> Run {
    regression(Traffic::Open(load))
}

/// The random pool of this seed, at this fraction of its fluid capacity: 3 to 8 devices of 0.1 to 5 us and 0.02 to 2
/// ns/B; 2 to 4 sizes from 16 B to 16 KiB in random proportions.
pub fn random_pool(seed: u64, load: f64) -> Run {
    let mut random = Random::new(seed);
    let random = &mut random;
    let devices = 3 + random.below(6);
    let cards = (0..devices).map(|_| Card::new(between(random, 100.0, 5_000.0), between(random, 0.02, 2.0))).collect();
    let kinds = 2 + random.below(3);
    let mut parts: Vec<(f64, u32)> =
        (0..kinds).map(|_| (random.exponential(1.0), between(random, 16.0, 16_384.0) as u32)).collect();
    let sum: f64 = parts.iter().map(|(part, _)| part).sum();
    for (part, _) in &mut parts {
        *part /= sum;
    }
    Run { cards, sizes: parts, requests: REQUESTS, ..regression(Traffic::Open(load)) }
}

/// Pareto with shape 1 between two sizes, bytes, in quarters of octaves: half the number of requests at double the
/// size, so each octave has the same share of the bytes.
fn pareto(least: f64, most: f64) -> Vec<(f64, u32)> {
    let step = 2.0_f64.sqrt().sqrt();
    let norm = 1.0 - least / most;
    let (mut kinds, mut from) = (Vec::new(), least);
    while from < most {
        let to = (from * step).min(most);
        let part = (least / from - least / to) / norm;
        // The density falls with the square of the size, so the mean is near the geometric one.
        kinds.push((part, (from * to).sqrt().round() as u32));
        from = to;
    }
    kinds
}

/// Uniform over the logarithm. Uses only square roots and products, which are the same on every machine.
fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    let bits = random.bits();
    let (mut value, mut root) = (low, high / low);
    for bit in 0..24 {
        root = root.sqrt();
        if bits >> bit & 1 != 0 {
            value *= root;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_values_are_even_over_the_logarithm() {
        let mut random = Random::new(1);
        let values: Vec<f64> = (0..20_000).map(|_| between(&mut random, 1.0, 16.0)).collect();
        assert!(values.iter().all(|value| (1.0..16.0).contains(value)));
        for octave in [1.0, 2.0, 4.0, 8.0] {
            let inside = values.iter().filter(|value| (octave..2.0 * octave).contains(*value)).count();
            assert!((4_700..5_300).contains(&inside), "{octave}: {inside}");
        }
    }

    #[test]
    fn sizes_with_a_heavy_tail_have_their_mean() {
        let sizes = pareto(64.0, 65_536.0);
        let total: f64 = sizes.iter().map(|(part, _)| part).sum();
        let mean: f64 = sizes.iter().map(|(part, size)| part * f64::from(*size)).sum();
        let expected = 64.0 * 1024_f64.ln() / (1.0 - 1.0 / 1024.0);
        assert!((total - 1.0).abs() < 1e-9 && (mean / expected - 1.0).abs() < 0.02, "{mean} {expected}");
    }

    #[test]
    fn a_device_that_slows_down_is_the_quickest_and_the_load_follows() {
        let setup = Setup { slow: 3.0, ..Setup::of(3) };
        let (slowed, plain) = (all(&setup, None), all(&Setup::of(3), None));
        for (slowed, plain) in slowed.iter().zip(&plain).filter(|(_, plain)| plain.run.change.is_none()) {
            let change = slowed.run.change.unwrap();
            let mean = |card: &Card| plain.run.sizes.iter().map(|(part, size)| part * card.time(*size)).sum::<f64>();
            assert!(plain.run.cards.iter().all(|card| mean(card) >= mean(&plain.run.cards[change.device])));
            assert!(slowed.run.capacity() < plain.run.capacity());
            assert_eq!((change.after, slowed.run.warm_up), (0.5, 0.5));
        }
    }

    #[test]
    fn a_pool_is_its_seed() {
        assert_eq!(random_pool(3, 0.8), random_pool(3, 0.8));
        assert_ne!(random_pool(3, 0.8).cards, random_pool(4, 0.8).cards);
        let pools: Vec<Run> = (0..60).map(|seed| random_pool(seed, 0.8)).collect();
        assert!(pools.iter().all(|pool| (3..=8).contains(&pool.cards.len()) && pool.capacity() > 0.0));
    }

    #[test]
    fn the_capacity_of_the_regression_case_is_known() {
        // The two fast devices do all short requests and some long ones: 0.95 x 500.8 ns + part x 10000.2 ns.
        let capacity = regression(Traffic::Open(0.8)).capacity();
        let work = |fixed: f64, per_byte: f64, size: f64| fixed + per_byte * size;
        let (short, long) = (work(350.0, 0.589, 256.0), work(350.0, 0.589, 16_384.0));
        let slow_long = work(1_250.0, 0.595, 16_384.0);
        // Per request: the fast ones together do 2, the slow ones 2 units of time; long ones are split in x.
        let x = (0.95 * short + 0.05 * long) / (slow_long + long);
        let expected = 2.0 / (slow_long * x.min(0.05));
        assert!((capacity / expected - 1.0).abs() < 1e-9, "{capacity} {expected}");
    }
}
