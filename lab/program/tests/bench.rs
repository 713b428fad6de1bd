//! The command `sidecore bench` as a user runs it: the rows, not the speed.

use nix::unistd::Uid;
use serde_json::Value;
use sidecore_testing::skipped;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sidecore-lab"))
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("rows.json");
    let output = command().arg("bench").args(arguments).arg("--quick").arg("--json").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn cores() -> usize {
    sidecore_daemon::sys::cpu::allowed().len()
}

fn has(row: &Value, fields: &[&str]) -> bool {
    fields.iter().all(|field| !row[field].is_null())
}

#[test]
fn lane_is_measured_against_a_bare_exchange() {
    let rows = rows(&["lane"]);
    if cores() < 2 {
        assert!(rows.is_empty());
        return skipped("there is one core");
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
fn a_mix_that_fills_devices_says_what_was_done_of_what_is_possible() {
    let rows = rows(&["balance", "--mix"]);
    assert_eq!(rows.len(), 5);
    for row in &rows {
        assert_eq!((&row["baseline"], &row["load"]), (&"linear program".into(), &0.9.into()));
        assert!(has(row, &["balance", "devices", "sent_per_s", "ops_per_s", "ratio", "total_us", "seed"]), "{row}");
    }
}

#[test]
fn notify_says_what_waiting_costs() {
    let rows = rows(&["notify"]);
    for policy in ["spin", "park", "timer(250us)", "coalesce(16,100us)", "break-even", "learn"] {
        let of_policy: Vec<_> = rows.iter().filter(|row| row["notify"] == policy).collect();
        assert!(
            of_policy.iter().any(|row| row["variant"] == "open" && has(row, &["load", "seed", "sent_per_s"])),
            "{policy}"
        );
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
fn keys_are_signed_by_the_provider_and_its_signatures_verify() {
    // Each client fails if another provider signs, or if OpenSSL rejects the signature.
    let rows = rows(&["keys", "--op", "ed25519-sign"]);
    let sidecore: Vec<_> = rows.iter().filter(|row| row["variant"] == "sidecore").collect();
    let stages = ["queue_us", "device_us", "host_us", "deliver_us", "total_us"];
    assert!(sidecore.iter().all(|row| has(row, &stages) && has(row, &["jobs", "ratio", "cpu_us_per_op", "pinned"])));
    for (processes, jobs) in [(1, 1), (1, 8), (4, 1), (4, 8)] {
        assert!(sidecore.iter().any(|row| row["clients"] == processes && row["jobs"] == jobs), "{processes} {jobs}");
    }
    let reach = sidecore.iter().find(|row| row["scenario"] == "keys-reach").unwrap();
    assert_eq!(reach["reach"]["at_least"], 2.0);
    assert!(rows.iter().any(|row| row["variant"] == "openssl" && row["library"].as_str().is_some()));
}

#[test]
fn faces_are_measured_against_softhsm_and_openssh_by_threads_and_processes() {
    // Each program fails if OpenSSL rejects its last signature.
    let rows = rows(&["faces", "--op", "p-256-sign"]);
    let ratio = |face: &str, threads: u64, processes: u64, baseline: &str| {
        let is_it = |row: &&Value| {
            row["face"] == face
                && (&row["threads"], &row["processes"]) == (&threads.into(), &processes.into())
                && (&row["variant"], &row["baseline"]) == (&"sidecore".into(), &baseline.into())
        };
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{face} {threads} {processes} {baseline}"));
        assert!(has(row, &["pinned", "cpu_us_per_op", "spread"]), "{row}");
        row["ratio"].as_f64().unwrap()
    };
    // Those of others sign outside of the programs, too.
    for row in rows.iter().filter(|row| row["variant"] != "softhsm2") {
        assert!(row["cpu_us_per_op"]["service"].as_f64().unwrap() > 0.0, "{row}");
    }
    for (threads, processes) in [(1, 1), (8, 1), (1, 8)] {
        for baseline in ["softhsm2", "softhsm2+p11-kit"] {
            assert!(ratio("pkcs11", threads, processes, baseline) > 0.0);
        }
    }
    assert!(ratio("agent", 1, 1, "ssh-agent") > 0.0);
}

#[test]
fn sockets_are_measured_in_each_way_and_every_byte_is_compared() {
    // The peer fails if bytes are altered or missing.
    let rows = rows(&["sockets", "--check"]);
    let kinds = ["stream", "fan-out", "paced-1k", "paced-100k", "pipelined", "echo", "slow-peer", "quiet"];
    let variants: &[&str] = if cores() < 2 {
        skipped("there is one core");
        &["direct", "nagle", "cork", "ring"]
    } else {
        &["direct", "nagle", "cork", "ring", "ring-spin"]
    };
    for (kind, variant) in kinds.iter().flat_map(|kind| variants.iter().map(move |variant| (kind, *variant))) {
        let row = rows.iter().find(|row| row["op"] == *kind && row["variant"] == variant);
        let row = row.unwrap_or_else(|| panic!("{kind} {variant}"));
        assert!(has(row, &["size", "clients", "ops_per_s", "mbit_per_s", "cpu_us_per_op", "spread", "pinned"]));
        assert!(row["cpu_us_per_op"]["client"].as_f64().unwrap() > 0.0, "{row}");
        let is_timed = kind.starts_with("paced") || ["pipelined", "echo", "quiet"].contains(kind);
        assert_eq!(has(row, &["total_us"]), is_timed, "{row}");
        // A program that only answers stays on the kernel's path.
        let share = row["ring_share"].as_f64();
        assert_eq!(share.is_some(), variant.starts_with("ring"), "{row}");
        // Other programs may keep a variant out of its rings; the row says so then.
        let mut doubts = row["doubts"].as_array().into_iter().flatten();
        let is_busy = doubts.any(|doubt| doubt["reason"] == "busy");
        assert!(share.is_none_or(|share| (share > 0.0) == (*kind != "echo") || (share == 0.0 && is_busy)), "{row}");
        assert_eq!((row["baseline"] == "direct", has(row, &["ratio"])), (variant != "direct", variant != "direct"));
    }
    for kind in kinds.iter().filter(|kind| **kind != "echo") {
        let in_rings = |row: &Value| row["op"] == *kind && row["ring_share"].as_f64().is_some_and(|share| share > 0.0);
        assert!(rows.iter().any(in_rings), "{kind}");
    }
    for kind in ["stream", "fan-out", "pipelined", "slow-peer", "quiet"] {
        assert!(
            rows.iter().any(|row| row["op"] == kind && row["variant"] == "batch" && has(row, &["ratio"])),
            "{kind}"
        );
    }
    // Datagrams may be lost, which rows state, but none may arrive late or twice.
    for variant in variants.iter().filter(|variant| !["nagle", "cork"].contains(variant)) {
        for size in [64, 1024] {
            let of = |row: &&Value| row["op"] == "udp" && row["size"] == size && row["variant"] == *variant;
            let row = rows.iter().find(of).unwrap_or_else(|| panic!("udp {size} {variant}"));
            assert!(has(row, &["sent_per_s", "ops_per_s", "cpu_us_per_op"]), "{row}");
            assert!((0.0..1.0).contains(&row["lost"].as_f64().unwrap()), "{row}");
        }
    }
    for variant in ["direct", "ring", "ring-break-even"] {
        let row = rows.iter().find(|row| row["op"] == "idle" && row["variant"] == variant);
        let row = row.unwrap_or_else(|| panic!("idle {variant}"));
        assert!(has(row, &["clients", "idle_wakeups"]) && has(&row["idle_us_per_s"], &["client"]), "{row}");
        // All are in rings, or there are none.
        let is_ring = variant != "direct";
        assert_eq!(row["ring_share"].as_f64(), is_ring.then_some(1.0), "{row}");
        assert_eq!(has(&row["idle_us_per_s"], &["service"]), is_ring, "{row}");
    }
}

#[test]
fn nginx_makes_handshakes_with_its_key_in_a_file_and_in_the_service() {
    let rows = rows(&["nginx", "--op", "p-256-sign"]);
    if Command::new("nginx").arg("-v").output().is_err() {
        assert!(rows.is_empty());
        return skipped("nginx is missing; run: sudo apt-get install nginx-light");
    }
    for variant in ["key in a file", "key in sidecore, same core", "key in sidecore, other core"] {
        let row = rows.iter().find(|row| row["variant"] == variant).unwrap();
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0 && row["cpu_us_per_op"]["client"].as_f64().unwrap() > 0.0);
    }
    // The service signs only for servers with the key in the service.
    let service = |row: usize| rows[row]["cpu_us_per_op"]["service"].as_f64().unwrap();
    assert!(service(1) > 4.0 * service(0) && service(2) > 4.0 * service(0), "{rows:?}");
}

#[test]
fn haproxy_makes_handshakes_with_its_key_in_a_file_and_signed_side_by_side() {
    let rows = rows(&["haproxy"]);
    if Command::new("haproxy").arg("-v").output().is_err() {
        assert!(rows.is_empty());
        return skipped("haproxy is missing; run: sudo apt-get install haproxy");
    }
    let row = |variant: &str| rows.iter().find(|row| row["variant"] == variant).unwrap();
    let cpu = |variant: &str, whose: &str| row(variant)["cpu_us_per_op"][whose].as_f64().unwrap();
    let (file, worker, batch) = ("key in a file", "key in sidecore, worker", "key in sidecore, batch");
    for variant in [file, worker, batch] {
        assert!(row(variant)["ops_per_s"].as_f64().unwrap() > 0.0 && cpu(variant, "client") > 0.0);
    }
    // The service signs only for servers with the key in the service.
    assert!([worker, batch].iter().all(|variant| cpu(variant, "service") > 4.0 * cpu(file, "service")), "{rows:?}");
    let gathered = row(batch)["per_batch"].as_f64();
    // Without AVX-512-IFMA there are no batches of RSA and P-256.
    #[cfg(target_arch = "x86_64")]
    assert!(gathered.is_some() || !std::arch::is_x86_feature_detected!("avx512ifma"), "{rows:?}");
    assert!(gathered.is_none_or(|requests| requests > 1.0), "one process has several handshakes in flight: {rows:?}");
}

#[test]
fn a_link_is_measured_against_how_it_is_set() {
    let rows = rows(&["link"]);
    if rows.is_empty() {
        assert!(!Uid::effective().is_root() || !Path::new("/dev/net/tun").exists(), "root makes a link");
        return skipped("a link needs root, or user namespaces, and /dev/net/tun");
    }
    let of = |variant: &str| rows.iter().filter(|row| row["variant"] == variant).collect::<Vec<_>>();
    assert_eq!((of("veth").len(), of("link, no offload").len()), (1, 2));
    // A run that the machine had no time for is left out.
    assert!(!of("simulated").is_empty() && of("simulated").len() == of("link, added").len());
    let carried = |row: &&Value| has(row, &["mbit_per_s", "ratio", "baseline"]);
    assert!(of("link, no offload").iter().all(carried));
    let moderated = of("link").into_iter().filter(|row| has(row, &["link"]));
    for row in moderated {
        // A late link announces more frames together, never fewer, and never more than its limit.
        let packets = row["link"]["frames_per_interrupt"].as_f64().unwrap();
        let most = row["op"].as_str().unwrap().trim_start_matches("coalesce(").split(',').next().unwrap();
        assert!(packets > 1.2 && packets <= most.parse::<f64>().unwrap(), "{row}");
    }
    assert!(of("link, added").iter().all(|row| has(row, &["total_us", "ratio", "reach"])));
}

#[test]
fn waking_is_compared_with_timers_and_with_what_was_published() {
    let rows = rows(&["keys", "--op", "p-256-sign"]);
    let waiting: Vec<_> = rows.iter().filter(|row| row["scenario"] == "keys-waiting").collect();
    for policies in
        ["service timer(1ms), client park", "service park, client timer(250us)", "service spin, client spin"]
    {
        assert!(
            waiting.iter().any(|row| row["notify"] == policies && has(row, &["queue_us", "ops_per_s"])),
            "{policies}"
        );
    }
    let compared: Vec<_> = rows.iter().filter(|row| row["scenario"] == "keys-interrupts").collect();
    assert!(compared.iter().any(|row| row["changes"]["throughput"] == 274.0));
    assert!(compared.iter().any(|row| row["variant"].as_str().unwrap().ends_with("both woken")));
    assert!(compared.iter().all(|row| has(&row["changes"], &["queue", "device", "throughput"])));
}

#[test]
fn what_does_not_exist_is_a_mistake_of_usage() {
    let refused = |arguments: &[&str], listed: &[&str], hidden: &str| {
        let output = command().arg("bench").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = stderr(&output);
        assert!(listed.iter().all(|name| said.contains(name)) && !said.contains(hidden), "{arguments:?}: {said}");
    };
    refused(&["bogus"], &["balance"], "aes-256-gcm");
    refused(&["crypto", "--op", "bogus"], &["aes-256-gcm", "rsa-2048-sign"], "stream");
    // Operations of other scenarios would measure nothing here.
    refused(&["keys", "--op", "aes-256-gcm"], &["rsa-1024-sign", "ed25519-sign"], "sha-256");
    refused(&["nginx", "--op", "ed25519-sign"], &["p-256-sign"], "rsa-1024-sign");
    refused(&["haproxy", "--op", "p-256-sign"], &["rsa-2048-sign"], "rsa-4096-sign");
    refused(&["sockets", "--op", "rsa-2048-sign"], &["stream", "echo"], "p-256-sign");
    refused(&["--op", "stream"], &["aes-256-gcm"], "fan-out");
    refused(&["lane", "ocf", "--op", "sha-256"], &["lane, ocf"], "aes-256-gcm");
    refused(&["calibrate", "--op", "sha-256"], &["--op"], "aes-256-gcm");
    refused(&["keys", "crypto", "--check"], &["sockets"], "aes-256-gcm");
}
