//! The network interface on the chip or behind PCI Express, against what is published and what must hold.

use super::{plan_of, root, values_of};
use sidecore_sim::compare::{Published, compare};
use sidecore_sim::estimate::Effort;
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::{Origin, Source};
use std::ops::ControlFlow;

const BOTH: [&str; 2] = ["integrated", "discrete"];

fn plan(settings: &[&str]) -> Plan {
    plan_of("inic", settings)
}

/// A metric of one run.
fn value(settings: &[&str], attachment: &str, metric: &str) -> f64 {
    let attachment = format!("nic.attachment={attachment}");
    values_of(&plan(&[settings, &[&attachment]].concat()), [metric])[0]
}

#[test]
fn published_cells_are_within_reach() {
    let published = Published::read(&root().join("docs/published/inic.csv")).unwrap();
    for seed in 1..=3 {
        let comparison =
            compare(&plan(&[]), &published, &[], &Effort::once(seed), &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(comparison.cells.len(), 8);
        let worst = comparison.worst().unwrap();
        assert!(comparison.median_error() <= 0.02 && worst.error.abs() <= 0.06, "seed {seed}: {worst:?}");
    }
}

#[test]
fn a_ping_pong_is_6_us_shorter_on_the_chip() {
    let saved = value(&[], "discrete", "latency_us") - value(&[], "integrated", "latency_us");
    assert!((saved - 6.0).abs() < 1.0, "{saved}");
}

#[test]
fn every_parameter_says_where_it_comes_from() {
    let plan = plan(&[]);
    let settings: Vec<_> = plan.settings.iter().map(|(known, set)| (known.name.as_str(), &set.unwrap().1)).collect();
    let documented = |source: &Source| matches!(source, Source::Documented(_, meaning) if !meaning.is_empty());
    let bare: Vec<_> = settings.iter().filter(|(_, source)| !documented(source)).map(|(name, _)| *name).collect();
    assert_eq!(bare, ["nic.attachment", "client.connections", "client.io_bytes", "driver.wait"]);
    let fitted = settings.iter().filter(|(_, source)| matches!(source, Source::Documented(Origin::Fitted, _)));
    assert!(fitted.count() <= 9);
}

#[test]
fn small_calls_leave_no_advantage() {
    let bandwidth = BOTH.map(|attachment| value(&["io_bytes=64"], attachment, "bandwidth_gbit_per_s"));
    assert!((bandwidth[0] / bandwidth[1] - 1.0).abs() < 0.02 && bandwidth[0] < 5.0, "{bandwidth:?}");
}

#[test]
fn bandwidth_follows_connections_until_something_is_full() {
    for attachment in BOTH {
        let at = |connections: u32| {
            let connections = format!("connections={connections}");
            value(&[connections.as_str()], attachment, "bandwidth_gbit_per_s")
        };
        let (one, four, most) = (at(1), at(4), at(200));
        assert!((four / one - 4.0).abs() < 0.3, "{attachment}: {one} and {four}: each has a queue of its own");
        assert!(most < 9.5, "{attachment}: {most} on a link of 9.49 Gbit/s of payload");
    }
}

#[test]
fn moderation_rings_by_count_and_by_time() {
    // Every queue gets about one packet in 10 us.
    let packets = |settings: &[&str]| value(settings, "integrated", "packets_per_interrupt");
    let by_count = packets(&["moderation_count=4", "moderation_us=100000"]);
    assert!((4.0..6.0).contains(&by_count), "{by_count}");
    let by_time = packets(&["moderation_count=1024", "moderation_us=500"]);
    assert!((40.0..70.0).contains(&by_time), "{by_time}");
    let alone = packets(&["moderation_count=1"]);
    assert!(alone < 4.0, "{alone}");
    let waits = ["moderation_us=100", "moderation_us=300"].map(|time| value(&[time], "integrated", "latency_us"));
    assert!((waits[1] - waits[0] - 200.0).abs() < 1.0, "{waits:?}");
}

#[test]
fn policies_trade_processor_time_for_latency() {
    for attachment in BOTH {
        let of = |wait: &str, metric: &str| value(&[&format!("driver.wait={wait}")], attachment, metric);
        assert_eq!(of("spin", "interrupts_per_s").to_bits(), 0.0_f64.to_bits());
        let latency = ["spin", "park", "moderated"].map(|wait| of(wait, "latency_us"));
        assert!(latency.is_sorted() && latency[2] > latency[1] + 150.0, "{latency:?}");
    }
    // Polling costs what a lightly loaded driver does not use.
    let light = |wait: &str, metric: &str| {
        value(&["connections=2", "window_bytes=8192", &format!("driver.wait={wait}")], "integrated", metric)
    };
    assert!(light("spin", "polling_percent") > 10.0);
    let polling = ["spin", "break-even", "park"].map(|wait| light(wait, "polling_percent"));
    assert!(polling.is_sorted_by(|a, b| a > b), "{polling:?}");
}

#[test]
fn other_frames_and_small_rings_run() {
    let jumbo = value(&["mtu_bytes=9000"], "integrated", "bandwidth_gbit_per_s");
    assert!((9.5..9.92).contains(&jumbo), "{jumbo}");
    let narrow = value(&["nic.ring=32"], "integrated", "bandwidth_gbit_per_s");
    assert!((1.0..9.0).contains(&narrow), "{narrow}: frames wait for buffers, and none is lost");
    let long = value(&["ping_bytes=20000"], "discrete", "latency_us");
    assert!(long > value(&[], "discrete", "latency_us") + 20.0, "{long}");
}

#[test]
fn a_seed_is_a_run() {
    let plan = plan(&[]);
    let run = |seed| plan.system.run(&plan.settings, seed);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).trace, run(2).trace);
}

#[test]
fn impossible_settings_name_the_parameter() {
    let cases = [
        (&["nic.queues=64"][..], "nic.queues: each has a hardware thread of its own"),
        (&["nic.moderation_count=1", "driver.kick=600"], "nic.ring: 1024 buffers run out"),
        (&["nic.moderation_count=2000"], "nic.moderation_count: the ring holds 1024"),
        (&["client.window_bytes=1000"], "client.window_bytes: no segment fits"),
        (&["client.window_bytes=1000000000"], "client.window_bytes: 21917792 segments in flight"),
    ];
    for (settings, message) in cases {
        let mut plan = Plan::read(&root().join("plans/inic.toml")).unwrap();
        let last = settings.iter().map(|setting| plan.set_all(&[setting])).last().unwrap();
        let error = last.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
