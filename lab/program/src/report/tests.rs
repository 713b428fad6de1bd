//! Artificial rows of all scenarios, for the tests of all exporters.

mod figures;
mod headline;
mod html;
mod json;
mod markdown;
mod text;

use super::*;
use serde_json::json;
use sidecore_report::About;

fn sections() -> impl Iterator<Item = &'static Section> {
    crate::bench::sections().chain(&crate::net::SECTIONS)
}

fn columns() -> impl Iterator<Item = &'static Column> {
    column::ALL.into_iter().chain(crate::bench::columns()).chain(crate::net::columns())
}

static PLAIN: Section = super::section("", "", "");

pub(crate) fn section(name: &str) -> &'static Section {
    sections().find(|section| section.name == name).unwrap_or(&PLAIN)
}

pub(crate) fn sample() -> Report {
    Report {
        title: "sidecore bench".into(),
        about: About {
            command: "sidecore bench".into(),
            version: "0.1.0".into(),
            date: "2026-07-01T12:00:00Z".into(),
            cores: 2,
            cpu: "Some Processor".into(),
            kernel: "6.18.1".into(),
            machine: "Some Processor, 2 cores, Linux 6.18".into(),
            commit: "87fbb54".into(),
            path: String::new(),
        },
        sections: sections().collect(),
        caveats: vec![Caveat::new(Reason::Busy, "12 %, the limit is 5 %")],
        rows: [lane(), crypto(), ocf(), notify(), balance(), scaling()].concat(),
        notes: vec!["Clients and service share two cores: rows with more than one client are pessimistic.".into()],
        left_out: vec!["ml-dsa-65-sign: OpenSSL 3.0 does not have it.".into()],
    }
}

pub(crate) fn full_row() -> Row {
    let missing = |row: &Row, column: &Column| !column.name.is_empty() && row.get(column).is_none();
    columns().fold(Row::new("crypto", "sidecore"), |row, column| match column.takes(&json!(2.5)) {
        _ if !missing(&row, column) => row,
        _ if column == column::DOUBTS => row.with(column, caveat::to_json(&[Caveat::new(Reason::Spread, "20 %")])),
        true => row.with(column, 2.5),
        false => row.with(column, format!("some {}", column.name)),
    })
}

fn against(row: Row, ratio: Option<f64>, baseline: &str) -> Row {
    row.with(column::RATIO, ratio)
        .with(column::BASELINE, ratio.map(|_| baseline))
        .with(column::RATIO_BETTER, ratio.map(|_| "more"))
}

fn lane() -> Vec<Row> {
    let row = |variant: &str, jobs: u32, ops_per_s: f64| {
        let ranges = json!({ "ops_per_s": [ops_per_s * 0.98, ops_per_s * 1.01] });
        let row = Row::new("lane", variant)
            .with(column::OP, "noop")
            .with(column::OPS_PER_S, ops_per_s)
            .with(column::JOBS, jobs);
        row.with(column::SPREAD, 0.03).with(column::RANGES, ranges)
    };
    let timed = |row: Row, ratio| against(row, Some(ratio), "bare ping-pong").with(column::RATIO_BETTER, "less");
    let rated = |row: Row, ratio| against(row, Some(ratio), "bare echo").with(column::RATIO_BETTER, "more");
    vec![
        row("bare ping-pong", 1, 5.2e6),
        timed(row("sequence in the slot", 1, 4.3e6), 1.2),
        timed(row("separate tail index", 1, 3.25e6), 1.6),
        row("bare echo", 128, 20.1e6),
        rated(row("pipelined", 128, 17.23e6), 0.86),
    ]
}

fn crypto() -> Vec<Row> {
    let mut rows = Vec::new();
    for (op, fixed_ns, ns_per_byte) in [("aes-256-gcm", 180.0, 0.19), ("sha-256", 150.0, 0.55)] {
        for size in [16, 64, 256, 1024, 4096, 16_384, 65_536] {
            let alone = 1e9 / (fixed_ns + ns_per_byte * f64::from(size));
            rows.extend(crypto_rows(op, Some(size), alone));
        }
    }
    rows.extend(crypto_rows("rsa-2048-sign", None, 1_900.0));
    rows
}

fn crypto_rows(op: &str, size: Option<u32>, alone: f64) -> Vec<Row> {
    let row = |variant: &str, ops_per_s: f64, clients: u32, ratio| {
        let row =
            Row::new("crypto", variant).with(column::OP, op).with(column::CLIENTS, clients).with(column::SIZE, size);
        let mbit_per_s = size.map(|size| ops_per_s * f64::from(size) * 8.0 / 1e6);
        against(row.with(column::OPS_PER_S, ops_per_s).with(column::MBIT_PER_S, mbit_per_s), ratio, "in process")
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
                let mbit = rated * share * f64::from(size) / (f64::from(size) + 300.0);
                let row = Row::new("ocf", "emulated").with(column::OP, "3des-cbc").with(column::BALANCE, "eft");
                let row = row.with(column::DEVICES, devices).with(column::CLIENTS, clients).with(column::SIZE, size);
                rows.push(row.with(column::MBIT_PER_S, mbit));
            }
        }
    }
    rows
}

fn notify() -> Vec<Row> {
    let mut rows = Vec::new();
    // Policy, delay of each request in us, and its CPU time at no load and on top of the work.
    let policies = [
        ("spin", 0.3, 9.0, 0.2),
        ("park", 6.5, 0.0, 2.9),
        ("timer(50us)", 26.0, 0.6, 0.5),
        ("coalesce(8,50us)", 14.0, 0.1, 0.9),
        ("break-even", 2.1, 0.9, 2.3),
        ("learn", 1.6, 0.6, 2.0),
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
    Row::new("notify", policy)
        .with(column::OP, "aes-256-gcm")
        .with(column::NOTIFY, policy)
        .with(column::CLIENTS, 1)
        .with(column::SIZE, 1024)
        .with_times(column::TOTAL, times(queue + 1.4 + delay * 0.6))
        .with_times(column::QUEUE, times(queue))
        .with_times(column::DEVICE, times(1.4))
        .with_times(column::DELIVER, times(delay * 0.6))
        .with(column::CLIENT_CPU, cpu * 0.4)
        .with(column::SERVICE_CPU, cpu * 0.6 + 0.9)
        .with(column::LOAD, load)
}

fn balance() -> Vec<Row> {
    let mut rows = Vec::new();
    for (policy, share) in
        [("round-robin", 0.61), ("p2c", 0.66), ("sed", 0.72), ("tokens", 0.77), ("eft", 0.79), ("priced", 0.98)]
    {
        let row = Row::new("balance", "95 % 256 B, 5 % 16 KiB").with(column::BALANCE, policy);
        let row = row.with(column::DEVICES, "2 fast, 2 slow");
        rows.push(against(row.clone(), Some(share), "linear program"));
        for load in [0.5, 0.8, 0.9_f64] {
            let p99 = 12.0 / (1.02 - load.min(share) * 1.02 / share).max(0.02);
            let times = Some(Times { mean: p99 * 0.3, p50: p99 * 0.2, p99 });
            rows.push(row.clone().with(column::LOAD, load).with_times(column::TOTAL, times));
        }
    }
    rows
}

fn scaling() -> Vec<Row> {
    let mut rows = Vec::new();
    for clients in [1, 2, 4, 8, 16] {
        for (variant, each, most) in [("1 sidecore", 2.9e6, 4.1e6), ("2 sidecores", 2.9e6, 8.0e6)] {
            let row = Row::new("scaling", variant).with(column::OP, "noop").with(column::CLIENTS, clients);
            rows.push(row.with(column::OPS_PER_S, (each * f64::from(clients)).min(most)));
        }
    }
    rows
}

#[test]
fn groups_keep_the_order_of_their_first_row() {
    let rows = [("b", 1), ("a", 2), ("b", 3)].map(|(name, n)| Row::new(name, "v").with(column::CLIENTS, n));
    let report = Report { rows: rows.to_vec(), ..Report::default() };
    let groups = report.by_scenario();
    let found: Vec<_> = groups
        .iter()
        .map(|(name, rows)| (*name, rows.iter().filter_map(|row| row.number(column::CLIENTS)).collect()))
        .collect();
    assert_eq!(found, [("b", vec![1.0, 3.0]), ("a", vec![2.0])]);
}

#[test]
fn a_report_gives_every_format() {
    let report = sample();
    let mut json = Vec::new();
    report.write_json(&mut json).unwrap();
    assert!(json.starts_with(b"{\"scenario\":\"lane\""));
    assert!(report.to_text(100).starts_with("sidecore bench\n"));
    assert!(report.to_markdown().starts_with("# sidecore bench\n"));
    assert!(report.to_html().starts_with("<!doctype html>"));
}

#[test]
fn each_column_has_a_place_of_its_own_and_a_heading_in_pages() {
    let all: Vec<_> = columns().collect();
    for column in &all {
        let alike = |other: &&&Column| other == &column || (!column.name.is_empty() && other.name == column.name);
        assert_eq!(all.iter().filter(alike).count(), 1, "{} {}", column.name, column.header);
    }
    let page = Report { rows: vec![full_row()], ..Report::default() }.to_html();
    let shown = all.iter().filter(|column| !column.header.is_empty()).count();
    // The header of a page has commit and machine.
    assert_eq!(page.matches("</th>").count() + 2, shown, "{page}");
}

#[test]
fn each_section_has_a_name_of_its_own_and_words() {
    let all: Vec<_> = sections().collect();
    for section in &all {
        assert_eq!(all.iter().filter(|other| other.name == section.name).count(), 1, "{}", section.name);
        assert!(!section.title.is_empty() && !section.reading.is_empty(), "{}", section.name);
    }
}
