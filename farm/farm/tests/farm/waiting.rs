//! Waiting parts log the reason once, and again when it changes. They go on by themselves.

use crate::program::{Running, farm, fine, refused, run, until};
use crate::queue::{COMMITTED, count, publish, with};
use sidecore_testing::nats::Server;
use sidecore_testing::{go_on, stop};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{ChildStdin, Stdio};
use tempfile::TempDir;

fn feeder(server: &Server, args: &[&str]) -> (Running, ChildStdin) {
    let args = [&["feed", "--lines", "--name", "f"], args].concat();
    let mut feeder = Running::start(farm(&server.url(), &args).stdin(Stdio::piped()));
    let input = feeder.child.stdin.take().unwrap();
    (feeder, input)
}

fn add(server: &Server, numbers: std::ops::Range<u32>) {
    for number in numbers {
        publish(&server.url(), &format!("farm.farm.results.f-{number}"), &COMMITTED, "result");
    }
}

fn follower(server: &Server, to: &std::path::Path) -> Running {
    Running::start(&mut farm(&server.url(), &["results", "--follow", "--to", to.to_str().unwrap()]))
}

fn files(directory: &std::path::Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeSet::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

fn taker_of_twenty(server: &Server) -> (Running, TempDir) {
    fine(&run(&server.url(), &["feed"]));
    add(server, 0..20);
    let scratch = tempfile::tempdir().unwrap();
    let taker = follower(server, scratch.path());
    until("the first results", || files(scratch.path()).len() == 20);
    (taker, scratch)
}

#[test]
fn a_taker_whose_consumer_was_removed_makes_it_again_and_gets_each_result_once() {
    let Some(server) = Server::start() else { return };
    let (mut taker, scratch) = taker_of_twenty(&server);
    // The server may fail to remove its directory while it writes there.
    until("the consumer is removed", || {
        with(&server.url(), async |js| js.delete_consumer_from_stream("results", "farm-results").await.is_ok())
    });
    add(&server, 20..40);
    taker.says("waiting for results");
    taker.says("going on");
    until("all results", || files(scratch.path()).len() == 40);
    taker.stop();
    refused(&taker.end(), 0, &["took 40 results"]);
}

#[test]
fn a_taker_whose_stream_was_made_anew_takes_it_from_its_beginning() {
    let Some(server) = Server::start() else { return };
    let (mut taker, scratch) = taker_of_twenty(&server);
    until("the stream is removed", || with(&server.url(), async |js| js.delete_stream("farm-results").await.is_ok()));
    taker.says("waiting for results: the farm farm lacks its stream farm-results");
    fine(&run(&server.url(), &["feed"]));
    add(&server, 20..30);
    taker.says("going on");
    until("all results", || files(scratch.path()).len() == 30);
}

#[test]
fn feeder_taker_and_dispatcher_name_a_server_without_jetstream_and_go_on_when_it_has_it_again() {
    let Some(mut server) = Server::start() else { return };
    let mut dispatcher = Running::start(&mut farm(&server.url(), &["dispatch", "--results", "none"]));
    until("a dispatcher", || run(&server.url(), &["status"]).status.success());
    let (mut feeder, mut input) = feeder(&server, &[]);
    input.write_all(b"one\n").unwrap();
    until("the first event", || count(&server.url(), "farm-events") == 1);
    let (mut taker, _scratch) = taker_of_twenty(&server);
    server.start_again_with(false);
    input.write_all(b"two\n").unwrap();
    for part in [&mut dispatcher, &mut feeder, &mut taker] {
        part.says("JetStream is not enabled there");
    }
    server.start_again_with(true);
    for part in [&mut dispatcher, &mut feeder, &mut taker] {
        part.says("going on");
    }
    drop(input);
    assert_eq!(fine(&feeder.end()), "fed 2, stored 2, already there 0, refused 0, shed 0\n");
}

#[test]
fn a_feeder_says_that_a_server_answers_nothing_and_goes_on() {
    let Some(server) = Server::start() else { return };
    let (mut feeder, mut input) = feeder(&server, &[]);
    input.write_all(b"one\n").unwrap();
    until("the first event", || count(&server.url(), "farm-events") == 1);
    stop(server.id());
    input.write_all(b"two\n").unwrap();
    feeder.says("no answer to what is published");
    go_on(server.id());
    feeder.says("going on");
    drop(input);
    assert_eq!(fine(&feeder.end()), "fed 2, stored 2, already there 0, refused 0, shed 0\n");
}

#[test]
fn a_feeder_goes_on_when_the_server_takes_less_than_before() {
    let Some(mut server) = Server::start() else { return };
    server.reconfigure("max_payload: 100000\n");
    let (mut feeder, mut input) = feeder(&server, &[]);
    input.write_all(b"one\n").unwrap();
    until("the first event", || count(&server.url(), "farm-events") == 1);
    server.reload("max_payload: 10000\n");
    // The server does not notify clients: the first event that is too large costs the connection.
    until("what the server takes now", || with(&server.url(), async |js| js.client().max_payload() == 10_000));
    input.write_all(&[&vec![b'x'; 50_000][..], b"\nthree\n"].concat()).unwrap();
    feeder.says("refused f-1: 50000 bytes are more than the 8976");
    drop(input);
    let ended = feeder.end();
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), "fed 3, stored 2, already there 0, refused 1, shed 0\n");
    assert_eq!(count(&server.url(), "farm-events"), 2);
}
