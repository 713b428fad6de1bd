//! How large requests are.

use crate::engine::Random;

/// Sizes of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// So many bytes with that probability each; probabilities sum to 1.
    Mix(Vec<(f64, u32)>),
    /// Pareto with shape 1 between two sizes, bytes: half as many requests of double the size, and each octave has the
    /// same part of the bytes.
    Pareto(u32, u32),
}

impl Sizes {
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        let uniform = random.uniform();
        match self {
            Self::Mix(parts) => {
                let mut sum = 0.0;
                let found = parts.iter().find(|(part, _)| {
                    sum += part;
                    uniform < sum
                });
                found.or(parts.last()).map_or(0, |(_, size)| *size)
            }
            Self::Pareto(least, most) => {
                let (least, most) = (f64::from(*least), f64::from(*most));
                (least / (1.0 - uniform * (1.0 - least / most))) as u32
            }
        }
    }

    /// Probability and mean size of each kind: the sizes themselves, or quarters of octaves.
    pub(super) fn kinds(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Mix(parts) => parts.iter().map(|(part, size)| (*part, f64::from(*size))).collect(),
            Self::Pareto(least, most) => pareto_kinds(f64::from(*least), f64::from(*most)),
        }
    }
}

fn pareto_kinds(least: f64, most: f64) -> Vec<(f64, f64)> {
    let step = 2.0_f64.sqrt().sqrt();
    let norm = 1.0 - least / most;
    let mut kinds = Vec::new();
    let mut from = least;
    while from < most {
        let to = (from * step).min(most);
        let part = (least / from - least / to) / norm;
        // The density falls with the square of the size: the mean lies near the geometric one.
        kinds.push((part, (from * to).sqrt()));
        from = to;
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(sizes: &Sizes) -> f64 {
        let mut random = Random::new(3);
        (0..1_000_000).map(|_| f64::from(sizes.draw(&mut random))).sum::<f64>() / 1e6
    }

    #[test]
    fn what_is_drawn_is_what_the_program_is_told() {
        for sizes in [Sizes::Mix(vec![(0.95, 256), (0.05, 16_384)]), Sizes::Pareto(64, 65_536)] {
            let kinds = sizes.kinds();
            let total: f64 = kinds.iter().map(|(part, _)| part).sum();
            let expected: f64 = kinds.iter().map(|(part, size)| part * size).sum();
            let drawn = mean(&sizes);
            assert!((total - 1.0).abs() < 1e-9 && (drawn / expected - 1.0).abs() < 0.02, "{drawn} {expected}");
        }
    }
}
