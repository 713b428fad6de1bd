//! Streams, against what a prototype measured and what must hold.

use super::{plan_of, root, values_of};
use sidecore_sim::compare::{Comparison, Published, compare};
use sidecore_sim::estimate::Effort;
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::{Origin, Source};
use std::ops::ControlFlow;

fn plan(settings: &[&str]) -> Plan {
    plan_of("streams", settings)
}

fn values<const N: usize>(settings: &[&str], metrics: [&str; N]) -> [f64; N] {
    values_of(&plan(settings), metrics)
}

fn value(settings: &[&str], metric: &str) -> f64 {
    values(settings, [metric])[0]
}

fn measured(settings: &[&str], keep: &[&str], seed: u64) -> Comparison {
    let published = Published::read(&root().join("docs/results/simulated/streams.csv")).unwrap();
    compare(&plan(settings), &published, keep, &Effort::once(seed), &mut |_, _| ControlFlow::Continue(())).unwrap()
}

#[test]
fn measured_cells_are_missed_by_what_the_page_says() {
    for seed in 1..=3 {
        let comparison = measured(&[], &[], seed);
        assert_eq!(comparison.cells.len(), 26);
        assert!((0.12..0.17).contains(&comparison.median_error()), "seed {seed}: {}", comparison.median_error());
        let worst = comparison.worst().unwrap();
        assert!(worst.row == "pipelined by 4: ring" && worst.error < 1.15, "seed {seed}: {worst:?}");
        let (fitted, others): (Vec<_>, Vec<_>) =
            comparison.cells.iter().partition(|cell| cell.row.starts_with("one connection: "));
        let rates = fitted.iter().filter(|cell| cell.column == "messages_per_s");
        assert!(rates.clone().count() == 2 && rates.clone().all(|cell| cell.error.abs() < 0.01), "{fitted:?}");
        let mut others: Vec<f64> = others.iter().map(|cell| cell.error.abs()).collect();
        others.sort_by(f64::total_cmp);
        assert!(others.len() == 22 && (0.15..0.26).contains(&others[11]), "seed {seed}: {others:?}");
    }
}

#[test]
fn every_cost_says_where_it_comes_from() {
    let plan = plan(&[]);
    let costs = plan.settings.iter().filter(|(known, _)| !known.name.starts_with("program."));
    let sources: Vec<&Source> = costs.map(|(_, set)| &set.unwrap().1).collect();
    let documented = |source: &&Source| matches!(source, Source::Documented(_, meaning) if !meaning.is_empty());
    assert!(sources.iter().all(documented) && sources.len() > 15);
    let fitted = sources.iter().filter(|source| matches!(source, Source::Documented(Origin::Fitted, _)));
    assert_eq!(fitted.count(), 4, "two of them from one figure");
}

#[test]
fn the_rule_leaves_echoes_and_large_messages_on_the_kernel() {
    for load in [&["load=pipelined", "replies=1"][..], &["message_bytes=16384"], &["message_bytes=4096"]] {
        let with = |path| values(&[load, &[path]].concat(), ["messages_per_s", "program_ns_per_message"]);
        assert_eq!(value(&[load, &["path=rule"]].concat(), "ring_percent").to_bits(), 0.0_f64.to_bits());
        assert_eq!(with("path=rule").map(f64::to_bits), with("path=kernel").map(f64::to_bits), "{load:?}");
    }
}

#[test]
fn small_messages_and_pipelined_replies_enter_rings_and_gain() {
    for (load, gain) in [
        (&["connections=1"][..], 40.0),
        (&["connections=64"], 40.0),
        (&["connections=256"], 40.0),
        (&["load=pipelined", "connections=1"], 2.0),
        (&["load=pipelined", "connections=4"], 5.0),
    ] {
        let rate = |path| value(&[load, &[path]].concat(), "messages_per_s");
        let found = rate("path=rule") / rate("path=kernel");
        assert!(found > gain, "{load:?}: {found}");
        assert!(value(load, "ring_percent") > 99.9);
    }
}

#[test]
fn bursts_to_few_connections_are_sent_together_and_to_many_one_by_one() {
    for (connections, together) in [(1, 100.0), (16, 6.25), (100, 1.0), (400, 1.0)] {
        let connections = format!("connections={connections}");
        let found = value(&["load=paced", "sidecore.notify=park", &connections], "messages_per_send");
        assert!((found / together - 1.0).abs() < 0.03, "{connections}: {found}");
    }
    let [spin, park] = ["spin", "park"].map(|notify| {
        let notify = format!("sidecore.notify={notify}");
        values(&["load=paced", &notify], ["program_ns_per_message", "sidecore_ns_per_message"])
    });
    assert!(spin[0] < park[0] && spin[1] > park[1] * 1.5, "{spin:?} {park:?}: it does not sleep and is not woken");
    assert!((spin[1] - 10_000.0).abs() < 10.0, "100 k/s on one core that spins");
}

#[test]
fn a_client_that_turns_to_echoes_takes_its_connection_out_of_the_ring_and_back() {
    let metrics = ["promotions_per_s", "demotions_per_s", "ring_percent"];
    let turning = ["load=pipelined", "connections=4", "replies=200", "turns_after=200"];
    let [entered, left, ringed] = values(&turning, metrics);
    assert!(entered > 100.0 && (entered - left).abs() <= 40.0, "{entered} {left}");
    assert!((95.0..99.9).contains(&ringed), "{ringed}");
    let steady = values(&["load=pipelined", "connections=1"], metrics);
    assert_eq!(steady.map(f64::to_bits), [0.0_f64, 0.0, 100.0].map(f64::to_bits));
}

#[test]
fn the_receiver_is_a_limit_of_its_connection() {
    for path in ["path=kernel", "path=rule"] {
        let rate = value(&[path, "connections=1", "gbit_per_s=0.05", "socket_bytes=65536"], "messages_per_s");
        assert!((rate * 64.0 * 8.0 / 1e9 - 0.05).abs() < 0.003, "{path}: {rate}");
    }
}

#[test]
fn small_rings_cost_and_large_ones_are_alike() {
    let rate = |kib: &str| value(&[&format!("ring.kib={kib}")], "messages_per_s");
    let [least, small, usual, large] = ["4", "16", "32", "64"].map(rate);
    assert!(usual / least > 2.0 && (usual / small - 1.0).abs() < 0.02 && (usual / large - 1.0).abs() < 0.02);
}

#[test]
fn new_comes_before_flooded() {
    let quiet = |connections: &str, path: &str| {
        values(&["quiet_every_us=1000", connections, path], ["quiet_p50_us", "messages_per_send"])
    };
    let alone = quiet("connections=1", "path=kernel")[0];
    for connections in ["connections=64", "connections=256"] {
        let [waited, together] = quiet(connections, "path=rule");
        // A transfer that has begun, and its own.
        assert!(waited > alone && waited < 5.0 * alone, "{connections}: {waited} us, {alone} us by the kernel");
        assert!(together > 50.0, "{connections}: the others are flooded, {together}");
    }
}

#[test]
fn a_seed_is_a_run() {
    let plan = plan(&["quiet_every_us=1000"]);
    let run = |seed| plan.system.run(&plan.settings, seed);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).trace, run(2).trace);
}

#[test]
fn an_impossible_ring_is_refused() {
    let mut plan = plan(&[]);
    let error = plan.set_all(&["ring.kib=33"]).unwrap_err().to_string();
    assert!(error.contains("ring.kib: a ring has a power of two: 64"), "{error}");
}
