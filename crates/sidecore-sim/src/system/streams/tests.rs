//! Loads of every kind, with little room and with much: bytes are kept, and it goes on.

use super::*;
use crate::plan::Plan;
use crate::system::System;
use proptest::prelude::*;
use std::path::Path;

fn plan(settings: &[String]) -> Plan {
    let mut plan = Plan::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/streams.toml")).unwrap();
    plan.set_all(settings).unwrap();
    plan
}

/// A run of so many ns.
fn run(settings: &[String], until: Nanos) -> Both {
    let set: Streams = plan(settings).settings.read().unwrap();
    let mut engine = Engine::new(1);
    let mut world = Both::new(&set, &mut engine);
    engine.run(&mut world, until);
    world
}

fn any_settings() -> impl Strategy<Value = Vec<String>> {
    let load = prop::sample::select(vec!["flat-out", "paced", "pipelined"]);
    let notify = prop::sample::select(vec!["spin", "park", "break-even", "learn", "predict", "timer(100us)"]);
    let sizes = (1..6_u32, 0..17_u32, 2..9_u32, 12..21_u32);
    (load, notify, sizes, 1..20_u32, prop::bool::ANY, 0..30_u32).prop_map(
        |(load, notify, (connections, message, ring, socket), replies, is_fast, turns_after)| {
            let rate = if is_fast { 40.0 } else { 0.05 };
            vec![
                format!("load={load}"),
                format!("notify={notify}"),
                format!("connections={connections}"),
                format!("message_bytes={}", 1 << message),
                format!("ring.kib={}", 1 << ring),
                format!("socket_bytes={}", 1 << socket),
                format!("gbit_per_s={rate}"),
                format!("replies={replies}"),
                format!("turns_after={turns_after}"),
                "quiet_every_us=300".to_owned(),
            ]
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_byte_is_lost_or_doubled_and_nobody_stops(settings in any_settings()) {
        let [early, late] = [10_000_000, 40_000_000].map(|until| {
            let world = run(&settings, until);
            for connection in &world.connections {
                assert_eq!(connection.lost(), 0);
            }
            world.tally[Count::Bytes as usize]
        });
        prop_assert!(late > early, "{late}");
    }
}

#[test]
fn all_metrics_have_values() {
    let plan = plan(&["quiet_every_us=300".to_owned()]);
    let outcome = System::run(plan.system, &plan.settings, 1);
    assert!(outcome.values.len() == METRICS.len() && outcome.values.iter().all(|value| value.is_finite()));
}

#[test]
fn quantiles_are_of_sorted_times() {
    let times: Vec<Nanos> = (1..=200).map(|time| time * 1_000).collect();
    assert_eq!((quantile_us(&times, 0.5), quantile_us(&times, 0.99)), (100.0, 198.0));
    assert!(quantile_us(&[], 0.5).is_nan());
}
