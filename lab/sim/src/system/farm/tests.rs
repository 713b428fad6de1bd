//! The farm compared with arithmetic, and under deaths: each event is done once.

use super::*;
use crate::plan::Plan;
use crate::settings::Settings;
use crate::system::System;
use proptest::prelude::*;
use sidecore_nodes::DEATHS;
use std::path::Path;

fn settings(changes: &[&str]) -> (&'static System, Settings) {
    let mut plan = Plan::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/farm.toml")).unwrap();
    plan.set_all(changes).unwrap();
    (plan.system, plan.settings)
}

const ALONE: [&str; 10] = [
    "node.count=1",
    "slow_count=0",
    "overhead_us=0",
    "overshoot_us=0",
    "hop_us=0",
    "spread_us=0",
    "store_us=0",
    "event_us=0",
    "least_units=50",
    "most_units=50",
];

fn mean(changes: &[&str], seconds: u32, metric: &str) -> f64 {
    let lasting = format!("measured_ms={}", seconds * 1_000);
    let (system, settings) = settings(&[changes, &[&lasting]].concat());
    let at = METRICS.iter().position(|known| known.name == metric).unwrap();
    (1..=4).map(|seed| system.run(&settings, seed).values[at]).sum::<f64>() / 4.0
}

/// Mean time in a queue with one server and random arrivals (Pollaczek and Khinchine), in units of the service time;
/// `second`: second moment of that time over the square of its mean.
fn alone(load: f64, second: f64) -> f64 {
    1.0 + load * second / (2.0 * (1.0 - load))
}

#[test]
fn one_node_is_a_queue_with_one_server() {
    let service = 50.0 * 200.0;
    for hand in ["balance=tokens", "balance=eft", "pull=1", "pull=4"] {
        let found = mean(&[&ALONE[..], &["load=0.6", hand]].concat(), 2_000, "mean_us") / service;
        let known = alone(0.6, 1.0);
        assert!((found / known - 1.0).abs() < 0.02, "{hand}: {found}, by arithmetic {known}");
    }
    // 1 to 99 units, uniform: the mean square is (2 x 99 + 1) x 100 / 6.
    let second = 199.0 * 100.0 / 6.0 / 2_500.0;
    let mixed = [&ALONE[..8], &["load=0.6", "most_units=99"]].concat();
    let (found, known) = (mean(&mixed, 2_000, "mean_us") / service, alone(0.6, second));
    assert!((found / known - 1.0).abs() < 0.02, "{found}, by arithmetic {known}");
}

#[test]
fn nodes_that_are_alike_and_pull_one_event_each_are_one_queue_with_as_many_servers() {
    // Exponential service: Erlang's formula for 4 servers at 0.8 gives a mean wait of 0.7455 times the service; its
    // variation is in `stray`.
    let four = [&ALONE[1..], &["node.count=4", "pull=1", "load=0.8", "stray=1"]].concat();
    let found = mean(&four, 2_000, "mean_us") / 10_000.0;
    assert!((found / 1.7455 - 1.0).abs() < 0.03, "{found}");
}

#[test]
fn in_turn_two_slow_nodes_of_sixteen_hold_up_the_others() {
    // Each node gets a sixteenth, and the slow one does what it can: 16 x 0.1 of 14.2.
    let found = mean(&["balance=round-robin", "warm_ms=60000"], 100, "share");
    assert!((found - 1.6 / 14.2).abs() < 0.005, "{found}");
}

#[test]
fn what_the_issue_asks_for_holds() {
    let share = mean(&["balance=tokens"], 20, "share");
    assert!(share >= 0.95, "{share}");
    let p99 = |hand| mean(&["load=0.8", hand], 50, "p99_us");
    let pulls = ["pull=1", "pull=2", "pull=4", "pull=8", "pull=16", "pull=32"].map(p99);
    let best = pulls.into_iter().fold(f64::INFINITY, f64::min);
    let tokens = p99("balance=tokens");
    assert!(tokens <= 0.7 * best, "{tokens} and {best}");
}

#[test]
fn a_seed_is_a_run() {
    let (system, settings) = settings(&["load=0.8", "every_ms=300", "measured_ms=3000"]);
    let [one, same, other] = [7, 7, 8].map(|seed| system.run(&settings, seed));
    assert!(one.trace == same.trace && one.trace != other.trace);
    assert!(one.values.iter().all(|value| value.is_finite()), "{one:?}");
}

#[test]
fn a_dead_node_costs_its_silence_and_no_more() {
    let set = ["load=0.8", "every_ms=500"];
    let longest = mean(&set, 60, "gap_p99_us");
    // 40 ms after the last beat, which was up to 10 ms before; the rest is network time.
    assert!((30_000.0..42_000.0).contains(&longest), "{longest}");
}

#[test]
fn what_cannot_be_is_told() {
    let wrong = |changes: &[&str]| {
        let mut plan = Plan::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/farm.toml")).unwrap();
        plan.set_all(changes).unwrap_err().to_string()
    };
    assert!(wrong(&["slow_count=17"]).contains("at most node.count, 16"));
    assert!(wrong(&["least_units=200"]).contains("at least event.least_units, 200"));
    assert!(wrong(&["silence_ms=39"]).contains("at least four beats"));
    assert!(wrong(&["every_ms=1", "away_ms=1000"]).contains("half the nodes"));
}

/// Runs for 3 s, then until no work is left.
fn drained(changes: &[&str], seed: u64) -> World {
    let set: Farm = settings(changes).1.read().unwrap();
    let mut engine = Engine::new(seed);
    let mut world = World::new(&set, &mut engine);
    engine.run(&mut world, 3_000_000_000);
    world.field.ended = true;
    engine.run(&mut world, 60_000_000_000);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_event_is_done_once_whoever_dies(
        seed in 0_u64..1_000_000,
        balance in prop::sample::select(vec!["tokens", "eft", "priced", "sed", "round-robin"]),
        every in 30_u32..1_000,
        away in 1_u32..120,
        slots in 1_u32..4,
        count in 3_u32..17,
        in_flight in 4_u32..200,
        failing in 0_u32..10,
    ) {
        // At most half of the nodes are away at a time.
        let away = away.min(every * count / 2);
        let changes = [
            format!("balance={balance}"), format!("every_ms={every}"), format!("away_ms={away}"), format!("slots={slots}"),
            format!("node.count={count}"), format!("in_flight={in_flight}"), format!("failing_percent={failing}"),
            "load=0.6".to_owned(), "tries=255".to_owned(), "unit_us=100".to_owned(),
        ];
        let world = drained(&changes.each_ref().map(String::as_str), seed);
        prop_assert!(world.field.jobs.len() > 20, "{}", world.field.jobs.len());
        for job in &world.field.jobs {
            // An event with which so many nodes died is reported, not lost.
            prop_assert_eq!(job.stored + u32::from(job.given_up), 1, "{:?}", job);
            prop_assert!(!job.given_up || job.handed >= u32::from(DEATHS), "{:?}", job);
        }
    }
}
