//! `sidecore net papers`: the links' counts, rows for the simulator, and an early end.

use serde_json::Value;
use sidecore_testing::skipped;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const LAB: &str = env!("CARGO_BIN_EXE_sidecore-lab");
/// Bytes of a frame's addresses and type.
const ETHERNET: f64 = 14.0;
/// Bits a second on the line, and Ethernet's overhead of a packet.
const RATE: f64 = 1e9;
const ADDED: f64 = 38.0;

/// Links whose line takes no time.
const FREE: [&str; 6] = [
    "mtu=1500, free line",
    "mtu=9000, free line",
    "coalescence_us=32, free line",
    "coalescence_us=1024, free line",
    "checksums=kernel, free line",
    "checksums=interface, free line",
];
const CHECKSUMS: &str = "checksums=interface, free line against checksums=kernel, free line";

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(LAB);
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn papers(arguments: &[&str]) -> Option<(String, Vec<Value>, tempfile::TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("rows.json");
    let output = lab(&["net", "papers"]).args(arguments).arg("--json").arg(&json).output().unwrap();
    let said = said(&output);
    if ["cannot make a network namespace", "/dev/net/tun"].iter().any(|missing| said.contains(missing)) {
        skipped(&said);
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some((said, rows(&fs::read_to_string(&json).unwrap()), folder))
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Effects without a figure: on a busy machine a short run may have no round trip.
fn left_out(said: &str) -> usize {
    let words = said.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    words.split_once("net-lhcb: no run has ").map_or(0, |(_, names)| names.matches("; ").count() + 1)
}

fn number(row: &Value, path: &str) -> f64 {
    row.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {row}"))
}

fn of<'r>(rows: &'r [Value], variant: &str, op: &str) -> &'r Value {
    rows.iter().find(|row| row["variant"] == variant && row["op"] == op).unwrap()
}

#[test]
fn links_are_what_the_slides_say_and_a_simulation_reads_their_rows() {
    let Some((said, rows, folder)) = papers(&["lhcb", "--quick", "--ms", "100", "--repeats", "2"]) else { return };
    assert_eq!(rows.iter().filter(|row| row["scenario"] == "net-lhcb").count(), 20, "{said}");
    for (variant, mtu) in [("mtu=1500", 1_500.0), ("mtu=9000", 9_000.0)] {
        let frame = number(of(&rows, variant, "udp send"), "/link/bytes_per_frame");
        assert!((0.9..=1.0).contains(&(frame / (mtu + ETHERNET))), "{variant}: {frame} bytes");
    }
    // Times on the line are computed and not measured: this is the most frames within the delay of the oldest one.
    let most = 1.0 + 32e-6 * RATE / 8.0 / (1_500.0 + ADDED);
    let [short, long] = ["coalescence_us=32", "coalescence_us=1024"]
        .map(|variant| number(of(&rows, variant, "udp send"), "/link/frames_per_interrupt"));
    assert!(short <= most && short < long && long <= 16.0, "{short} and {long} frames, {most} at most");
    let effects: Vec<_> = rows.iter().filter(|row| row["scenario"] == "net-lhcb-effects").collect();
    assert_eq!(effects.len() + left_out(&said), 19, "{said}");
    for effect in effects.iter().filter(|row| row["effect"]["published"].is_number()) {
        let ratio = number(effect, "/effect/simulated") / number(effect, "/effect/published");
        assert!((0.9..=1.1).contains(&ratio), "the model is within 3 % of each figure: {effect}");
        assert!(effect["effect"]["low"].is_null(), "two pairs make no interval: {effect}");
    }
    let links: Vec<_> = rows.iter().filter(|row| row["scenario"] == "net-lhcb-links").collect();
    let names = links.iter().map(|row| row["variant"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), FREE, "{said}");
    for row in links {
        for figure in ["tcp_mbit_per_s", "udp_sent_mbit_per_s", "udp_received_mbit_per_s"] {
            assert!(row[figure].is_number(), "{row}");
        }
    }
    let offloaded: Vec<_> = effects.iter().filter(|row| row["baseline"] == CHECKSUMS).collect();
    assert!(!offloaded.is_empty(), "{said}");
    for effect in offloaded {
        assert!(effect["effect"]["published"].is_null() && effect["effect"]["simulated"].is_null(), "{effect}");
    }
    let file = folder.path().join("rows.json");
    let cells = folder.path().join("cells.json");
    let compared = lab(&["sim", "plans/lhcb.toml", "--compare"]).arg(&file).arg("--json").arg(&cells).output().unwrap();
    let said = self::said(&compared);
    assert!(
        compared.status.success()
            && said.contains(&format!("{} rows are left out: they are of another", effects.len() + FREE.len()))
            && said.contains("2 rows are left out: the plan"),
        "{said}"
    );
    let cells = self::rows(&fs::read_to_string(cells).unwrap());
    let name = "udp send, 8972 B, 1 connections: mtu=9000 against mtu=1500";
    let free = "udp send, 8972 B, 1 connections: mtu=9000, free line against mtu=1500, free line";
    let cell =
        |name: &str, metric: &str| cells.iter().find(|cell| cell["row"] == name && cell["column"] == metric).unwrap();
    let measured = ["mtu=9000", "mtu=1500"]
        .map(|variant| number(of(&rows, variant, "udp send"), "/metrics/packets_per_interrupt"));
    let ratio = number(cell(name, "packets_per_interrupt"), "/published");
    assert!((ratio - measured[0] / measured[1]).abs() < 1e-9, "{ratio} of {measured:?}");
    assert!(number(cell(free, "udp_sent_mbit_per_s"), "/predicted") > 1.2, "{said}");
}

#[test]
fn calls_between_processors_and_hardware_counters_are_rows_or_left_out() {
    let Some((said, rows, _)) = papers(&["hoti", "--quick", "--ms", "50", "--repeats", "1"]) else { return };
    let (_, left_out) = said.split_once("Left out").unwrap_or((&said, ""));
    let left_out = left_out.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let effects: Vec<_> = rows.iter().filter(|row| row["scenario"] == "net-hoti-effects").collect();
    for (name, metric) in [
        ("cross-calls, each byte", "cross_calls_per_s"),
        ("instructions, each packet", "instructions_per_packet"),
        ("misses of the first cache, each packet", "first_cache_misses_per_packet"),
        ("misses of the last cache, each packet", "last_cache_misses_per_packet"),
    ] {
        let is_counted = rows.iter().any(|row| row["metrics"][metric].is_number());
        match effects.iter().find(|row| row["variant"] == name) {
            Some(effect) => assert!(is_counted && effect["effect"]["measured"].is_number(), "{effect}"),
            None => assert!(left_out.contains(name), "neither a row nor left out, {name}: {said}"),
        }
    }
    let is_one = std::thread::available_parallelism().is_ok_and(|count| count.get() == 1);
    if cfg!(target_arch = "x86_64") && !is_one {
        let streams = rows.iter().filter(|row| row["scenario"] == "net-hoti" && row["size"] != 64);
        let calls = streams.map(|row| number(row, "/metrics/cross_calls_per_s"));
        assert!(calls.sum::<f64>() > 0.0, "{said}");
    }
}

#[test]
fn without_plans_or_repeats_it_says_what_is_missing() {
    let arguments = ["lhcb", "--quick", "--ms", "50", "--repeats", "1", "--plans", "/nonexistent"];
    let Some((said, rows, _)) = papers(&arguments) else { return };
    assert!(said.contains("--plans names the folder of lhcb.toml"), "{said}");
    let effects: Vec<_> = rows.iter().filter(|row| row["scenario"] == "net-lhcb-effects").collect();
    assert_eq!(effects.len() + left_out(&said), 19, "{said}");
    for effect in effects {
        assert!(effect["effect"]["simulated"].is_null() && effect["effect"]["low"].is_null(), "{effect}");
        assert!(effect["effect"]["measured"].is_number(), "{effect}");
    }
}

#[test]
fn an_interrupt_leaves_what_there_is() {
    let mut command = lab(&["net", "papers", "lhcb", "--ms", "50", "--repeats", "1000"]);
    let mut program = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    if line != "net papers\n" {
        program.wait().unwrap();
        return skipped(&line);
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&program), rustix::process::Signal::INT).unwrap();
    let output = program.wait_with_output().unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    let said = said(&output) + &rest;
    if said.contains("/dev/net/tun") {
        return skipped(&said);
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Stopped before its end"), "{said}");
    assert!(!said.contains("coalescence_us=32"), "it went on: {said}");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    for (arguments, why) in [
        (&["usenix"][..], "[possible values: hoti, lhcb]"),
        (&["--repeats", "0"], "write a whole number from 1 to 1000"),
        (&["--ms", "10"], "write a whole number from 50 to 60000"),
    ] {
        let output = lab(&["net", "papers"]).args(arguments).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(why), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn rows_that_a_plan_cannot_run_are_refused_or_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.json");
    let row = |variant: &str, more: &str| {
        let load = r#""op":"tcp send","clients":1,"size":65536,"metrics":{"tcp_mbit_per_s":2.0}"#;
        format!(r#"{{"scenario":"net-lhcb","variant":"{variant}",{load}{more}}}"#)
    };
    let first = row("mtu=1500", r#","settings":{"link.mtu_bytes":"1500"}"#);
    let second = |more: &str| row("mtu=9000", &format!(r#","baseline":"mtu=1500"{more}"#));
    let good = second(r#","settings":{"link.mtu_bytes":"9000"}"#);
    let compare = |plan: &str, lines: &[&str]| {
        fs::write(&file, lines.join("\n")).unwrap();
        let output = lab(&["sim", plan, "--compare"]).arg(&file).output().unwrap();
        (output.status.success(), said(&output))
    };
    let lhcb = "plans/lhcb.toml";
    let (done, said) = compare(lhcb, &[&first, &good]);
    assert!(done && said.contains("1.00 x") && ["1.18 x", "1.19 x"].iter().any(|is| said.contains(is)), "{said}");
    assert!(said.contains("1 of 1 go the same way"), "{said}");
    let (done, said) = compare(lhcb, &[&first, &good.replace("2.0", "1.0")]);
    assert!(done && said.contains("0.500 x") && said.contains("other way"), "{said}");
    assert!(said.contains("0 of 1 go the same way"), "{said}");
    let (done, said) = compare(lhcb, &[&first, &second("")]);
    assert!(done && said.contains("1 rows are left out: the plan has no such case"), "{said}");
    for (plan, lines, why) in [
        (lhcb, &[&good.replace("net-lhcb", "net-hoti")][..], "`sidecore net papers lhcb --json FILE`"),
        ("plans/pool-card.toml", &[&good], "those of `net papers lhcb` by plans/lhcb.toml"),
        (lhcb, &[&first, &second(r#","settings":{"nic.colour":"red"}"#)], "nic.colour"),
        (lhcb, &[&first, &second(r#","settings":{"link.mtu_bytes":"many"}"#)], "link.mtu_bytes"),
        (lhcb, &[&first, &second(r#","settings":{"link.mtu_bytes":9000}"#)], "settings are names with texts"),
        (lhcb, &[&"no row".to_owned()], "rows.json:1: is no row of a bench"),
    ] {
        let lines: Vec<&str> = lines.iter().map(|line| line.as_str()).collect();
        let (done, said) = compare(plan, &lines);
        assert!(!done && said.contains(why), "{plan}: {said}");
    }
}
