//! Programs whose service is stopped or killed, or whose peers read nothing.

use super::apart::Apart;
use super::program::{command, command_for, compiled};
use super::same;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

fn found(program: &Path, what: &str, service: Option<&Apart>) -> String {
    let output = command(program, &[what], service.map(Apart::socket)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{what}: {}: {said}", output.status);
    said
}

#[test]
fn a_send_that_the_service_holds_up_is_followed_by_an_edge() {
    const SIDECORE: u64 = 1;
    let directory = TempDir::new().unwrap();
    let (program, service) = (compiled(directory.path(), &["stalls.c"]), Apart::start(directory.path()));
    let mut command = command(&program, &["held"], Some(service.socket()));
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "the first edge: 1");
    assert_eq!(lines.next().unwrap(), "all so far: 1");
    assert!(service.hold(0, SIDECORE) > 0);
    program.stdin.take().unwrap().write_all(b"x").unwrap();
    assert_eq!(lines.next().unwrap(), "the end of sends: 1");
    // Time for an edge that comes too early, when a send would fail again.
    thread::sleep(Duration::from_millis(50));
    assert!(service.hold(SIDECORE, 0) > 0);
    assert_eq!(lines.collect::<Vec<_>>(), ["the edge: 1", "of the socket: 1", "a send: 1"]);
    assert!(program.wait().unwrap().success());
}

#[test]
fn whoever_waits_for_an_edge_gets_it_after_a_service_was_stopped() {
    let directory = TempDir::new().unwrap();
    let (program, service) = (compiled(directory.path(), &["stalls.c"]), Apart::start(directory.path()));
    let said = thread::scope(|scope| {
        let found = scope.spawn(|| found(&program, "edges", Some(&service)));
        while !found.is_finished() {
            // At any moment, so sometimes within a transfer.
            thread::sleep(Duration::from_millis(37));
            service.stop();
            thread::sleep(Duration::from_millis(60));
            service.go_on();
        }
        found.join().unwrap()
    });
    assert_eq!(said, "edges that did not come: 0\nall bytes: 1\n");
}

#[test]
fn stalled_peers_change_no_result_and_hold_no_call_up() {
    for what in ["calls", "errors", "signals", "low", "inherited"] {
        let directory = TempDir::new().unwrap();
        let (program, service) = (compiled(directory.path(), &["stalls.c"]), Apart::start(directory.path()));
        let plain = found(&program, what, None);
        assert!(!plain.contains("quick 0"), "{plain}");
        same(&plain, &found(&program, what, Some(&service)));
    }
}

#[test]
fn what_was_sent_and_not_received_is_in_the_queue() {
    let directory = TempDir::new().unwrap();
    let (program, service) = (compiled(directory.path(), &["stalls.c"]), Apart::start(directory.path()));
    for service in [None, Some(&service)] {
        assert_eq!(found(&program, "queue", service), "bytes in no count: 0\nall of them: 1\n");
    }
}

/// Names the number of seconds of each run of [`whatever_a_program_calls_it_gets_what_the_kernel_promises`]; nightly
/// checks take longer.
const SECONDS: &str = "SIDECORE_RANDOM_SECONDS";

/// Each service stands for that long, and serves for that long: moments of all kinds are met.
const TURNS_MS: [u64; 5] = [7, 90, 25, 300, 41];

#[test]
fn whatever_a_program_calls_it_gets_what_the_kernel_promises() {
    let seconds = std::env::var(SECONDS).unwrap_or_else(|_| "20".to_owned());
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["random.c"]);
    let limit = (120 + seconds.parse::<u32>().unwrap()).to_string();
    let random = |arguments: &[&str], service: Option<&Path>| {
        let arguments = [&arguments[..1], &[&seconds], &arguments[1..]].concat();
        let mut command = command_for(&program, &arguments, service, &limit);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "breaches: 0\n", "{}", output.status);
    };
    random(&["1"], None);
    let turns = || TURNS_MS.into_iter().cycle().map(Duration::from_millis);
    let mut service = Apart::start(directory.path());
    let socket = service.socket().to_owned();
    thread::scope(|scope| {
        let run = scope.spawn(|| random(&["2"], Some(&socket)));
        turns().take_while(|_| !run.is_finished()).for_each(|turn| {
            thread::sleep(turn);
            service.stop();
            thread::sleep(turn / 4);
            service.go_on();
        });
    });
    thread::scope(|scope| {
        let run = scope.spawn(|| random(&["3", "killed"], Some(&socket)));
        turns().take_while(|_| !run.is_finished()).for_each(|turn| {
            thread::sleep(turn);
            service.kill();
            service = Apart::start(directory.path());
        });
    });
}

#[test]
fn what_breaks_a_promise_is_found() {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["random.c"]);
    let library = directory.path().join("planted.so");
    let planted = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls/planted.c");
    let built = Command::new("cc").args(["-O1", "-w", "-shared", "-fPIC", "-o"]).args([&library, &planted]).status();
    assert!(built.unwrap().success());
    thread::scope(|scope| {
        for (name, found) in [
            ("edges", "never writable again: "),
            ("aborts", "abort: "),
            ("ends", ": -104, after "),
            ("reasons", "another first error: "),
        ] {
            let mut command = command_for(&program, &["1", "100"], None, "240");
            command.env("LD_PRELOAD", &library).env("PLANTED", name);
            scope.spawn(move || {
                let output = command.output().unwrap();
                let said = String::from_utf8_lossy(&output.stdout);
                assert!(said.contains(found) && said.ends_with("breaches: 1\n"), "{name}: {said}");
            });
        }
    });
}

/// The peer reads nothing until the service was killed.
#[test]
fn a_program_that_goes_on_sends_what_it_left_to_a_service_that_was_killed() {
    let directory = TempDir::new().unwrap();
    let program = compiled(directory.path(), &["left.c"]);
    for how in ["close", "shutdown"] {
        let mut service = Apart::start(directory.path());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let mut command = command(&program, &[&port, how], Some(service.socket()));
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut peer = listener.accept().unwrap().0;
        let mut said = String::new();
        BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let accepted: usize = said.trim_end().strip_prefix("accepted: ").expect(&said).parse().unwrap();
        service.kill();
        let mut bytes = Vec::new();
        let got = peer.read_to_end(&mut bytes).map(|_| bytes.len());
        assert!(got.as_ref().is_ok_and(|got| *got == accepted), "{how}: {got:?} of {accepted}");
        drop(program.stdin.take());
        assert!(program.wait().unwrap().success());
    }
}
