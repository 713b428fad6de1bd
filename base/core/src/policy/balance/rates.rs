//! Learnt times of a device, from observed durations.
//!
//! Per class and half-octave of size a cell keeps the moving averages of time and of size, which lie on the same line
//! if time is a fixed part and a part per byte. An estimate goes along the line between the two observed cells around
//! the size. Beyond the outermost cell it keeps its slope, within the limits of a fixed part and a part per byte of 0
//! or more. Every cell knows its nearest observed neighbours from the moment they are first observed, so an estimate
//! reads at most four cells.

use super::Measured;
use crate::session::Class;
use crate::time::Nanos;
use alloc::boxed::Box;
use alloc::vec;

/// Half-octaves from 8 B to 1 MiB, one bucket for smaller sizes and one for larger.
pub(super) const BUCKETS: usize = 2 + 2 * 17;
/// Sizes that share the first bucket, bytes.
const SMALLEST: u32 = 8;
/// Stands for no neighbour.
const NONE: u8 = u8::MAX;
/// A new observation has the weight 1 in this number, once there are as many.
const WINDOW: u16 = 8;
/// Limit of an observation, in multiples of its estimate.
const CLAMP: f32 = 8.0;
/// An observation up to this many ns is never cut: a clock's tick is no outlier.
const CREDIBLE: f32 = 1_000.0;
/// Longest time that is believed or estimated, ns: 18 minutes, so that sums cannot overflow.
const MAX_TIME_NS: f32 = (1_u64 << 40) as f32;

/// Time that one device needs for a request, by class and size.
#[derive(Clone, Debug)]
pub struct Rates {
    rows: Box<[Row]>,
    /// Expected time without an observation, before its bytes are added, ns.
    prior: f32,
}

impl Rates {
    /// Nothing is known. Allocates its table, 25 KiB, and nothing after that.
    pub fn new() -> Self {
        Self::with_prior(1_000)
    }

    /// As [`Rates::new`]; a class without an observation is expected to take this long (ns), and 1 ns per byte.
    pub fn with_prior(prior: Nanos) -> Self {
        Self { rows: vec![Row::EMPTY; Class::COUNT].into_boxed_slice(), prior: prior as f32 }
    }

    /// A request of this class and size (bytes) took this long (ns).
    ///
    /// It weighs one in eight, the first ones of a cell equally. An outlier counts as eight times its estimate, and the
    /// very first observation of a class in full.
    pub fn observe(&mut self, class: Class, size: u32, took: Nanos) {
        self.observe_within(class, size, took, WINDOW);
    }

    /// As [`Rates::observe`], with the weight one in `window`.
    #[inline]
    pub(super) fn observe_within(&mut self, class: Class, size: u32, took: Nanos, window: u16) {
        self.rows[class.index()].observe(size, took as f32, self.prior, window);
    }

    /// As [`Rates::estimate`], with fractions.
    #[inline]
    pub(super) fn expected(&self, class: Class, size: u32) -> f32 {
        self.rows[class.index()].estimate(size, self.prior)
    }

    /// Cells are numbered by class, then by bucket.
    #[inline]
    pub(super) fn cell_mut(&mut self, number: usize) -> &mut Cell {
        &mut self.rows[number / BUCKETS].cells[number % BUCKETS]
    }

    /// Time that a request of this class and size (bytes) is expected to take, ns, at most 2^40.
    ///
    /// With one size observed, smaller ones take as long and larger ones longer in proportion. With none, it is 1 us,
    /// or the prior, and 1 ns per byte.
    #[inline]
    pub fn estimate(&self, class: Class, size: u32) -> Nanos {
        self.rows[class.index()].estimate(size, self.prior) as Nanos
    }

    /// Sets rates of a device that does requests side by side: each takes its part of a full batch. Known times of
    /// the measured sizes are scaled in proportion.
    pub(crate) fn scale(&mut self, measured: &Measured) {
        let Measured { class, size, from, part, .. } = *measured;
        let row = &mut self.rows[class.index()];
        if !row.known {
            return row.observe(size, part as f32, self.prior, WINDOW);
        }
        let factor = part as f32 / row.estimate(size, self.prior).max(1.0);
        row.cells[bucket(from)..].iter_mut().for_each(|cell| cell.time = (cell.time * factor).min(MAX_TIME_NS));
    }

    /// Copies the rates of classes without an observation from `others`.
    pub fn adopt(&mut self, others: &Self) {
        for (row, other) in self.rows.iter_mut().zip(&others.rows) {
            if !row.known {
                *row = *other;
            }
        }
    }

    /// Its observations as words for [`Rates::from_words`]: two for each observed cell.
    pub fn words(&self, mut put: impl FnMut(u64)) {
        for (class, row) in self.rows.iter().enumerate() {
            for (bucket, cell) in row.cells.iter().enumerate().filter(|(_, cell)| cell.seen > 0) {
                put(class as u64 | (bucket as u64) << 8 | u64::from(cell.seen) << 16);
                put(u64::from(cell.time.to_bits()) | u64::from(cell.size.to_bits()) << 32);
            }
        }
    }

    /// Rates from words that [`Rates::words`] made; `None` for words that it never makes.
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let mut rates = Self::new();
        let (cells, []) = words.as_chunks::<2>() else { return None };
        for [place, values] in cells {
            let [class, bucket, seen] = [*place as u8, (place >> 8) as u8, (place >> 16) as u8];
            let row = rates.rows.get_mut(usize::from(class)).filter(|_| place >> 24 == 0)?;
            let (time, size) = (f32::from_bits(*values as u32), f32::from_bits((values >> 32) as u32));
            if !(0.0..=u32::MAX as f32).contains(&size) {
                return None;
            }
            row.restore(usize::from(bucket), seen.into(), time, size)?;
        }
        Some(rates)
    }

    /// Whether this class was ever observed.
    #[inline]
    pub fn known(&self, class: Class) -> bool {
        self.rows[class.index()].known
    }
}

impl Default for Rates {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone, Copy, Debug)]
struct Row {
    known: bool,
    cells: [Cell; BUCKETS],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    time: f32,
    size: f32,
    /// Observations, up to the window.
    seen: u16,
    below: u8,
    above: u8,
}

impl Cell {
    /// Observations in its average, up to the window.
    #[inline]
    pub(super) fn seen(&self) -> u16 {
        self.seen
    }

    /// The average is this multiple now, and that of `count` observations.
    pub(super) fn restart(&mut self, factor: f32, count: u16) {
        (self.time, self.seen) = ((self.time * factor).min(MAX_TIME_NS), count);
    }
}

impl Row {
    const EMPTY: Self =
        Self { known: false, cells: [Cell { time: 0.0, size: 0.0, seen: 0, below: NONE, above: NONE }; BUCKETS] };

    fn observe(&mut self, size: u32, took: f32, prior: f32, window: u16) {
        let believed = if self.known { (self.estimate(size, prior) * CLAMP).max(CREDIBLE) } else { MAX_TIME_NS };
        let index = bucket(size);
        let cell = &mut self.cells[index];
        let first = cell.seen == 0;
        cell.seen = (cell.seen + 1).min(window);
        let weight = 1.0 / f32::from(cell.seen);
        cell.time += (took.min(believed).min(MAX_TIME_NS) - cell.time) * weight;
        cell.size += (size as f32 - cell.size) * weight;
        self.known = true;
        if first {
            self.link(index);
        }
    }

    /// Restores an empty cell. `None`: there is no such cell, or no cell can have these values.
    fn restore(&mut self, index: usize, seen: u16, time: f32, size: f32) -> Option<()> {
        let cell = self.cells.get_mut(index).filter(|cell| cell.seen == 0)?;
        let possible =
            (1..=WINDOW).contains(&seen) && (0.0..=MAX_TIME_NS).contains(&time) && bucket(size as u32) == index;
        (cell.seen, cell.time, cell.size) = (seen, time, size);
        self.known = true;
        self.link(index);
        possible.then_some(())
    }

    fn link(&mut self, index: usize) {
        let number = index as u8;
        for cell in &mut self.cells[..index] {
            // `NONE` is larger than any bucket.
            cell.above = cell.above.min(number);
        }
        for cell in &mut self.cells[index + 1..] {
            cell.below = if cell.below == NONE { number } else { cell.below.max(number) };
        }
    }

    #[inline]
    fn estimate(&self, size: u32, prior: f32) -> f32 {
        let index = bucket(size);
        let here = &self.cells[index];
        let size = size as f32;
        let (below, above) = match here.seen {
            0 => (self.at(here.below), self.at(here.above)),
            _ if size < here.size => (self.at(here.below), Some(here)),
            _ => (Some(here), self.at(here.above)),
        };
        let time = match (below, above) {
            (Some(below), Some(above)) => between(below, above, size),
            (Some(edge), None) => beyond(edge, self.at(edge.below), size),
            (None, Some(edge)) => beyond(edge, self.at(edge.above), size),
            (None, None) => prior + size,
        };
        time.min(MAX_TIME_NS)
    }

    #[inline]
    fn at(&self, bucket: u8) -> Option<&Cell> {
        self.cells.get(usize::from(bucket))
    }
}

/// Two buckets per octave: sizes up to 8, 12, 16, 24, 32 and so on.
#[inline]
pub(super) fn bucket(size: u32) -> usize {
    if size <= SMALLEST {
        return 0;
    }
    let last = size - 1;
    let octave = last.ilog2();
    let half = (last >> (octave - 1)) & 1;
    (1 + 2 * (octave - SMALLEST.ilog2()) + half).min(BUCKETS as u32 - 1) as usize
}

#[inline]
fn between(below: &Cell, above: &Cell, size: f32) -> f32 {
    let part = (size - below.size) / (above.size - below.size);
    below.time + (above.time - below.time) * part
}

/// An estimate beyond the outermost cell, with the slope towards its inner neighbour. The time per byte is at least 0
/// and at most the cell's whole time by its size, so that noise between near sizes does not grow.
#[inline]
fn beyond(edge: &Cell, inner: Option<&Cell>, size: f32) -> f32 {
    let steepest = edge.time / edge.size.max(SMALLEST as f32);
    let slope = match inner {
        Some(inner) => ((edge.time - inner.time) / (edge.size - inner.size)).clamp(0.0, steepest),
        None if size > edge.size => steepest,
        None => 0.0,
    };
    edge.time + slope * (size - edge.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn observed(samples: &[(u32, Nanos)]) -> Rates {
        let mut rates = Rates::new();
        for &(size, took) in samples {
            rates.observe(Class::NOOP, size, took);
        }
        rates
    }

    #[test]
    fn what_was_observed_here_is_kept_when_others_rates_are_adopted() {
        let mut rates = observed(&[(64, 500)]);
        let mut others = observed(&[(64, 900)]);
        let other = Class::from_index(1).unwrap();
        others.observe(other, 64, 700);
        rates.adopt(&others);
        assert_eq!((rates.estimate(Class::NOOP, 64), rates.estimate(other, 64)), (500, 700));
    }

    fn estimates<const N: usize>(rates: &Rates, sizes: [u32; N]) -> [Nanos; N] {
        sizes.map(|size| rates.estimate(Class::NOOP, size))
    }

    #[test]
    fn buckets_are_half_octaves() {
        let cases = [(0, 0), (8, 0), (9, 1), (12, 1), (13, 2), (16, 2), (17, 3), (24, 3), (25, 4), (32, 4), (33, 5)];
        for (size, index) in cases {
            assert_eq!(bucket(size), index, "{size}");
        }
        assert_eq!((bucket(1 << 20), bucket((1 << 20) + 1), bucket(u32::MAX)), (BUCKETS - 2, BUCKETS - 1, BUCKETS - 1));
    }

    #[test]
    fn the_unknown_takes_its_default() {
        let rates = Rates::default();
        assert!(!rates.known(Class::NOOP));
        assert_eq!(estimates(&rates, [0, 1_000]), [1_000, 2_000]);
    }

    #[test]
    fn a_prior_holds_until_the_first_observation() {
        let mut rates = Rates::with_prior(5_000_000);
        assert_eq!(estimates(&rates, [0, 1_000]), [5_000_000, 5_001_000]);
        rates.observe(Class::NOOP, 1_000, 2_000);
        assert_eq!(estimates(&rates, [1_000]), [2_000]);
    }

    #[test]
    fn one_size_stands_for_all() {
        let rates = observed(&[(1_024, 2_000)]);
        assert!(rates.known(Class::NOOP));
        assert_eq!(estimates(&rates, [0, 16, 1_024, 4_096]), [2_000, 2_000, 2_000, 8_000]);
    }

    #[test]
    fn two_sizes_make_a_line() {
        let rates = observed(&[(4_096, 5_096), (256, 1_256)]);
        assert_eq!(estimates(&rates, [256, 1_000, 4_096]), [1_256, 2_000, 5_096]);
        assert_eq!(estimates(&rates, [0, 16, 65_536]), [1_000, 1_016, 66_536]);
    }

    #[test]
    fn an_estimate_lies_between_the_cells_around_its_size() {
        let rates = observed(&[(256, 1_000), (1_024, 4_000), (4_096, 4_000)]);
        assert_eq!(estimates(&rates, [900, 640, 2_048]), [3_515, 2_500, 4_000]);
    }

    #[test]
    fn noise_between_near_sizes_stays_small() {
        let falling = observed(&[(1_024, 2_200), (1_030, 2_000)]);
        assert_eq!(estimates(&falling, [16, 65_536]), [2_200, 2_000]);
        let steep = observed(&[(1_024, 2_000), (1_030, 3_000)]);
        assert!(steep.estimate(Class::NOOP, 10_300) <= 30_001);
    }

    #[test]
    fn an_average_moves_by_an_eighth_and_no_outlier_moves_it_more_than_its_double() {
        let mut rates = observed(&[(1_024, 8_000); 8]);
        rates.observe(Class::NOOP, 1_024, 16_000);
        assert_eq!(rates.estimate(Class::NOOP, 1_024), 9_000);
        let mut rates = observed(&[(1_024, 8_000); 8]);
        rates.observe(Class::NOOP, 1_024, Nanos::MAX);
        assert_eq!(rates.estimate(Class::NOOP, 1_024), 15_000);
    }

    #[test]
    fn a_device_that_does_requests_side_by_side_takes_parts_of_full_batches() {
        let measured = |size| Measured { class: Class::NOOP, size, from: 512, part: 1_000, ends: [0; 8] };
        let mut rates = observed(&[(64, 500), (1_024, 4_000), (4_096, 16_000)]);
        rates.scale(&measured(1_024));
        assert_eq!(estimates(&rates, [64, 1_024, 4_096]), [500, 1_000, 4_000]);
        rates.scale(&measured(1_024));
        assert_eq!(estimates(&rates, [64, 1_024, 4_096]), [500, 1_000, 4_000], "told twice, it is the same");
        let mut rates = Rates::new();
        rates.scale(&measured(1_024));
        assert_eq!(estimates(&rates, [1_024]), [1_000]);
    }

    #[test]
    fn a_clock_that_showed_nothing_does_not_bind() {
        let mut rates = observed(&[(64, 0)]);
        (0..64).for_each(|_| rates.observe(Class::NOOP, 64, 500));
        assert!((490..=510).contains(&rates.estimate(Class::NOOP, 64)));
    }

    #[test]
    fn words_bring_back_every_bit() {
        let mut rates = observed(&[(64, 700), (65, 800), (66, 810), (4_096, 5_001), (1 << 22, 1), (0, 3), (100, 900)]);
        let mut words = Vec::new();
        rates.words(|word| words.push(word));
        assert_eq!(words.len(), 2 * 6);
        let mut back = Rates::from_words(&words).unwrap();
        for round in 0..40_u32 {
            for size in (0..24).map(|shift| 3 << shift) {
                assert_eq!(back.estimate(Class::NOOP, size), rates.estimate(Class::NOOP, size));
            }
            for rates in [&mut rates, &mut back] {
                rates.observe(Class::NOOP, round * 211, u64::from(round) * 97);
            }
        }
        assert!(Rates::from_words(&words[1..]).is_none() && Rates::from_words(&words[..1]).is_none());
        for (place, wrong) in [
            (0, 1 << 40),
            (0, 255),
            (0, 5 << 8),
            (0, 9 << 16),
            (1, u64::MAX),
            (1, u64::from(f32::NAN.to_bits()) << 32),
            (2, words[0]),
        ] {
            let mut words = words.clone();
            words[place] = wrong;
            assert!(Rates::from_words(&words).is_none(), "{place} {wrong:#x}");
        }
    }

    /// Means of neighbouring buckets never meet, so no slope between them is 0/0.
    #[test]
    fn sizes_at_the_edges_of_buckets_stay_apart() {
        let mut rates = Rates::new();
        for round in 0..64_u32 {
            for size in [8, 9, 12, 13, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, u32::MAX] {
                rates.observe(Class::NOOP, size, Nanos::from(round % 2));
            }
        }
        let seen: Vec<f32> = rates.rows[0].cells.iter().filter(|cell| cell.seen > 0).map(|cell| cell.size).collect();
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        assert!(rates.rows[0].cells.iter().all(|cell| cell.time.is_finite()));
    }

    #[test]
    fn extremes_stay_in_bounds() {
        let rates = observed(&[(u32::MAX, Nanos::MAX), (0, Nanos::MAX), (0, 0), (u32::MAX, 0)]);
        for size in [0, 1, 1 << 16, u32::MAX] {
            assert!(rates.estimate(Class::NOOP, size) <= 1 << 40);
        }
    }
}
