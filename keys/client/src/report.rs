//! A client's report on itself: words in its lane that the client writes and the service copies.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | completions received |
//! | 1..9 | counts of its waiter: waits, empty polls, parks, naps, spun, slept, cost, optimum, ns |
//! | 9 | its CPU time, ns |
//! | 10..118 | `deliver`: sum, ns, then 107 buckets |
//! | 118..226 | `total`: the same |
//!
//! The buckets are those of [`sidecore_core::histogram`] from 32 ns to 3.6 s; shorter and longer times fall in the
//! first or the last one.
//!
//! The report is not trusted: the service accepts no more of it than can be true.

use sidecore_core::histogram::{BUCKETS, bucket};
use sidecore_core::policy::notify::Audit;
use sidecore_core::stage::Stage;
use sidecore_core::sync::{AtomicU64, Ordering};
use sidecore_core::time::Nanos;
use sidecore_core::words::{LINE_WORDS, Line, add};

/// Words before the stages: plain numbers.
pub const NUMBERS: usize = 10;
/// First word of each stage: its sum, then its buckets.
pub const STAGES: [(Stage, usize); 2] = [(Stage::Deliver, NUMBERS), (Stage::Total, NUMBERS + 1 + KEPT)];
/// Words of a report.
pub const WORDS: usize = NUMBERS + STAGES.len() * (1 + KEPT);
/// Buckets of each stage in the report.
pub const KEPT: usize = 107;
/// Histogram index of the first bucket in the report: 32 ns.
pub const FIRST: usize = 20;

const RECEIVED: usize = 0;
const AUDIT: usize = 1;
const CPU: usize = 9;

const _: () = assert!(FIRST + KEPT <= BUCKETS);

/// Writes a report. Made for each use, from the lane's report lines.
#[derive(Clone, Copy, Debug)]
pub struct ReportWriter<'a>(&'a [Line]);

impl<'a> ReportWriter<'a> {
    /// A writer to these lines.
    ///
    /// # Panics
    /// There are too few lines.
    #[inline]
    pub fn new(report: &'a [Line]) -> Self {
        assert!(report.len() * LINE_WORDS >= WORDS, "a report has {WORDS} words");
        Self(report)
    }

    /// Adds `count` to the completions received.
    #[inline]
    pub fn received(&self, count: u64) {
        add(self.word(RECEIVED), count);
    }

    /// Adds the times of a sampled completion, ns.
    #[inline]
    pub fn record(&self, deliver: Nanos, total: Nanos) {
        for ((_, start), time) in STAGES.into_iter().zip([deliver, total]) {
            add(self.word(start), time);
            add(self.word(start + 1 + kept(time)), 1);
        }
    }

    /// Stores the counts of the client's waiter.
    pub fn store_audit(&self, audit: &Audit) {
        let words = audit.words().into_iter().enumerate();
        words.for_each(|(i, value)| self.word(AUDIT + i).store(value, Ordering::Relaxed));
    }

    /// Stores the CPU time that the client used, ns.
    pub fn store_cpu(&self, time: Nanos) {
        self.word(CPU).store(time, Ordering::Relaxed);
    }

    /// A copy of all words; each is read once.
    pub fn copy(&self) -> [u64; WORDS] {
        std::array::from_fn(|word| self.word(word).load(Ordering::Relaxed))
    }

    #[inline]
    fn word(&self, word: usize) -> &'a AtomicU64 {
        &self.0[word / LINE_WORDS].0[word % LINE_WORDS]
    }
}

#[inline]
fn kept(time: Nanos) -> usize {
    bucket(time).clamp(FIRST, FIRST + KEPT - 1) - FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_short_or_too_long_falls_in_the_end_buckets() {
        assert_eq!((kept(0), kept(31), kept(32)), (0, 0, 0));
        assert_eq!((kept(u64::MAX), kept(60_000_000_000)), (KEPT - 1, KEPT - 1));
        assert!(sidecore_core::histogram::lower_bound(FIRST) == 32);
    }

    #[test]
    #[should_panic(expected = "a report has 226 words")]
    fn too_few_lines_are_a_bug() {
        let lines: Vec<Line> = (1..sidecore_core::layout::REPORT.len()).map(|_| Line::default()).collect();
        let _ = ReportWriter::new(&lines);
    }
}
