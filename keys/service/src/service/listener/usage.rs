//! Time since the last request on each stored key: it shows when a former key may be deleted.

use sidecore_core::time::Nanos;

/// Interval of looks at the keys' counters, ns: the resolution of the answer.
const LOOK_INTERVAL_NS: Nanos = 600 * SECOND;
const SECOND: Nanos = 1_000_000_000;

/// For each place of a key: requests at the last look, and the time of the look that saw the latest one.
#[derive(Debug)]
pub(super) struct Usage {
    places: Vec<(u64, Nanos)>,
    look_at: Nanos,
}

impl Usage {
    pub(super) fn new(places: usize, now: Nanos) -> Self {
        Self { places: vec![(0, now); places], look_at: now + LOOK_INTERVAL_NS }
    }

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.look_at
    }

    pub(super) fn look(&mut self, now: Nanos, requests: impl Iterator<Item = (usize, u64)>) {
        for (place, counted) in requests {
            if let Some(usage) = self.places.get_mut(place).filter(|(seen, _)| *seen != counted) {
                *usage = (counted, now);
            }
        }
        self.look_at = now + LOOK_INTERVAL_NS;
    }

    pub(super) fn begin(&mut self, place: usize, now: Nanos) {
        if let Some(usage) = self.places.get_mut(place) {
            *usage = (0, now);
        }
    }

    /// Time since the last look with a new request, s.
    pub(super) fn idle_seconds(&self, place: usize, now: Nanos) -> u64 {
        self.places.get(place).map_or(0, |(_, asked)| now.saturating_sub(*asked) / SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_idle_since_the_look_that_saw_its_last_request() {
        let mut usage = Usage::new(2, 10 * SECOND);
        assert!(!usage.is_due(LOOK_INTERVAL_NS) && usage.is_due(10 * SECOND + LOOK_INTERVAL_NS));
        usage.look(700 * SECOND, [(0, 5), (1, 0)].into_iter());
        usage.look(1_400 * SECOND, [(0, 5), (1, 0)].into_iter());
        assert_eq!([0, 1].map(|place| usage.idle_seconds(place, 1_500 * SECOND)), [800, 1_490]);
        usage.look(2_000 * SECOND, [(0, 6), (1, 6)].into_iter());
        assert_eq!([0, 1].map(|place| usage.idle_seconds(place, 2_000 * SECOND)), [0, 0]);
    }

    #[test]
    fn a_key_in_the_place_of_another_begins_anew() {
        let mut usage = Usage::new(1, 0);
        usage.begin(0, 50 * SECOND);
        usage.look(60 * SECOND, [(0, 0)].into_iter());
        assert_eq!(usage.idle_seconds(0, 60 * SECOND), 10);
        usage.begin(7, 0);
        assert_eq!(usage.idle_seconds(7, SECOND), 0);
    }
}
