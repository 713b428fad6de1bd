//! scratch
use crate::engine::Random;
use crate::world::pool::{Card, Sizes};

/// x
pub fn between(random: &mut Random, low: f64, high: f64) -> f64 {
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

/// x
pub fn random_pool(seed: u64) -> (Vec<Card>, Sizes) {
    let mut random = Random::new(seed);
    let cards = (0..3 + random.below(6))
        .map(|_| Card::new(between(&mut random, 100.0, 5_000.0), between(&mut random, 0.02, 2.0)))
        .collect();
    let mut parts: Vec<(f64, u32)> = (0..2 + random.below(3))
        .map(|_| (random.exponential(1.0), between(&mut random, 16.0, 16_384.0) as u32))
        .collect();
    let sum: f64 = parts.iter().map(|(part, _)| part).sum();
    parts.iter_mut().for_each(|(part, _)| *part /= sum);
    (cards, Sizes::Mix(parts))
}
