//! The plans compared with measurements and with physics, and impossible settings.

mod parts;

use super::{METRICS, Ocf};
use crate::compare::median;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::settings::Source;
use crate::system::Model;
use sidecore_core::policy::balance::Balance;
use std::path::Path;

const HIFN: &str = "ocf-hifn7751x4";
const BROADCOM: &str = "ocf-bcm5820x4";
const SIZES: [u32; 6] = [16, 64, 256, 1_024, 8_192, 16_384];

/// Measured throughput in Mbit/s by threads and size: USENIX ATC 2003, tables 1 and 2.
const MEASURED: [(&str, u32, [f64; 6]); 4] = [
    (HIFN, 1, [3.06, 11.45, 33.15, 59.49, 79.19, 80.75]),
    (HIFN, 2, [5.53, 18.40, 56.07, 111.60, 154.18, 160.02]),
    (HIFN, 32, [7.37, 27.51, 94.05, 249.17, 313.79, 320.19]),
    (BROADCOM, 1, [5.42, 18.88, 61.94, 151.95, 300.88, 254.79]),
];

const EIGHT_IN_FLIGHT: &str = "service.software=sidecore client.in_flight=8 service.notify=coalesce coalesce_count=4";

fn plan(name: &str) -> Plan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../plans/{name}.toml"));
    Plan::read(&path).expect("the plan can be read")
}

fn settings(name: &str, changes: &str) -> Ocf {
    let mut settings = plan(name).settings;
    for change in changes.split_whitespace() {
        let (parameter, value) = change.split_once('=').expect("name=value");
        settings.set(parameter, value, Source::CommandLine).expect("a value for it");
    }
    settings.read().expect("values only")
}

fn run(name: &str, changes: &str) -> Outcome {
    let settings = settings(name, changes);
    assert_eq!(settings.broken(), [], "{changes}");
    settings.run(1)
}

fn metric(outcome: &Outcome, name: &str) -> f64 {
    let index = METRICS.iter().position(|metric| metric.name == name).expect("a metric");
    outcome.values[index]
}

#[test]
fn measured_cells_come_out() {
    for plan in [HIFN, BROADCOM] {
        let mut errors = Vec::new();
        for (_, threads, row) in MEASURED.iter().filter(|(name, ..)| *name == plan) {
            for (size, measured) in SIZES.iter().zip(row) {
                let outcome = run(plan, &format!("client.threads={threads} client.size={size}"));
                errors.push((metric(&outcome, "mbit_per_s") / measured - 1.0).abs());
            }
        }
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let median = median(errors);
        assert!(median < 0.05 && worst < 0.15, "{plan}: median {median:.3}, worst {worst:.3}");
    }
}

#[test]
fn the_host_under_many_threads_is_as_it_was_described() {
    // Interrupts per second and percent of the time in the kernel; with the relative tolerance of each.
    let described =
        [(16, 62_000.0, None), (1_024, 50_000.0, None), (8_192, 12_000.0, Some(65.0)), (16_384, 5_600.0, Some(89.0))];
    for (size, interrupts, kernel) in described {
        let outcome = run(BROADCOM, &format!("client.threads=32 client.size={size}"));
        let off = |name: &str, expected: f64| (metric(&outcome, name) / expected - 1.0).abs();
        assert!(off("interrupts_per_s", interrupts) < 0.16, "{size}: {outcome:?}");
        assert!(kernel.is_none_or(|percent| off("cpu_percent", percent) < 0.15), "{size}: {outcome:?}");
    }
}

#[test]
fn completions_share_interrupts() {
    let outcome = run(BROADCOM, "client.threads=32 client.size=16");
    let [requests, interrupts] = ["ops_per_s", "interrupts_per_s"].map(|name| metric(&outcome, name));
    assert!(requests > 1.08 * interrupts, "{requests} requests on {interrupts} interrupts");
}

#[test]
fn requests_that_come_by_themselves_are_done_or_wait() {
    for software in ["service.software=ocf", EIGHT_IN_FLIGHT] {
        let at = |rate: u32| run(HIFN, &format!("threads=8 size=1024 {software} client.rate_per_s={rate}"));
        let (calm, over) = (at(5_000), at(60_000));
        let [rate, mean, p99] = ["ops_per_s", "latency_us", "p99_us"].map(|name| metric(&calm, name));
        assert!((rate / 5_000.0 - 1.0).abs() < 0.03 && mean < p99 && p99 < 1_000.0, "{software}: {calm:?}");
        // Load above the capacity waits, ever longer.
        assert!(metric(&over, "ops_per_s") < 40_000.0 && metric(&over, "p99_us") > 10_000.0, "{software}: {over:?}");
    }
}

#[test]
fn what_limits_is_named() {
    let limit = |name: &str, changes: &str| run(name, changes).limit.split(' ').next().map(str::to_owned);
    let cases = [
        (BROADCOM, "client.threads=1 client.size=8192", "threads"),
        (BROADCOM, "client.threads=32 client.size=16", "cpu"),
        (BROADCOM, "client.threads=32 client.size=8192", "memory"),
        (HIFN, "client.threads=32 client.size=16384", "bus"),
        (HIFN, "client.threads=32 client.size=16384 card.count=1", "card"),
    ];
    for (name, changes, part) in cases {
        assert_eq!(limit(name, changes).as_deref(), Some(part), "{name} {changes}");
    }
}

#[test]
fn a_session_is_bound_to_its_card() {
    let rate = |changes: &str| metric(&run(HIFN, &format!("client.size=16384 {changes}")), "mbit_per_s");
    let (one, two) = (rate("threads=1"), rate("threads=2"));
    assert!((rate("threads=1 card.count=8") / one - 1.0).abs() < 0.03, "the other cards are no help");
    assert!(two > 1.9 * one && rate("threads=2 card.count=1") < 1.2 * one);
}

#[test]
fn sidecore_reaches_what_the_cards_are_rated_at() {
    let rated = |name: &str, changes: &str| {
        let outcome = run(name, &format!("client.size=16384 {EIGHT_IN_FLIGHT} {changes}"));
        (metric(&outcome, "rated_percent"), outcome.limit)
    };
    assert!(rated(BROADCOM, "threads=4").0 >= 99.0 && rated(HIFN, "threads=4 card.count=3").0 >= 99.0);
    let copied = rated(BROADCOM, "threads=4 client.copies=2");
    assert!(copied.0 < 69.0 && copied.1.starts_with("memory"), "copies would be the framework's limit again");
    let (percent, limit) = rated(HIFN, "threads=4");
    assert!((96.0..99.0).contains(&percent) && limit.starts_with("bus"), "four chips share one slow bus: {limit}");
}

#[test]
fn sidecore_gains_most_where_requests_are_small() {
    let rate = |changes: &str| metric(&run(BROADCOM, &format!("threads=32 {changes}")), "ops_per_s");
    for size in [16, 1_024] {
        let (before, after) = (rate(&format!("size={size}")), rate(&format!("size={size} {EIGHT_IN_FLIGHT}")));
        assert!(after > 1.5 * before, "{size}: {after} after {before}");
    }
    assert!(rate("size=64 service.software=sidecore client.copies=2") < rate("size=64 service.software=sidecore"));
}

#[test]
fn every_rule_of_balance_serves_every_client() {
    for balance in Balance::ALL {
        for wait in ["service.notify=park", "service.notify=coalesce coalesce_count=2 coalesce_us=50"] {
            let changes = format!("threads=5 size=256 service.software=sidecore in_flight=3 {wait}");
            let outcome = run(HIFN, &format!("{changes} service.balance={balance}"));
            let (rate, latency) = (metric(&outcome, "ops_per_s"), metric(&outcome, "latency_us"));
            // Little's law: all 15 requests are in flight, except during the clients' own time. Requests in flight at
            // the ends of the run are counted in part.
            let in_flight = rate * latency / 1e6;
            assert!((12.0..=15.05).contains(&in_flight), "{balance} {wait}: {in_flight}");
        }
    }
}

#[test]
fn a_seed_is_a_run() {
    for software in ["ocf", "sidecore"] {
        let settings = settings(HIFN, &format!("threads=4 size=256 service.software={software}"));
        assert_eq!(settings.run(5), settings.run(5));
        assert_ne!(settings.run(5).trace, settings.run(6).trace);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let cases = [
        ("bus.width_bits=16", "bus.width_bits"),
        ("card.width_bits=48", "card.width_bits"),
        ("bus.clock_mhz=50", "bus.clock_mhz"),
        ("bus.clock_mhz=133", "bus.clock_mhz"),
        ("bus.kind=pci-x bus.clock_mhz=33", "bus.clock_mhz"),
        ("card.clock_mhz=40", "card.clock_mhz"),
        ("client.size=20", "client.size"),
        ("client.size=65536", "client.size"),
        ("service.record=6", "service.record"),
        ("client.in_flight=2", "client.in_flight"),
        ("service.software=sidecore client.in_flight=64 size=65520", "client.arena_kib"),
        ("service.software=sidecore service.notify=coalesce coalesce_count=2", "service.coalesce_count"),
    ];
    for (changes, parameter) in cases {
        let refused: Vec<String> = settings(BROADCOM, changes).broken().into_iter().map(|it| it.parameter).collect();
        assert_eq!(refused, [parameter], "{changes}");
    }
    assert_eq!(settings(BROADCOM, "bus.kind=pci-x bus.clock_mhz=133").broken(), []);
}
