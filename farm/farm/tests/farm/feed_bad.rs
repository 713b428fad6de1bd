//! Feeding under bad input and failures: an event that cannot be stored is named, and the others go on.

use crate::program::{Running, farm, fine, refused, run, run_with, said, until};
use crate::queue::{by_id, count, take};
use sidecore_testing::nats::Server;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

fn kilobytes(number: usize) -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    let text: String = (0..number).map(|number| "x".repeat(1_000) + &number.to_string() + "\n").collect();
    fs::write(&file, text).unwrap();
    (scratch, file)
}

#[test]
fn an_event_larger_than_the_servers_limit_is_refused_by_name_and_the_rest_goes_on() {
    let Some(server) = Server::start() else { return };
    let large = vec![b'x'; 2 << 20];
    let output =
        run_with(&server.url(), &["feed", "--lines", "--name", "me"], &[b"one\n", &large[..], b"\nthree\n"].concat());
    refused(&output, 1, &["refused me-1: 2097152 bytes are more than the 1047552", "max_payload"]);
    assert_eq!(said(&output).1, "fed 3, stored 2, already there 0, refused 1, shed 0\n");
    assert_eq!(count(&server.url(), "farm-events"), 2);
}

#[test]
fn input_that_ends_in_the_middle_of_an_event_is_said() {
    let Some(server) = Server::start() else { return };
    let output = run_with(&server.url(), &["feed"], b"\0\0\0\x03one\0\0\0\x09two");
    refused(&output, 2, &["standard input: it ends in the middle of an event"]);
    assert_eq!(said(&output).1, "fed 1, stored 1, already there 0, refused 0, shed 0\n");
    refused(
        &run_with(&server.url(), &["feed"], b"some text\n"),
        2,
        &["text where an event's length should be", "--lines"],
    );
}

#[test]
fn a_farm_that_is_full_makes_its_feeder_wait() {
    let Some(server) = Server::start() else { return };
    let (_scratch, file) = kilobytes(1_000);
    let args = ["feed", "--lines", "--max-bytes", "100KiB", "--from", file.to_str().unwrap()];
    let mut feeder = Running::start(&mut farm(&server.url(), &args));
    feeder.says("the farm is full: waiting");
    let mut events = Vec::new();
    until("all events come", || {
        events.extend(take(&server.url(), "farm", 50));
        events.len() >= 1_000
    });
    assert_eq!(fine(&feeder.end()), "fed 1000, stored 1000, already there 0, refused 0, shed 0\n");
    assert_eq!(by_id(events).len(), 1_000);
}

#[test]
fn a_feeder_that_may_drop_says_how_much_it_dropped() {
    let Some(server) = Server::start() else { return };
    let (_scratch, file) = kilobytes(1_000);
    let args = ["feed", "--lines", "--max-bytes", "100KiB", "--when-full", "shed", "--from", file.to_str().unwrap()];
    let output = run(&server.url(), &args);
    let stored = count(&server.url(), "farm-events");
    assert!(stored > 0 && stored < 1_000);
    let line = format!("fed 1000, stored {stored}, already there 0, refused 0, shed {}\n", 1_000 - stored);
    assert_eq!((said(&output).0, said(&output).1), (1, line));
}

#[test]
fn without_a_server_a_feeder_says_what_to_start() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = run(&format!("nats://user:secret@{free}"), &["feed"]);
    refused(&output, 2, &[&format!("no NATS server at nats://{free}"), "nats-server -js"]);
    assert!(!said(&output).2.contains("secret"));
    refused(&run("nats://127.0.0.1:port", &["feed"]), 2, &["no address of a NATS server"]);
    refused(&run("nats://no.such.host.invalid:4222", &["feed"]), 2, &["--server"]);
}

#[test]
fn credentials_and_certificates_that_cannot_be_read_are_said_before_anything_else() {
    for option in ["--creds", "--tls-ca"] {
        refused(&run("nats://127.0.0.1:1", &["feed", option, "/no/such/file"]), 2, &["cannot read", "/no/such/file"]);
    }
}

#[test]
fn names_that_are_none_are_refused_by_the_arguments() {
    for (option, name) in
        [("--farm", "a.b"), ("--farm", ""), ("--name", "../x"), ("--kind", "*"), ("--kind", ">"), ("--name", "a b")]
    {
        refused(&run("nats://127.0.0.1:1", &["feed", option, name]), 2, &["letters, digits, - and _"]);
    }
    refused(&run("nats://127.0.0.1:1", &["feed", "--replicas", "2"]), 2, &["1, 3 or 5"]);
}

#[test]
fn a_source_that_cannot_be_read_is_said() {
    let Some(server) = Server::start() else { return };
    refused(&run(&server.url(), &["feed", "--from", "/no/such/file"]), 2, &["cannot read /no/such/file"]);
    refused(&run(&server.url(), &["feed", "--from", "/"]), 2, &["cannot read /"]);
    refused(&run(&server.url(), &["feed", "--dir", "/etc/passwd"]), 2, &["is no directory", "--from"]);
    refused(&run(&server.url(), &["feed", "--listen", "203.0.113.1:1"]), 2, &["cannot listen at 203.0.113.1:1"]);
}
