//! Made-up rows of the kinds that the scenarios make, for the tests of all exporters.

use super::*;

/// A small report with every scenario.
pub(crate) fn sample() -> Report {
    Report {
        title: "sidecore bench".into(),
        machine: "Some Processor, 2 cores, Linux 6.18".into(),
        commit: "87fbb54".into(),
        rows: [lane(), crypto(), ocf(), notify(), balance(), scaling()].concat(),
        notes: vec!["Clients and service share two cores: rows with more than one client are pessimistic.".into()],
        left_out: vec!["ml-dsa-65-sign: OpenSSL 3.0 does not have it.".into()],
    }
}

/// A row with a value in every field.
pub(crate) fn full_row() -> Row {
    let times = Some(Times { mean: 2.5, p50: 2.25, p99: 9.75 });
    Row {
        op: Some("aes-256-gcm".into()),
        library: Some("OpenSSL 3.0.19".into()),
        notify: Some("break-even".into()),
        balance: Some("priced".into()),
        devices: Some("2 worker".into()),
        clients: Some(8),
        jobs: Some(32),
        size: Some(16_384),
        ops_per_s: Some(123_456.0),
        mbit_per_s: Some(16_181.6),
        total_us: times,
        queue_us: times,
        device_us: times,
        host_us: times,
        deliver_us: times,
        reach: Some(Reach::at_least(0.95)),
        changes: Some(Changes { queue: Some(-95.9), device: Some(-61.1), total: Some(-74.6), throughput: Some(274.0) }),
        cpu_us_per_op: Some(CpuPerOp { client: 0.35, service: 1.25 }),
        empty_polls: Some(1_234_567),
        wakeups_sent: Some(42),
        wakeups_saved: Some(99_000),
        ratio: Some(0.97),
        baseline: Some("in process".into()),
        seed: Some(7),
        commit: Some("87fbb54".into()),
        machine: Some("Some Processor, 2 cores, Linux 6.18".into()),
        load: Some(0.8),
        pinned: Some("client 0, service 1".into()),
        repeats: Some(5),
        spread: Some(0.021),
        ..Row::new("crypto", "sidecore")
    }
}

fn lane() -> Vec<Row> {
    let row = |variant: &str, ops_per_s, ratio: Option<f64>| Row {
        op: Some("noop".into()),
        ops_per_s: Some(ops_per_s),
        ratio,
        baseline: ratio.map(|_| "bare ping-pong".into()),
        spread: Some(0.03),
        ..Row::new("lane", variant)
    };
    vec![
        row("bare ping-pong", 5.2e6, None),
        row("sequence in the slot", 4.3e6, Some(0.83)),
        row("separate tail index", 3.25e6, Some(0.62)),
        row("pipelined", 17.23e6, Some(3.31)),
    ]
}

fn crypto() -> Vec<Row> {
    let mut rows = Vec::new();
    for (op, fixed_ns, ns_per_byte) in [("aes-256-gcm", 180.0, 0.19), ("sha-256", 150.0, 0.55)] {
        for size in [16, 64, 256, 1024, 4096, 16_384, 65_536] {
            let alone = 1e9 / (fixed_ns + ns_per_byte * size as f64);
            rows.extend(crypto_rows(op, Some(size), alone));
        }
    }
    rows.extend(crypto_rows("rsa-2048-sign", None, 1_900.0));
    rows
}

/// The baseline in process, and a lane with one and with four clients.
fn crypto_rows(op: &str, size: Option<u64>, alone: f64) -> Vec<Row> {
    let row = |variant: &str, ops_per_s: f64, clients, ratio: Option<f64>| Row {
        op: Some(op.into()),
        clients: Some(clients),
        size,
        ops_per_s: Some(ops_per_s),
        mbit_per_s: size.map(|size| ops_per_s * size as f64 * 8.0 / 1e6),
        ratio,
        baseline: ratio.map(|_| "in process".into()),
        ..Row::new("crypto", variant)
    };
    let through = |clients: f64| 1.0 / (1.0 / alone + 90e-9 / clients);
    vec![
        row("in process", alone, 1, None),
        row("sidecore", through(1.0), 1, Some(through(1.0) / alone)),
        row("sidecore", through(4.0) * 1.2, 4, Some(through(4.0) * 1.2 / alone)),
    ]
}

fn ocf() -> Vec<Row> {
    let mut rows = Vec::new();
    for (devices, rated) in [("4 hifn-7751", 332.0), ("4 bcm-5820", 1240.0)] {
        for clients in [1, 2, 4, 32] {
            for size in [16, 64, 256, 1024, 8192, 16_384] {
                let share = f64::from(clients.min(4)) / 4.0;
                let mbit = rated * share * size as f64 / (size as f64 + 300.0);
                rows.push(Row {
                    op: Some("3des-cbc".into()),
                    balance: Some("eft".into()),
                    devices: Some(devices.into()),
                    clients: Some(clients),
                    size: Some(size),
                    mbit_per_s: Some(mbit),
                    ..Row::new("ocf", "emulated")
                });
            }
        }
    }
    rows
}

fn notify() -> Vec<Row> {
    let mut rows = Vec::new();
    // Policy, delay added to each request in us, CPU time that it costs at no load and beside the work.
    let policies = [
        ("spin", 0.3, 9.0, 0.2),
        ("park", 6.5, 0.0, 2.9),
        ("timer(50us)", 26.0, 0.6, 0.5),
        ("coalesce(8,50us)", 14.0, 0.1, 0.9),
        ("break-even", 2.1, 0.9, 2.3),
        ("learn", 1.6, 0.6, 2.0),
        ("predict", 0.6, 0.3, 1.1),
    ];
    for (policy, delay, idle, busy) in policies {
        for load in [0.05, 0.1, 0.25, 0.5, 0.75, 0.9] {
            rows.push(notify_row(policy, load, delay, idle / load + busy));
        }
    }
    rows
}

fn notify_row(policy: &str, load: f64, delay: f64, cpu: f64) -> Row {
    let times = |mean: f64| Some(Times { mean, p50: mean * 0.9, p99: mean * 3.5 });
    let queue = 0.3 / (1.0 - load) + delay * 0.4;
    Row {
        op: Some("aes-256-gcm".into()),
        notify: Some(policy.into()),
        clients: Some(1),
        size: Some(1024),
        total_us: times(queue + 1.4 + delay * 0.6),
        queue_us: times(queue),
        device_us: times(1.4),
        deliver_us: times(delay * 0.6),
        cpu_us_per_op: Some(CpuPerOp { client: cpu * 0.4, service: cpu * 0.6 + 0.9 }),
        load: Some(load),
        ..Row::new("notify", policy)
    }
}

fn balance() -> Vec<Row> {
    let mut rows = Vec::new();
    for (policy, share) in
        [("round-robin", 0.61), ("p2c", 0.66), ("sed", 0.72), ("tokens", 0.77), ("eft", 0.79), ("priced", 0.98)]
    {
        let row = Row {
            balance: Some(policy.into()),
            devices: Some("2 fast, 2 slow".into()),
            ..Row::new("balance", "95 % 256 B, 5 % 16 KiB")
        };
        rows.push(Row { ratio: Some(share), baseline: Some("linear program".into()), ..row.clone() });
        for load in [0.5, 0.8, 0.9_f64] {
            let p99 = 12.0 / (1.02 - load.min(share) * 1.02 / share).max(0.02);
            let total_us = Some(Times { mean: p99 * 0.3, p50: p99 * 0.2, p99 });
            rows.push(Row { load: Some(load), total_us, ..row.clone() });
        }
    }
    rows
}

fn scaling() -> Vec<Row> {
    let mut rows = Vec::new();
    for clients in [1, 2, 4, 8, 16] {
        for (variant, each, most) in [("1 sidecore", 2.9e6, 4.1e6), ("2 sidecores", 2.9e6, 8.0e6)] {
            rows.push(Row {
                op: Some("noop".into()),
                clients: Some(clients),
                ops_per_s: Some((each * f64::from(clients)).min(most)),
                ..Row::new("scaling", variant)
            });
        }
    }
    rows
}

#[test]
fn groups_keep_the_order_of_their_first_row() {
    let rows = [("b", 1), ("a", 2), ("b", 3)].map(|(name, n)| Row { clients: Some(n), ..Row::new(name, "v") });
    let report = Report { rows: rows.to_vec(), ..Report::default() };
    let groups = report.by_scenario();
    let found: Vec<_> =
        groups.iter().map(|(name, rows)| (*name, rows.iter().filter_map(|row| row.clients).collect())).collect();
    assert_eq!(found, [("b", vec![1, 3]), ("a", vec![2])]);
}

#[test]
fn a_report_gives_every_format() {
    let report = sample();
    let mut json = Vec::new();
    report.write_json(&mut json).unwrap();
    assert!(json.starts_with(b"{\"scenario\":\"lane\""));
    assert!(report.to_text().starts_with("sidecore bench\n"));
    assert!(report.to_markdown().starts_with("# sidecore bench\n"));
    assert!(report.to_html().starts_with("<!doctype html>"));
}
