//! Lengths of waits: a histogram that forgets.

use crate::time::Nanos;

/// Half-octaves from 64 ns to 47 ms; the last bin has no upper end.
const BINS: usize = 40;
/// Upper end of the first bin, ns.
const SHORTEST: Nanos = 64;
/// Gaps after which all weights are halved.
const HALVED_AFTER: u32 = 128;
/// A threshold below the park cost is clearly better if it costs at most this part of the park cost's cost.
const CLEARLY: f32 = 0.9;

/// Gaps by length, the recent ones with more weight. The sum in each bin is kept, so a mean is not off by a bin's
/// width.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    bins: [Bin; BINS],
    since_halved: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    weight: f32,
    /// Their sum, ns.
    time: f32,
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self { bins: [Bin { weight: 0.0, time: 0.0 }; BINS], since_halved: 0 }
    }

    pub(super) fn record(&mut self, gap: Nanos) {
        if self.since_halved == HALVED_AFTER {
            self.since_halved = 0;
            for bin in &mut self.bins {
                bin.weight *= 0.5;
                bin.time *= 0.5;
            }
        }
        self.since_halved += 1;
        let bin = &mut self.bins[bin_of(gap)];
        bin.weight += 1.0;
        bin.time += gap as f32;
    }

    /// The threshold with the least cost over the gaps: 0, or the upper end of a bin. On a tie the first bin from the
    /// park cost up wins. A shorter one must be clearly better, since it learns less.
    pub(super) fn best_threshold(&self, park_cost: Nanos) -> Nanos {
        let usual = bin_of(park_cost);
        let all: f32 = self.bins.iter().map(|bin| bin.weight).sum();
        let at_usual = self.cost(usual, all, park_cost);
        let mut best = (at_usual, upper_end(usual));
        let mut consider = |cost: f32, threshold| {
            let enough = if threshold < park_cost { best.0.min(at_usual * CLEARLY) } else { best.0 };
            if cost < enough {
                best = (cost, threshold);
            }
        };
        consider(all * park_cost as f32, 0);
        let (mut longer, mut spun) = (all, 0.0);
        for (number, bin) in self.bins.iter().enumerate() {
            longer -= bin.weight;
            spun += bin.time;
            let end = upper_end(number);
            consider(spun + longer.max(0.0) * (end as f32 + park_cost as f32), end);
        }
        best.1
    }

    fn cost(&self, last: usize, all: f32, park_cost: Nanos) -> f32 {
        let within = &self.bins[..=last];
        let (weight, time) = within.iter().fold((0.0, 0.0), |sum, bin| (sum.0 + bin.weight, sum.1 + bin.time));
        time + (all - weight).max(0.0) * (upper_end(last) as f32 + park_cost as f32)
    }
}

/// Two bins per octave: gaps up to 64, 96, 128, 192 ns and so on.
fn bin_of(gap: Nanos) -> usize {
    if gap <= SHORTEST {
        return 0;
    }
    let last = gap - 1;
    let octave = last.ilog2();
    let half = (last >> (octave - 1)) & 1;
    ((1 + 2 * (octave - SHORTEST.ilog2())) as usize + half as usize).min(BINS - 1)
}

fn upper_end(bin: usize) -> Nanos {
    let octave = SHORTEST << (bin / 2);
    octave + if bin.is_multiple_of(2) { 0 } else { octave / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gaps: &[(Nanos, u32)]) -> Gaps {
        let mut histogram = Gaps::new();
        for &(gap, times) in gaps {
            (0..times).for_each(|_| histogram.record(gap));
        }
        histogram
    }

    #[test]
    fn bins_are_half_octaves() {
        for (gap, bin) in [(0, 0), (64, 0), (65, 1), (96, 1), (97, 2), (128, 2), (129, 3), (192, 3), (193, 4)] {
            assert_eq!(bin_of(gap), bin, "{gap}");
        }
        for bin in 0..BINS - 1 {
            assert_eq!((bin_of(upper_end(bin)), bin_of(upper_end(bin) + 1)), (bin, bin + 1));
        }
        assert_eq!(bin_of(Nanos::MAX), BINS - 1);
    }

    #[test]
    fn the_threshold_costs_least() {
        assert_eq!(of(&[]).best_threshold(5_000), 6_144, "nothing is known");
        assert_eq!(of(&[(500, 20)]).best_threshold(5_000), 6_144, "all are shorter than a park");
        assert_eq!(of(&[(50_000, 20)]).best_threshold(5_000), 0, "all are longer");
        assert_eq!(of(&[(500, 10), (50_000, 10)]).best_threshold(5_000), 512, "spins through the short ones only");
        assert_eq!(of(&[(10, 20), (11_000, 10)]).best_threshold(5_000), 64);
        assert_eq!(of(&[(10, 24), (11_000, 8)]).best_threshold(12_000), 12_288);
    }

    #[test]
    fn old_gaps_are_forgotten() {
        let mut gaps = of(&[(50_000, 1_000)]);
        let needed = (1..1_000).find(|_| {
            gaps.record(500);
            gaps.best_threshold(5_000) > 0
        });
        assert!(needed.unwrap() < 128, "{needed:?}");
    }
}
