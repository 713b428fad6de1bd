//! Two PCs on one link, compared with published figures and with invariants.

use super::{plan_of, root, values_of};
use sidecore_sim::compare::{Published, compare};
use sidecore_sim::estimate::Effort;
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::{Origin, Source};
use std::ops::ControlFlow;

const STREAMS: [&str; 3] = ["tcp_mbit_per_s", "udp_sent_mbit_per_s", "udp_received_mbit_per_s"];

fn plan(settings: &[&str]) -> Plan {
    plan_of("lhcb", settings)
}

fn values<const N: usize>(settings: &[&str], metrics: [&str; N]) -> [f64; N] {
    values_of(&plan(settings), metrics)
}

fn value(settings: &[&str], metric: &str) -> f64 {
    values(settings, [metric])[0]
}

#[test]
fn published_cells_are_within_reach() {
    let published = Published::read(&root().join("docs/published/lhcb.csv")).unwrap();
    for seed in 1..=5 {
        let comparison =
            compare(&plan(&[]), &published, &[], &Effort::once(seed), &mut |_, _| ControlFlow::Continue(())).unwrap();
        assert_eq!(comparison.cells.len(), 12);
        let worst = comparison.worst().unwrap();
        assert!(comparison.median_error() <= 0.01 && worst.error.abs() <= 0.035, "seed {seed}: {worst:?}");
    }
}

#[test]
fn every_parameter_says_where_it_comes_from() {
    let plan = plan(&[]);
    let documented = |source: &Source| matches!(source, Source::Documented(_, meaning) if !meaning.is_empty());
    let sources: Vec<_> = plan.settings.iter().map(|(_, set)| &set.unwrap().1).collect();
    assert!(sources.iter().all(|source| documented(source)));
    let fitted = sources.iter().filter(|source| matches!(source, Source::Documented(Origin::Fitted, _)));
    assert_eq!(fitted.count(), 5);
}

#[test]
fn the_cost_of_interrupts_makes_the_ratio_of_moderations() {
    let ratios = |settings: &[&str]| {
        let [short, long] =
            ["moderation_us=32", "moderation_us=1024"].map(|time| values(&[settings, &[time]].concat(), STREAMS));
        [0, 1, 2].map(|stream| long[stream] / short[stream])
    };
    let published = ratios(&[]);
    assert!(published.iter().all(|ratio| (1.11..1.15).contains(ratio)), "{published:?}");
    let free = ratios(&["interrupt_ns=0"]);
    assert!(free.iter().all(|ratio| *ratio < 1.03), "{free:?}");
}

#[test]
fn latency_is_moderation_twice() {
    let [short, long] = ["moderation_us=32", "moderation_us=1024"].map(|time| value(&[time], "latency_us"));
    assert!((long - short - 2.0 * (1024.0 - 32.0)).abs() < 1.0, "{short} and {long}");
    let alone = value(&["moderation_count=1"], "latency_us");
    assert!(alone < short - 2.0 * 32.0 + 20.0 && alone > 40.0, "{alone}");
}

#[test]
fn large_frames_fill_the_bus_and_small_ones_the_processor() {
    let busy = ["sender_cpu_percent", "bus_percent"];
    let [cpu, bus] = values(&["mtu_bytes=1500"], busy);
    assert!(cpu > 99.0 && bus < 85.0, "{cpu} and {bus}");
    let [cpu, bus] = values(&["mtu_bytes=9000"], busy);
    assert!(cpu < 70.0 && bus > 99.0, "{cpu} and {bus}");
    let wide = value(&["mtu_bytes=9000", "bus.gbit_per_s=4"], "udp_sent_mbit_per_s");
    assert!((900.0..993.0).contains(&wide), "{wide}: the link is next");
}

#[test]
fn a_slow_receiver_loses_datagrams_and_slows_tcp_down() {
    let slow = "receive.packet_ns=14000";
    let [tcp, sent, received, lost] = values(&[slow], [STREAMS[0], STREAMS[1], STREAMS[2], "udp_lost_percent"]);
    assert!(lost > 30.0 && (100.0 - 100.0 * received / sent - lost).abs() < 1.0, "{sent}, {received}, {lost}");
    assert!(tcp > received, "{tcp} and {received}: the window holds TCP back, so that it loses nothing");
    assert_eq!(value(&["receive.packet_ns=5000"], "udp_lost_percent").to_bits(), 0.0_f64.to_bits());
    let few = ["receive.packet_ns=5000", "moderation_us=1024", "window_bytes=20000", "nic.ring=16"];
    let narrow = value(&few, "udp_lost_percent");
    assert!(narrow > 5.0, "{narrow}: frames come while the interrupt has all buffers");
}

#[test]
fn acknowledgements_cost_both_ends() {
    let [paid, free] =
        ["ack_ns=2700", "ack_ns=0"].map(|ack| values(&[ack], ["tcp_mbit_per_s", "tcp_receiver_cpu_percent"]));
    assert!(free[0] / paid[0] > 1.05, "{paid:?} and {free:?}: the sender has time for more");
    let work = |[rate, cpu]: [f64; 2]| cpu / rate;
    assert!(work(paid) / work(free) > 1.05, "{paid:?} and {free:?}: the receiver works less for each byte");
}

#[test]
fn a_window_without_a_count_waits_for_the_timer() {
    let by_time = ["moderation_us=1024", "moderation_count=256"];
    let tcp = value(&by_time, STREAMS[0]);
    assert!(tcp < 300.0, "{tcp}: 64 KiB a millisecond or two");
    let wide = [&by_time[..], &["ring=1024", "window_bytes=1000000"]].concat();
    assert!(value(&wide, STREAMS[0]) > 500.0);
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
        ("moderation_count=300", "nic.moderation_count: the ring holds 256"),
        ("window_bytes=2000", "socket.window_bytes: no two packets fit: at least 2896"),
        ("window_bytes=500000", "socket.window_bytes: 345 segments in flight, more than the ring's 256"),
        ("send_bytes=2000", "socket.send_bytes: no two packets fit: at least 2944"),
        ("receive_bytes=2000", "socket.receive_bytes: no two packets fit: at least 2944"),
        ("ping_bytes=1473", "socket.ping_bytes: a message is one packet, at most 1472"),
    ];
    for (setting, message) in cases {
        let mut plan = plan(&[]);
        let error = plan.set_all(&[setting]).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
