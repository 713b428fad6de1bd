//! `sidecore net where` as users run it: a command's packets, wrong input, and an early end.

use serde_json::Value;
use sidecore_testing::{BusyProgram, skipped};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sidecore-lab");
/// Sent to a port without a receiver: the kernel answers each. Enough for hundreds of samples.
const DATAGRAMS: u64 = 40_000;

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["net", "where"]).args(arguments);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn rows(file: &Path) -> Vec<Value> {
    fs::read_to_string(file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

#[test]
fn a_commands_packets_are_taken_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let [json, folded] = ["rows.json", "stacks"].map(|name| scratch.path().join(name));
    let send = format!("for i in {{1..{DATAGRAMS}}}; do echo x > /dev/udp/127.0.0.1/9; done");
    let files = ["--json", json.to_str().unwrap(), "--folded", folded.to_str().unwrap()];
    let output = lab(&files).args(["--interface", "lo", "--", "bash", "-c", &send]).output().unwrap();
    if said(&output).contains("nothing can be sampled here") {
        return skipped(&said(&output));
    }
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = rows(&json);
    let named = |name: &str| rows.iter().find(|row| row["component"] == name);
    let sum = named("sum").unwrap();
    let packets = number(sum, "packets");
    assert!(packets >= 2.0 * DATAGRAMS as f64, "{packets}");
    let is_part = |row: &&Value| !["sum", "elsewhere", "idle"].contains(&row["component"].as_str().unwrap());
    let parts: Vec<_> = rows.iter().filter(is_part).collect();
    for key in ["cpu_s", "us_per_packet", "samples"] {
        let together: f64 = parts.iter().map(|row| number(row, key)).sum();
        assert!((together - number(sum, key)).abs() < 1e-6 * together, "{key}: {together} and {sum}");
    }
    let shares: f64 = parts.iter().map(|row| row["cpu_share"]["seen"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    assert!(fs::read_to_string(&folded).unwrap().lines().any(|line| line.starts_with("bash;[program] ")));
    let Some(unplaced) = named("unplaced") else {
        return skipped(&said(&output));
    };
    assert!(number(unplaced, "samples") <= 0.05 * number(sum, "samples"), "{}", said(&output));
    assert!(number(named("protocol").unwrap(), "samples") > 0.0, "{}", said(&output));
}

#[test]
fn other_programs_beside_a_command_are_said() {
    let _busy = BusyProgram::start();
    let output = lab(&["--interface", "lo", "--", "sleep", "1"]).output().unwrap();
    if said(&output).contains("nothing can be sampled here") {
        return skipped(&said(&output));
    }
    assert!(said(&output).contains("busy: other programs took processor time"), "{}", said(&output));
    assert!(said(&output).contains("\nlo: congestion-control "), "{}", said(&output));
}

#[test]
fn what_cannot_be_done_is_told_with_what_to_do() {
    let scratch = tempfile::tempdir().unwrap();
    let rules = scratch.path().join("rules");
    fs::write(&rules, "[driver]\nveth_*\n[speed]\n").unwrap();
    for (arguments, why) in [
        (&["--seconds", "0"][..], "write a whole number from 1 to 3600"),
        (&["--cpus", "1-0"], "\"1-0\" is no list of CPUs, as 0,2-3 is"),
        (&["--cpus", "0,99999"], "is no list of CPUs"),
        (&["--cpus", "8191"], "CPU 8191 is not online here"),
        (&["--rules", rules.to_str().unwrap()], "line 3: no component \"speed\"; there are driver, protocol"),
        (&["--rules", "/nonexistent"], "/nonexistent: cannot be read: No such file"),
        (&["--", "/nonexistent"], "cannot start /nonexistent"),
    ] {
        let output = lab(arguments).output().unwrap();
        let said = said(&output);
        if said.contains("nothing can be sampled here") {
            return skipped(&said);
        }
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

fn children(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default()
}

#[test]
fn an_interrupt_shows_what_there_is_and_ends_the_command() {
    let mut command = lab(&["--", "sleep", "1000"]);
    let mut program = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let id = program.id();
    while children(id).is_empty() && program.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    let child = children(id);
    if child.is_empty() {
        return skipped(&said(&program.wait_with_output().unwrap()));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&program), rustix::process::Signal::INT).unwrap();
    let output = program.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("Where the time goes"), "{}", said(&output));
    assert!(!Path::new("/proc").join(child.trim()).exists(), "{child} still runs");
}
