//! The command `sidecore bench` as a user runs it: which rows come out, not how fast.

use serde_json::Value;
use std::process::{Command, Output};

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecore"))
}

/// Runs the scenario and reads its rows back.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("rows.json");
    let output = command().arg("bench").args(arguments).arg("--quick").arg("--json").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn cores() -> usize {
    sidecore::sys::cpu::allowed().len()
}

fn has(row: &Value, fields: &[&str]) -> bool {
    fields.iter().all(|field| !row[field].is_null())
}

#[test]
fn lane_is_measured_against_a_bare_exchange() {
    let rows = rows(&["lane"]);
    if cores() < 2 {
        assert!(rows.is_empty());
        return;
    }
    for (variant, baseline) in [("round-trip", "ping-pong"), ("pipelined", "echo")] {
        let row = rows.iter().find(|row| row["variant"] == variant).unwrap();
        assert_eq!(row["baseline"], baseline);
        assert!(row["ratio"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn crypto_has_a_row_for_each_baseline() {
    let rows = rows(&["crypto", "--op", "aes-256-gcm"]);
    let named: Vec<&str> = rows.iter().filter_map(|row| row["baseline"].as_str()).collect();
    let measured = |variant: &str| rows.iter().any(|row| row["variant"] == variant);
    for baseline in ["inline", "openssl", "inline+move"] {
        assert_eq!(named.contains(&baseline), measured(baseline), "{baseline}: {named:?}");
    }
    assert!(measured("inline") && (cores() < 2 || measured("inline+move")));
    let compared = rows.iter().filter(|row| !row["baseline"].is_null());
    assert!(compared.into_iter().all(|row| has(row, &["op", "size", "clients", "ratio"])));
    assert!(rows.iter().all(|row| row["op"] == "aes-256-gcm"));
}

#[test]
fn balance_has_a_row_for_each_policy() {
    let rows = rows(&["balance"]);
    for policy in ["round-robin", "sed", "eft", "tokens", "priced"] {
        let of_policy: Vec<_> = rows.iter().filter(|row| row["balance"] == policy).collect();
        assert!(!of_policy.is_empty(), "{policy}");
        assert!(of_policy.iter().all(|row| has(row, &["devices", "ops_per_s", "ratio"])));
    }
    assert!(rows.iter().all(|row| row["baseline"] == "sum of rates"));
}

#[test]
fn notify_says_what_waiting_costs() {
    let rows = rows(&["notify"]);
    for policy in ["spin", "park", "timer(250us)", "coalesce(16,100us)", "break-even", "learn", "predict"] {
        let of_policy: Vec<_> = rows.iter().filter(|row| row["notify"] == policy).collect();
        assert!(of_policy.iter().any(|row| row["variant"] == "open" && has(row, &["load", "seed"])), "{policy}");
        assert!(of_policy.iter().any(|row| row["variant"] == "closed" && row["load"].is_null()), "{policy}");
        let figures = ["total_us", "queue_us", "deliver_us", "cpu_us_per_op", "empty_polls", "wakeups_sent", "ratio"];
        assert!(of_policy.iter().all(|row| has(row, &figures)), "{of_policy:?}");
    }
}

#[test]
fn the_paper_s_table_and_scaling_name_their_baselines() {
    let rows = rows(&["ocf", "scaling"]);
    let of = |scenario: &'static str| rows.iter().filter(move |row| row["scenario"] == scenario);
    assert!(of("ocf").all(|row| row["op"] == "3des-cbc" && has(row, &["clients", "size", "mbit_per_s"])));
    assert!(of("ocf").any(|row| row["baseline"] == "inline" && has(row, &["ratio"])));
    assert!(of("scaling").any(|row| row["clients"] == 8 && row["devices"] == "1 sidecore"));
}

#[test]
fn what_does_not_exist_is_a_mistake_of_usage() {
    let scenario = command().args(["bench", "bogus"]).output().unwrap();
    assert_eq!(scenario.status.code(), Some(2));
    assert!(stderr(&scenario).contains("balance"));
    let op = command().args(["bench", "crypto", "--op", "bogus"]).output().unwrap();
    assert_eq!(op.status.code(), Some(2));
    assert!(stderr(&op).contains("aes-256-gcm") && stderr(&op).contains("rsa-2048-sign"));
}
