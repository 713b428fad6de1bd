//! The mix of arriving requests: a count for each class and half-octave of size.

use super::rates::{BUCKETS, bucket};
use crate::session::Class;
use crate::time::Nanos;
use alloc::boxed::Box;
use alloc::vec;

/// Most kinds in the program behind prices.
pub(super) const KINDS: usize = 16;
/// Arrivals after which the past counts half, however short the time.
const MANY: f32 = 65_536.0;
/// Arrivals after which the past counts half if it is also `AGE` old: fewer would be noise.
const ENOUGH: f32 = 4_096.0;
/// See `ENOUGH`, ns.
const AGE: Nanos = 100_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    count: f32,
    bytes: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) class: Class,
    pub(super) size: u32,
    pub(super) count: f64,
}

/// The counts. Of fixed size, 17 KiB.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    cells: Box<[Cell]>,
    total: f32,
    /// When the past was last halved.
    halved: Nanos,
}

impl Mix {
    pub(super) fn new() -> Self {
        Self { cells: vec![Cell::default(); Class::COUNT * BUCKETS].into_boxed_slice(), total: 0.0, halved: 0 }
    }

    #[inline]
    pub(super) fn arrived(&mut self, class: Class, size: u32) {
        let cell = &mut self.cells[class.index() * BUCKETS + bucket(size)];
        cell.count += 1.0;
        cell.bytes += size as f32;
        self.total += 1.0;
    }

    pub(super) fn total(&self) -> f32 {
        self.total
    }

    pub(super) fn age(&mut self, now: Nanos) {
        let old = self.total >= ENOUGH && now.saturating_sub(self.halved) >= AGE;
        if !old && self.total < MANY {
            return;
        }
        self.halved = now;
        self.total = 0.0;
        for cell in &mut self.cells {
            // Less than one request is none: a kind that is gone must not linger.
            let part = if cell.count < 1.0 { 0.0 } else { 0.5 };
            (cell.count, cell.bytes) = (cell.count * part, cell.bytes * part);
            self.total += cell.count;
        }
    }

    pub(super) fn heaviest(&self, kinds: &mut [Kind; KINDS], weight: impl Fn(Class, u32) -> Option<Nanos>) -> usize {
        let mut works = [0.0; KINDS];
        let mut found = 0;
        let classes = Class::all().flat_map(|class| core::iter::repeat_n(class, BUCKETS));
        for (class, cell) in classes.zip(&self.cells).filter(|(_, cell)| cell.count > 0.0) {
            let size = (cell.bytes / cell.count) as u32;
            let Some(weight) = weight(class, size) else { continue };
            let work = f64::from(cell.count) * weight as f64;
            let place = works[..found].iter().position(|other| *other < work).unwrap_or(found);
            if place == KINDS {
                continue;
            }
            found = (found + 1).min(KINDS);
            works[place..found].rotate_right(1);
            kinds[place..found].rotate_right(1);
            (works[place], kinds[place]) = (work, Kind { class, size, count: f64::from(cell.count) });
        }
        found
    }
}

impl Kind {
    pub(super) const NONE: Self = Self { class: Class::NOOP, size: 0, count: 0.0 };
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn kinds(mix: &Mix) -> Vec<(u32, f64)> {
        let mut kinds = [Kind::NONE; KINDS];
        let found = mix.heaviest(&mut kinds, |_, size| Some(Nanos::from(size)));
        kinds[..found].iter().map(|kind| (kind.size, kind.count)).collect()
    }

    #[test]
    fn kinds_are_ordered_by_their_work() {
        let mut mix = Mix::new();
        (0..95).for_each(|_| mix.arrived(Class::NOOP, 256));
        (0..5).for_each(|_| mix.arrived(Class::NOOP, 16_384));
        mix.arrived(Class::NOOP, 200);
        assert_eq!(kinds(&mix), [(16_384, 5.0), (255, 96.0)]);
    }

    #[test]
    fn the_lightest_are_left_out() {
        let mut mix = Mix::new();
        for half_octave in 0..20 {
            mix.arrived(Class::NOOP, (8 + 4 * (half_octave % 2)) << (half_octave / 2));
        }
        let kinds = kinds(&mix);
        assert!(kinds.len() == KINDS && kinds.is_sorted_by(|a, b| a.0 > b.0), "{kinds:?}");
    }

    #[test]
    fn the_past_fades() {
        let mut mix = Mix::new();
        (0..4_096).for_each(|_| mix.arrived(Class::NOOP, 256));
        mix.age(AGE - 1);
        assert_eq!(kinds(&mix), [(256, 4_096.0)]);
        for age in 1..=13 {
            mix.age(age * AGE);
            (0..4_096).for_each(|_| mix.arrived(Class::NOOP, 1_024));
        }
        assert_eq!(kinds(&mix)[0].0, 1_024);
        mix.age(14 * AGE);
        assert_eq!(kinds(&mix).len(), 1, "nothing is left of the first");
    }
}
