//! `sidecore farm try`, as users run it.

use serde_json::Value;
use sidecore_testing::{program_beside, skipped};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

const LABORATORY: &str = env!("CARGO_BIN_EXE_sidecore-lab");
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Time of the first events with --quick.
const QUICK_BURST_US: f64 = 2e6;

fn farm(arguments: &[&str]) -> Command {
    let mut command = Command::new(LABORATORY);
    command.arg("farm").args(arguments).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn has_server() -> bool {
    let found = Command::new("nats-server").arg("--version").output().is_ok();
    if found {
        program_beside(LABORATORY, "sidecore-farm");
    } else {
        skipped("no nats-server: apt-get install nats-server");
    }
    found
}

#[test]
fn each_event_is_committed_once_while_processes_are_killed() {
    if !has_server() {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    for whom in ["node", "node,feeder,dispatcher,server"] {
        let path = file.path().to_str().unwrap();
        let output = farm(&["try", "--quick", "--kill", whom, "--json", path]).output().unwrap();
        let text = fs::read_to_string(path).unwrap();
        let row: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        let number = |name: &str| row[name].as_u64().unwrap();
        assert_eq!((number("lost"), number("twice")), (0, 0), "{}", said(&output));
        // An overloaded machine makes nodes silent for long. Events of lost nodes may then become dead letters, which
        // is no loss.
        assert_eq!(number("committed") + number("dead"), number("fed"), "{}", said(&output));
        assert_eq!(output.status.code(), Some(i32::from(number("dead") > 0)), "{}", said(&output));
        assert!(number("fed") > 5_000 && number("kills") >= 5, "{text}");
        // On a machine so busy that most events take longer than the first events' time, none of these ends in it.
        let total = |quantile: &str| row["total_us"][quantile].as_f64().unwrap();
        let is_late = total("p50") > QUICK_BURST_US;
        assert!(row["share"].as_f64().unwrap() > 0.0 || is_late, "{text}");
        assert!(total("p99") > 0.0, "{text}");
        for heading in ["share of the sum of their rates", "committed twice", "late answers, dropped", "16 nodes"] {
            assert!(said(&output).contains(heading), "{heading} in {}", said(&output));
        }
    }
}

#[test]
fn without_a_server_it_is_said_how_to_get_one() {
    let nowhere = tempfile::tempdir().unwrap();
    for command in ["try", "bench"] {
        let mut farm = farm(&[command, "--quick"]);
        let output =
            farm.env("PATH", nowhere.path()).env("HOME", nowhere.path()).env_remove("GOPATH").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let said = said(&output);
        assert!(said.contains("no nats-server on the path"), "{said}");
        assert!(said.contains("apt-get install nats-server") && said.contains("go install github.com"), "{said}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let cases: [(&[&str], &str); 5] = [
        (&["try", "--kill", "everybody"], "possible values: node, feeder, dispatcher, server"),
        (&["try", "--seconds", "0"], "write a whole number from 1 to 86400"),
        (&["try", "--nats-server", "/bin/true"], "/bin/true is no nats-server that runs here"),
        (&["bench", "speed"], "possible values: share, tail, rate, kills"),
        (&["bench", "--nats-server", "/nowhere"], "No such file or directory"),
    ];
    for (arguments, why) in cases {
        let output = farm(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn nothing_outlives_one_that_is_interrupted_or_killed() {
    if !has_server() {
        return;
    }
    for signal in ["INT", "KILL"] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut running = farm(&["try"]).stdout(Stdio::null()).stderr(log.reopen().unwrap()).spawn().unwrap();
        until(|| children(running.id()).len() >= 18, || fs::read_to_string(log.path()).unwrap());
        let all = children(running.id());
        let sent = Command::new("kill").args([&format!("-{signal}"), &running.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let status = running.wait().unwrap();
        if signal == "INT" {
            assert_eq!(status.code(), Some(2));
            assert!(fs::read_to_string(log.path()).unwrap().contains("stopped before its end"));
        }
        let is_gone = |id: &u32| !is_alive(*id);
        until(|| all.iter().all(is_gone), || format!("{:?} after {signal}", all.iter().filter(|id| is_alive(**id))));
    }
}

fn until(mut holds: impl FnMut() -> bool, why: impl Fn() -> String) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < MAX_WAIT, "{}", why());
        thread::sleep(Duration::from_millis(20));
    }
}

fn children(of: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// Whether it runs. A zombie does not.
fn is_alive(id: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
