//! Copies a client's own numbers from the report lines of its lane.
//!
//! The report is an allegation. [`publish`] copies only possible values: never more receptions than completions, no
//! stage longer than [`Stamps::LIMIT`], and no number that could overflow a sum.

use sidecore_client::report::{FIRST, KEPT, NUMBERS, ReportWriter, STAGES};
use sidecore_core::stage::Stamps;
use sidecore_core::words::Line;
use sidecore_counters::{LaneBlock, LaneCounter};

/// Largest number that is copied: as nanoseconds 2.2 years. The sum of 256 lanes does not overflow.
const CAP: u64 = 1 << 56;

const _: () = assert!(LaneCounter::COUNT - LaneCounter::ClientReceived as usize == NUMBERS);

/// Copies a lane's report to its block. For any report the copied values are possible.
///
/// # Panics
/// The report has too few lines.
pub(super) fn publish(report: &[Line], lane: &LaneBlock) {
    let said = ReportWriter::new(report).copy();
    let completed: u64 = [LaneCounter::Done, LaneCounter::Refused, LaneCounter::Failed]
        .into_iter()
        .fold(0, |sum, counter| sum.saturating_add(lane.get(counter)));
    for (counter, value) in LaneCounter::ALL[LaneCounter::ClientReceived as usize..].iter().zip(&said) {
        let most = if *counter == LaneCounter::ClientReceived { completed.min(CAP) } else { CAP };
        lane.set(*counter, (*value).min(most));
    }
    for (stage, start) in STAGES {
        let (sum, counts) = (said[start], &said[start + 1..start + 1 + KEPT]);
        let count = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        // An impossible count is not scaled down, which would invent another: the last possible one stays.
        if count <= completed {
            lane.replace(stage, FIRST, counts, sum.min(count.saturating_mul(Stamps::LIMIT)).min(CAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sidecore_core::histogram::Summary;
    use sidecore_core::policy::notify::Audit;
    use sidecore_core::stage::Stage;
    use sidecore_core::sync::Ordering;
    use sidecore_core::words::LINE_WORDS;
    use sidecore_counters::{Counters, LaneStats, Shape, Snapshot, Start};
    use tempfile::TempDir;

    fn lines() -> Vec<Line> {
        (0..sidecore_core::layout::REPORT.len()).map(|_| Line::default()).collect()
    }

    fn open(scratch: &TempDir, done: u64) -> LaneBlock {
        let shape = Shape { sidecores: 1, lanes: 1, devices: 0, keys: 0 };
        let start = Start { pid: 1, sample_every: 1, now: 1 };
        let lane = Counters::create(&scratch.path().join("counters"), shape, start).unwrap().lane(0);
        lane.open(1, 1, 0, "client").unwrap();
        lane.set(LaneCounter::Done, done);
        lane
    }

    fn seen(scratch: &TempDir) -> LaneStats {
        let Snapshot { mut lanes, .. } = Snapshot::read(&scratch.path().join("counters")).unwrap();
        lanes.remove(0)
    }

    fn summary(stats: &LaneStats, stage: Stage) -> Summary {
        stats.stages[stage as usize].summary()
    }

    #[test]
    fn what_is_true_arrives() {
        let (scratch, report) = (tempfile::tempdir().unwrap(), lines());
        let lane = open(&scratch, 100);
        let writer = ReportWriter::new(&report);
        let audit =
            Audit { waits: 1, empty_polls: 2, naps: 3, parks: 4, spun_ns: 5, slept_ns: 6, cost_ns: 7, optimum_ns: 8 };
        writer.received(60);
        writer.received(40);
        writer.store_audit(&audit);
        writer.store_cpu(9);
        (0..100).for_each(|_| writer.record(1_000, 20_000));
        publish(&report, &lane);
        let seen = seen(&scratch);
        assert_eq!((seen.get(LaneCounter::ClientReceived), seen.get(LaneCounter::ClientCpuNs)), (100, 9));
        assert_eq!(seen.audit(), audit);
        let (deliver, total) = (summary(&seen, Stage::Deliver), summary(&seen, Stage::Total));
        assert_eq!((deliver.count, deliver.mean, total.count, total.mean), (100, 1_000.0, 100, 20_000.0));
        assert!((deliver.p50 / 1_000.0 - 1.0).abs() < 0.19 && (total.p99 / 20_000.0 - 1.0).abs() < 0.19);
        assert_eq!(summary(&seen, Stage::Queue).count, 0);
    }

    #[test]
    fn an_impossible_histogram_leaves_the_last_possible_one() {
        let (scratch, report) = (tempfile::tempdir().unwrap(), lines());
        let lane = open(&scratch, 1);
        ReportWriter::new(&report).record(1_000, 2_000);
        publish(&report, &lane);
        ReportWriter::new(&report).record(1_000, 2_000);
        publish(&report, &lane);
        assert_eq!(summary(&seen(&scratch), Stage::Total).count, 1);
        lane.add(LaneCounter::Refused, 1);
        publish(&report, &lane);
        assert_eq!(summary(&seen(&scratch), Stage::Total).count, 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn hostile_words_are_capped(words in proptest::collection::vec(any::<u64>(), 232), shift in 0u32..64, done: u64) {
            let (scratch, report) = (tempfile::tempdir().unwrap(), lines());
            let lane = open(&scratch, done >> shift);
            for (i, word) in words.iter().enumerate() {
                report[i / LINE_WORDS].0[i % LINE_WORDS].store(word >> (shift ^ (i as u32 & 7)), Ordering::Relaxed);
            }
            publish(&report, &lane);
            let seen = seen(&scratch);
            prop_assert!(seen.get(LaneCounter::ClientReceived) <= done >> shift);
            prop_assert_eq!(seen.get(LaneCounter::Done), done >> shift);
            let client = &LaneCounter::ALL[LaneCounter::ClientReceived as usize..];
            prop_assert!(client.iter().all(|counter| seen.get(*counter) <= CAP));
            for stage in [Stage::Deliver, Stage::Total] {
                let summary = summary(&seen, stage);
                prop_assert!(summary.count <= done >> shift);
                prop_assert!(summary.mean <= Stamps::LIMIT as f64);
            }
        }
    }
}
