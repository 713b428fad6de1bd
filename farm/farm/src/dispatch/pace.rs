//! How quickly the farm does its events, and when the queue will be empty at that pace.

use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// Interval of marks, and the number of them: half a minute in all, so that events of seconds have a pace too.
const INTERVAL: Nanos = 1_000_000_000;
const MARKS: usize = 30;

/// Counts of done events, and when.
#[derive(Debug, Default)]
pub(crate) struct Pace(VecDeque<(Nanos, u64)>);

impl Pace {
    /// `done`: events done so far. Returns those done in a second, over the last half minute at most.
    pub(crate) fn observe(&mut self, now: Nanos, done: u64) -> f64 {
        if self.0.back().is_some_and(|(_, before)| *before > done) {
            // Another dispatcher's counts go on here, or start again.
            self.0.clear();
        }
        if self.0.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= INTERVAL) {
            if self.0.len() >= MARKS {
                self.0.pop_front();
            }
            self.0.push_back((now, done));
        }
        let (since, before) = self.0.front().copied().unwrap_or((now, done));
        let seconds = now.saturating_sub(since) as f64 / 1e9;
        if seconds > 0.0 { (done - before) as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_of_the_last_half_minute_and_begins_again_with_the_counts() {
        let mut pace = Pace::default();
        assert!(pace.observe(0, 1_000).abs() < 1e-9, "nothing is known");
        let quarter = INTERVAL / 4;
        let fast = (1..=400).map(|at| pace.observe(at * quarter, 1_000 + 5 * at)).last().unwrap();
        assert!((fast - 20.0).abs() < 1e-6, "{fast}");
        let stopped: Vec<f64> = (401..=560).map(|at| pace.observe(at * quarter, 3_000)).collect();
        assert!(stopped[59] < 15.0 && stopped[59] > 5.0 && stopped[159].abs() < 1e-9, "{stopped:?}");
        assert!(pace.observe(600 * quarter, 10).abs() < 1e-9);
        assert!((pace.observe(604 * quarter, 14) - 4.0).abs() < 1e-9);
    }
}
