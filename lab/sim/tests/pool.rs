//! Pools against what a pool must do.

use sidecore_sim::outcome::Outcome;
use sidecore_sim::plan::Plan;
use std::path::Path;

const TABLE: &str = r#"
[table]
cell = "p99_us"
rows = { "requests.clients" = [0] }
columns = { "host.cores" = [1] }
"#;

/// The plan of `pool` with these sections, or its error.
fn read(sections: &str) -> Result<Plan, String> {
    let text = format!("system = \"pool\"\ntitle = \"A pool\"\n{sections}\n{TABLE}");
    Plan::parse(Path::new("pool.toml"), &text).map_err(|error| error.to_string())
}

fn plan(sections: &str) -> Plan {
    read(sections).unwrap_or_else(|error| panic!("{error}\n{sections}"))
}

fn run(plan: &Plan, seed: u64) -> Outcome {
    plan.system.run(&plan.settings, seed)
}

fn metric(plan: &Plan, outcome: &Outcome, name: &str) -> f64 {
    let number = plan.system.metrics.iter().position(|metric| metric.name == name).unwrap();
    outcome.values[number]
}

/// Means of metrics over runs with 1,000,000 requests.
fn means<const N: usize>(plan: &Plan, names: [&str; N], runs: u64) -> [f64; N] {
    let outcomes: Vec<Outcome> = (0..runs).map(|seed| run(plan, seed)).collect();
    names.map(|name| outcomes.iter().map(|outcome| metric(plan, outcome, name)).sum::<f64>() / runs as f64)
}

#[track_caller]
fn near(found: f64, expected: f64, part: f64) {
    assert!((found / expected - 1.0).abs() <= part, "{found} instead of {expected}");
}

#[test]
fn closed_clients_wait_for_their_answers() {
    let sections = "[requests]\nclients = 4\nin_flight = 2\nthink_us = 30\n[work.op]\n[host]\nsubmit_us = 1\ncomplete_us = 2\nwake_us = 7\nnotify = \"park\"\n\
                    [device.d]\nengines = 16\nlatency_us = 40\nop = { us = 20 }\n";
    let [rate, mean, p50] = means(&plan(sections), ["rate_per_s", "mean_us", "p50_us"], 1);
    // Without waiting: 1 + 20 + 20 + 20 + 2 + 7 us, and 30 us of thinking.
    assert!((70.0..76.0).contains(&mean) && p50 <= mean + 1.0, "{mean} {p50}");
    near(rate, 8e6 / (mean + 30.0), 0.01);
}

#[test]
fn requests_of_a_dead_device_are_done_by_others_and_it_returns() {
    let sections = "[requests]\nrate_per_s = 100_000\ncount = 100_000\n[work.op]\n\
                    [device.d]\ncount = 3\nengines = 2\nfails_at_ms = 300\nreturns_at_ms = 600\nop = { us = 40 }\n";
    let plan = plan(sections);
    let outcome = run(&plan, 3);
    assert!(metric(&plan, &outcome, "abandoned") < 1.0);
    near(metric(&plan, &outcome, "rate_per_s"), 100_000.0, 0.02);
    let mut alone = plan.clone();
    alone.set_all(&["device.d.count=1"]).unwrap();
    let rate = metric(&alone, &run(&alone, 3), "rate_per_s");
    assert!((30_000.0..50_000.0).contains(&rate), "one device that is dead for a while carries half: {rate}");
}

#[test]
fn a_run_ends_where_no_device_is_left() {
    let plan = plan("[requests]\nclients = 4\n[work.op]\n[device.d]\nfails_at_ms = 10\nop = { us = 40 }\n");
    assert!(metric(&plan, &run(&plan, 1), "abandoned") > 0.0);
}

#[test]
fn each_kind_that_died_returns() {
    let sections = "[requests]\nclients = 8\n[work.x]\n[work.y]\n\
                    [device.a]\nfails_at_ms = 100\nreturns_at_ms = 300\nx = { us = 10 }\n\
                    [device.b]\nfails_at_ms = 100\nreturns_at_ms = 200\ny = { us = 10 }\n";
    let plan = plan(sections);
    let rate = metric(&plan, &run(&plan, 1), "rate_per_s");
    assert!(rate > 100_000.0, "one kind returned twice, and the other did not: {rate}");
}

#[test]
fn a_kind_whose_name_begins_as_anothers_counts_once() {
    let kind = |name: &str| format!("[device.{name}]\ncount = 30\nop = {{ us = 10 }}\n");
    let sections = format!("[requests]\nrate_per_s = 10\n[work.op]\n{}{}", kind("card"), kind("card-2"));
    assert_eq!(read(&sections).map(drop), Ok(()));
}

#[test]
fn a_device_that_slows_down_makes_the_tail_longer_and_gets_less() {
    let of = |slower: u32| {
        let sections = format!(
            "[requests]\nrate_per_s = 60_000\n[work.op]\n\
                    [device.d]\ncount = 4\nslow_from_ms = 500\nslow_until_ms = 2500\nslow_factor = {slower}\nop = {{ us = 40 }}\n"
        );
        means(&plan(&sections), ["p99_us", "rate_per_s"], 1)
    };
    let [alike, slowed] = [1, 4].map(of);
    assert!(slowed[0] > 1.5 * alike[0], "{slowed:?} {alike:?}");
    near(slowed[1], 60_000.0, 0.02);
}

#[test]
fn kinds_do_what_they_can_and_the_bus_is_shared() {
    let sections = "[requests]\nclients = 64\n[work.sign]\n[work.seal]\nbytes = 16384\n[bus]\nmbit_per_s = 8000\n\
                    [device.signer]\nsign = { us = 10 }\n[device.sealer]\ncount = 2\nengines = 4\nbus = \"yes\"\nseal = { us = 5 }\n";
    let plan = plan(sections);
    let outcome = run(&plan, 1);
    // 16 KiB over 1 byte a ns: 61,035 a second, and a signature for each.
    near(metric(&plan, &outcome, "rate_per_s"), 2.0 * 61_035.0, 0.02);
    assert_eq!(outcome.limit, "bus 100 %");
}

#[test]
fn more_than_a_device_can_do_is_not_stable() {
    let of = |rate: u32, more: &str| {
        let sections =
            format!("[requests]\nrate_per_s = {rate}\nsurge = 1000\n{more}[work.op]\n[device.d]\nop = {{ us = 10 }}\n");
        means(&plan(&sections), ["stable"], 2)[0]
    };
    let found = [of(90_000, ""), of(101_000, ""), of(200_000, "overflow = 2000\n")];
    assert_eq!(found.map(|stable| stable > 0.5), [true, false, false]);
}

/// A batch device: times by fill, one alone on an ordinary device, us, and the device's most requests a second.
struct Unit(&'static str, f64, f64);

/// A 2 GHz Sapphire Rapids with Intel's `crypto_mb`, as published, whose eight lanes take the same time for one as for
/// eight; and this project's device on a Zen 5 with RSA-2048 and RSA-1024.
const UNITS: [Unit; 3] = [
    Unit("391, 909, 909, 909, 909, 909, 909, 909", 391.0, 8e6 / 909.0),
    Unit("197, 328, 315, 319, 621, 619, 632, 638", 197.0, 4e6 / 319.0),
    Unit("45.7, 46.4, 46.8, 47.2, 85.9, 87.9, 89.5, 91.5", 66.0, 4e6 / 47.2),
];

impl Unit {
    fn both(&self) -> f64 {
        self.2 + 1e6 / self.1
    }

    /// Values of metrics, with this number of workers.
    fn run<const N: usize>(&self, workers: u32, settings: &[String], names: [&str; N]) -> [f64; N] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/pool-batch.toml");
        let mut plan = Plan::read(&path).unwrap();
        let times = [format!("us_by_fill={}", self.0), format!("device.worker.rsa-2048.us={}", self.1)];
        let times = times.map(|setting| setting.replace("us_by_fill", "device.lanes.rsa-2048.us_by_fill"));
        plan.set_all(&times).unwrap();
        plan.set_all(&[format!("device.worker.count={workers}")]).unwrap();
        plan.set_all(settings).unwrap();
        let outcome = run(&plan, 1);
        names.map(|name| metric(&plan, &outcome, name))
    }
}

fn open(per_s: f64) -> [String; 1] {
    [format!("requests.rate_per_s={per_s}")]
}

fn closed(clients: u32, balance: &str) -> [String; 3] {
    ["requests.rate_per_s=0".to_owned(), format!("requests.clients={clients}"), format!("host.balance={balance}")]
}

#[test]
fn batches_fill_with_the_load_and_carry_what_single_requests_cannot() {
    for unit in &UNITS {
        let [few, many] = [0.05, 0.8].map(|load| unit.run(0, &open(load * unit.2), ["fill", "rate_per_s", "p99_us"]));
        let full = if unit.2 < 1e4 { 8.0 } else { 4.0 };
        assert!(few[0] < 1.3 && many[0] > 0.6 * full, "{few:?} {many:?}");
        assert!(many[1] * unit.1 > 1.5e6, "one after another it would be overloaded: {many:?}");
        assert!(many[2] < 10.0 * unit.1, "{many:?}");
    }
}

#[test]
fn a_worker_and_a_batch_device_do_what_both_can() {
    for (unit, balance) in UNITS.iter().flat_map(|unit| ["eft", "priced"].map(|balance| (unit, balance))) {
        let [few, many] = [2, 64].map(|clients| unit.run(1, &closed(clients, balance), ["rate_per_s"])[0]);
        assert!(few > 1e6 / unit.1, "two are served at the same time: {few}");
        near(many, unit.both(), 0.02);
    }
    // Batches of one are faster here than the worker, and the second request would miss the batch of the first.
    assert!(UNITS[2].run(1, &closed(2, "eft"), ["mean_us"])[0] < 0.9 * UNITS[2].1);
}

#[test]
fn priced_finds_no_reason_for_a_detour_where_there_is_one_kind_of_request() {
    for unit in &UNITS {
        let [eft, priced] = ["eft", "priced"].map(|balance| {
            let settings = [format!("requests.rate_per_s={}", 0.8 * unit.both()), format!("host.balance={balance}")];
            unit.run(1, &settings, ["mean_us"])[0]
        });
        near(priced, eft, 0.01);
    }
}

#[test]
fn what_a_batch_device_measured_is_worth_a_part_of_the_tail() {
    // Without the times of batches the 99th percentiles were 6.27, 6.84 and 6.88, and 3.90, 4.85 and 6.05 times one alone.
    for (unit, bounds) in UNITS.iter().zip([[5.3, 5.5, 6.5], [3.6, 4.4, 6.05]]) {
        for ((load, burst), bound) in [(0.5, 1), (0.65, 1), (0.2, 8)].into_iter().zip(bounds) {
            let settings = [format!("requests.rate_per_s={}", load * unit.both()), format!("requests.burst={burst}")];
            let [p99] = unit.run(1, &settings, ["p99_us"]);
            assert!(p99 < bound * unit.1, "load {load}, {burst} together: {}", p99 / unit.1);
        }
    }
}

const A_DEVICE: &str = "[requests]\nrate_per_s = 10\n[work.op]\n[device.d]\nop = { us = 10 }\n";

#[test]
fn what_is_wrong_in_a_plan_is_said_with_its_place() {
    assert!(read(A_DEVICE).is_ok());
    for (from, to, said) in [
        ("rate_per_s = 10", "rate_per_s = 0", "requests.rate_per_s: neither arrivals nor clients send requests"),
        (
            "rate_per_s = 10",
            "rate_pers = 10",
            "pool.toml:4: unknown parameter `requests.rate_pers`; did you mean `requests.rate_per_s`?",
        ),
        (
            "rate_per_s = 10",
            "rate_per_s = \"many\"",
            "`many` is no value for requests.rate_per_s: write a number from 0 to 1000000000 (1/s)",
        ),
        ("[work.op]\n", "", "work: the plan has no work"),
        ("[work.op]", "[wrk.op]", "unknown part `wrk`; did you mean `work`?"),
        (
            "us = 10",
            "us = 10, rate_per_s = 5",
            "device.d.op: several times: keep one of us, rate_per_s, us_by_bytes and us_by_fill",
        ),
        ("us = 10", "us = 0", "work.op: no device does it: give one op = { us = TIME }"),
        ("us = 10", "us_by_bytes = \"64:1, 16:2\"", "write BYTES:US with commas between them, sizes in order"),
        (
            "us = 10",
            "us = { value = 10, unit = \"ms\", origin = \"measured\", meaning = \"time\" }",
            "device.d.op.us is in us",
        ),
        (
            "[device.d]",
            "[device.d]\nbatch_max = 65",
            "pool.toml:7: device.d.batch_max: batch_min is at most batch_max, and batch_max at most ring",
        ),
        ("[device.d]", "[device.other]\n[device.d]", "device.other: it does no operation of [work]"),
        (
            "[device.d]",
            "[device.d]\nreturns_at_ms = 3",
            "pool.toml:7: device.d.returns_at_ms: it is not after fails_at_ms",
        ),
    ] {
        let error = read(&A_DEVICE.replace(from, to)).unwrap_err();
        assert!(error.contains(said), "{error}\ninstead of {said}");
    }
}

#[test]
fn numbers_and_words_that_no_pool_has_are_refused() {
    for (from, to, said) in [
        ("[device.d]", "[device.d]\nring = 0", "write a whole number from 1 to 16384"),
        ("[device.d]", "[device.\"d.e\"]", "the name \"d.e\" has a dot: leave it out"),
        ("[device.d]", "[device.d]\nlatency_us = nan", "write a number from 0 to 3600000000 (us)"),
        ("us = 10", "us_by_fill = \"1e300\"", "write numbers above 0, at most 3600000000"),
        (
            "us = 10",
            "us = { unit = \"us\", origin = \"measured\", meaning = \"time\" }",
            "device.d.op.us has no `value`",
        ),
        (
            "rate_per_s = 10",
            "clients = 100_000\nin_flight = 10_000",
            "requests.in_flight: clients keep 1000000000 requests in flight",
        ),
        (
            "[work.op]",
            "change_at = 0.5\n[work.op]\nshare_after = 0",
            "requests.change_at: all shares after the change are 0",
        ),
        (
            "[device.d]",
            "[device.d]\nbatch = \"service\"",
            "pool.toml:7: device.d.batch: service needs one engine, and one operation with us_by_fill of 8 times",
        ),
        (
            "[work.op]",
            "[work.op]\nshares_by_bytes = \"64:1, 16:2\"",
            "write BYTES:WEIGHT with commas between them, sizes in order",
        ),
        ("[device.d]", "[device.d]\ncount = 0", "device: the pool has 0 devices"),
        ("[device.d]", "[device.d]\nbus = \"often\"", "write no or yes"),
    ] {
        let error = read(&A_DEVICE.replace(from, to)).unwrap_err();
        assert!(error.contains(said), "{error}\ninstead of {said}");
    }
}
