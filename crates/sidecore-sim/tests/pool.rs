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
fn what_is_wrong_in_a_plan_is_said_with_its_place() {
    let good = "[requests]\nrate_per_s = 10\n[work.op]\n[device.d]\nop = { us = 10 }\n";
    assert!(read(good).is_ok());
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
        ("[device.d]", "[device.d]\ncount = 0", "device: the pool has 0 devices"),
        ("[device.d]", "[device.d]\nbus = \"often\"", "write no or yes"),
    ] {
        let error = read(&good.replace(from, to)).unwrap_err();
        assert!(error.contains(said), "{error}\ninstead of {said}");
    }
}
