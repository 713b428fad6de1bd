//! Properties of durations, histograms and stage times.

use proptest::prelude::*;
use sidecore_core::histogram::{BUCKETS, Summary, bucket, lower_bound, upper_bound};
use sidecore_core::stage::{Sampler, Stamps};
use sidecore_core::time::{Nanos, Pretty, parse_duration};

fn nanos() -> impl Strategy<Value = Nanos> {
    (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
}

proptest! {
    #[test]
    fn durations_come_back(value in nanos(), scale in 0..10_u32) {
        let round = value / 10_u64.pow(scale) * 10_u64.pow(scale);
        for value in [value, round] {
            prop_assert_eq!(parse_duration(&Pretty(value).to_string()), Some(value));
        }
    }

    #[test]
    fn any_text_is_a_duration_or_not(text in "[0-9.]{0,30}(ns|us|ms|s)?|\\PC{0,12}") {
        if let Some(value) = parse_duration(&text) {
            prop_assert_eq!(parse_duration(&Pretty(value).to_string()), Some(value));
        }
    }

    #[test]
    fn a_value_lies_in_its_bucket(value in nanos()) {
        let index = bucket(value);
        prop_assert!(index < BUCKETS && lower_bound(index) <= value);
        prop_assert!(value < upper_bound(index) || index == BUCKETS - 1);
        prop_assert!(bucket(value.saturating_add(1)) >= index);
    }

    #[test]
    fn a_quantile_is_off_by_a_bucket_at_most(mut values in prop::collection::vec(0..1_u64 << 36, 1..300)) {
        let mut counts = [0; BUCKETS];
        for &value in &values {
            counts[bucket(value)] += 1;
        }
        let summary = Summary::new(counts, values.iter().sum());
        values.sort_unstable();
        for (part, found) in [(0.5, summary.p50), (0.99, summary.p99)] {
            let exact = values[(values.len() as f64 * part).ceil() as usize - 1];
            let inside = lower_bound(bucket(exact)) as f64..=upper_bound(bucket(exact)) as f64;
            prop_assert!(inside.contains(&found), "{found} for {exact}");
        }
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        prop_assert!(summary.count == values.len() as u64 && (summary.mean - mean).abs() <= mean * 1e-12);
    }

    #[test]
    fn stages_add_up_when_in_order(times in prop::array::uniform4(0..1_u64 << 32)) {
        let mut times = times;
        times.sort_unstable();
        let [submitted, handed, taken, received] = times;
        let stamps = Stamps { submitted, handed, taken };
        prop_assert_eq!(stamps.queue() + stamps.device(), stamps.host());
        prop_assert_eq!(stamps.host() + stamps.deliver(received), stamps.total(received));
    }

    #[test]
    fn false_stamps_stay_in_bounds(submitted: u64, handed: u64, taken: u64, received: u64) {
        let stamps = Stamps { submitted, handed, taken };
        let stages = [stamps.queue(), stamps.device(), stamps.host(), stamps.deliver(received), stamps.total(received)];
        prop_assert!(stages.into_iter().all(|time| time <= Stamps::LIMIT));
    }

    #[test]
    fn one_in_so_many_is_sampled(every in 1..50_usize, rounds in 1..20_usize) {
        let mut sampler = Sampler::new(every as u32);
        prop_assert_eq!((0..every * rounds).filter(|_| sampler.next()).count(), rounds);
    }
}
