//! Events whose work is sleeping, and their times, all from one seed.

use std::time::Duration;

pub(crate) const NODES: usize = 16;
pub(crate) const SLOW: usize = 2;
pub(crate) const SLOWER: u32 = 10;
/// The largest event, in units of work; the smallest has one.
pub(crate) const LARGEST: u32 = 100;
/// An event's bytes grow with its work, as an image's do.
const BYTES_PER_UNIT: usize = 64;
const FILLING: u8 = b'x';

/// A repeatable sequence of numbers (Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        // The high half of a product: as even as 32 bits allow.
        ((u64::from(self.next() as u32) * u64::from(end)) >> 32) as u32
    }

    pub(crate) fn size(&mut self) -> u32 {
        1 + self.below(LARGEST)
    }

    /// The pause before the next event of a Poisson process with `a_second` events a second.
    pub(crate) fn gap(&mut self, a_second: f64) -> Duration {
        // In (0, 1]: its logarithm is finite.
        let even = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        Duration::from_secs_f64(-even.ln() / a_second)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// An event with that many units of work: the number, then padding. It is one line without its end.
pub(crate) fn event(units: u32) -> Vec<u8> {
    filled(units, units as usize * BYTES_PER_UNIT)
}

pub(crate) fn filled(units: u32, bytes: usize) -> Vec<u8> {
    let mut body = format!("{units} ").into_bytes();
    body.resize(bytes.max(body.len()), FILLING);
    body
}

pub(crate) fn units(body: &[u8]) -> Option<u32> {
    let digits = body.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(body.len());
    std::str::from_utf8(&body[..digits]).ok()?.parse().ok()
}

pub(crate) fn unit_of(node: usize, unit: Duration) -> Duration {
    if node < NODES - SLOW { unit } else { unit * SLOWER }
}

pub(crate) fn units_per_s(unit: Duration) -> f64 {
    (0..NODES).map(|node| 1.0 / unit_of(node, unit).as_secs_f64()).sum()
}

pub(crate) fn events_per_s(unit: Duration) -> f64 {
    units_per_s(unit) / (f64::from(1 + LARGEST) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_its_work_and_grows_with_it() {
        for size in [1, 9, 50, LARGEST] {
            let body = event(size);
            assert_eq!((units(&body), body.len()), (Some(size), size as usize * BYTES_PER_UNIT));
            assert!(!body.contains(&b'\n'));
        }
        assert_eq!(filled(0, 1024).len(), 1024);
        assert_eq!((units(b"12"), units(b" 1"), units(b"")), (Some(12), None, None));
        assert_eq!(units(b"99999999999 x"), None);
    }

    #[test]
    fn two_of_sixteen_are_ten_times_slower() {
        let unit = Duration::from_micros(100);
        let sum = units_per_s(unit);
        assert!((sum - 142_000.0).abs() < 1e-6, "{sum}");
        assert!((events_per_s(unit) - 142_000.0 / 50.5).abs() < 1e-6);
    }

    #[test]
    fn a_seed_repeats_sizes_and_gaps_of_the_stated_means() {
        let (mut one, mut same) = (Dice::new(7), Dice::new(7));
        let sizes: Vec<u32> = (0..10_000).map(|_| one.size()).collect();
        assert!(sizes.iter().all(|size| *size == same.size() && (1..=LARGEST).contains(size)));
        let mean = f64::from(sizes.iter().sum::<u32>()) / 10_000.0;
        assert!((mean - 50.5).abs() < 1.0, "{mean}");
        let gaps: f64 = (0..10_000).map(|_| one.gap(1_000.0).as_secs_f64()).sum();
        assert!((gaps / 10_000.0 - 0.001).abs() < 5e-5, "{gaps}");
    }
}
