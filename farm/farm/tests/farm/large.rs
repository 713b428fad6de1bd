//! Events and results that are larger than a message of the servers.

use crate::program::{Running, farm, fine, refused, run, run_with, said, status, until};
use crate::queue::{count, publish, with};
use async_nats::HeaderMap;
use serde_json::Value;
use sidecore_testing::nats::Server;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::thread;

/// Octets of a large event: more than a message has.
const LARGE: usize = 3 << 20;
const STORES: [&str; 2] = ["OBJ_farm-large-events", "OBJ_farm-large-results"];

/// Content that has no octet twice at the places where parts meet.
fn content() -> Vec<u8> {
    (0..LARGE as u32 / 4).flat_map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()).collect()
}

fn feed(url: &str, name: &str, content: &[u8]) -> String {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("one"), content).unwrap();
    fs::write(scratch.path().join("two"), b"small").unwrap();
    fine(&run(url, &["feed", "--dir", scratch.path().to_str().unwrap(), "--name", name]))
}

fn node(url: &str, command: &[&str]) -> Running {
    Running::start(farm(url, &["work", "--max-result", "8MiB"]).arg("--").args(command))
}

/// What nobody uses any more.
fn objects_are_gone(url: &str) {
    until("the objects are removed", || STORES.iter().all(|stream| count(url, stream) == 0));
}

fn letters(url: &str) -> Vec<Value> {
    let said = fine(&run(url, &["dead", "--json"]));
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The name of the only object of a store, and what the library says of it.
fn object(url: &str) -> String {
    use futures_util::StreamExt;
    with(url, async |js| {
        let store = js.get_object_store("farm-large-events").await.unwrap();
        let mut listed = store.list().await.unwrap();
        listed.next().await.unwrap().unwrap().name
    })
}

#[test]
fn large_events_and_results_pass_and_leave_nothing_behind() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB", "--large-bytes", "16MiB"]));
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch"]));
    let content = content();
    assert!(feed(&url, "f", &content).starts_with("fed 2, stored 2,"));
    let _node = node(&url, &["cat"]);
    assert!(run(&url, &["result", "f-one", "--wait", "60s"]).stdout == content);
    let out = tempfile::tempdir().unwrap();
    let to = out.path().to_str().unwrap();
    // Another taker has not taken them yet.
    let late = |count| run(&url, &["results", "--name", "late", "--stdout", "--count", count]);
    fine(&late("0"));
    fine(&run(&url, &["results", "--to", to, "--count", "2"]));
    assert!(fs::read(out.path().join("f-one")).unwrap() == content);
    assert_eq!(fs::read(out.path().join("f-two")).unwrap(), b"small");
    assert!(count(&url, STORES[1]) > 0, "a taker of another name still takes it");
    // Each behind its length.
    assert_eq!(late("2").stdout.len(), 4 + LARGE + 4 + b"small".len());
    objects_are_gone(&url);
}

#[test]
fn without_room_for_them_large_events_are_refused_with_what_makes_it() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB"]));
    let line = vec![b'x'; LARGE];
    let feed = |options: &[&str]| run_with(&url, &[&["feed", "--lines", "--name", "f"], options].concat(), &line);
    refused(&feed(&[]), 1, &["3145728 bytes are more than", "--large-bytes"]);
    // A node whose result is too large says the same.
    let dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let _node = node(&url, &["head", "-c", "3000000", "/dev/zero"]);
    fine(&run_with(&url, &["feed", "--lines", "--name", "small"], b"one\n"));
    until("a dead letter", || count(&url, "farm-dead") == 1);
    let reason = letters(&url)[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("3000000 octets") && reason.contains("--large-bytes"), "{reason}");
    // With room for two thirds of it.
    fine(&run(&url, &["feed", "--large-bytes", "2MiB"]));
    let other = run_with(&url, &["feed", "--lines", "--name", "g"], &line);
    refused(&other, 1, &["3145728 octets are more than the 2097152 that the store of large events holds"]);
    refused(&run(&url, &["feed", "--large-bytes", "9MiB"]), 2, &["OBJ_farm-large-events", "--large-bytes", "9437184"]);
    dispatcher.stop();
    dispatcher.end();
    fine(&run(&url, &["delete", "--yes"]));
    assert!(with(&url, async |js| js.get_stream(STORES[0]).await.is_err()));
}

#[test]
fn a_full_store_makes_feeders_wait_and_what_is_given_up_frees_it() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB", "--large-bytes", "5MiB"]));
    let line = vec![b'x'; LARGE];
    fine(&run_with(&url, &["feed", "--lines", "--name", "one"], &line));
    let two = ["feed", "--lines", "--name", "two"];
    let (code, out, _) = said(&run_with(&url, &[&two[..], &["--when-full", "shed"]].concat(), &line));
    assert_eq!((code, out.trim()), (1, "fed 1, stored 0, already there 0, refused 0, shed 1"));
    assert_eq!(count(&url, STORES[0]), 5, "nothing of the second one");
    let mut feeder = Running::start(farm(&url, &["feed", "--lines", "--name", "three"]).stdin(Stdio::piped()));
    let mut input = feeder.child.stdin.take().unwrap();
    let feeding = thread::spawn(move || input.write_all(&line).unwrap());
    feeder.says("the farm is full");
    feeding.join().unwrap();
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let failing = node(&url, &["false"]);
    until("a dead letter", || count(&url, "farm-dead") == 1);
    drop(failing);
    let pruned = fine(&run(&url, &["prune", "--dead"]));
    assert!(pruned.contains("dead letters removed: 1"), "{pruned}");
    assert!(fine(&feeder.end()).starts_with("fed 1, stored 1,"));
}

#[test]
fn who_may_store_results_cannot_remove_those_of_others() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB", "--large-bytes", "5MiB"]));
    let stored = |headers: &[(&str, &str)], body: &str| {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        let body = body.to_owned();
        with(&url, async |js| {
            js.publish_with_headers("$O.farm-large-results.C.one", map, body.into()).await.unwrap().await.is_ok()
        })
    };
    assert!(stored(&[], "of one") && !stored(&[("Nats-Rollup", "all")], "of another"));
    assert_eq!(count(&url, STORES[1]), 1);
}

#[test]
fn what_is_marked_as_a_reference_and_is_too_large_for_one_holds_up_nothing() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "64MiB", "--large-bytes", "5MiB"]));
    let long = "a".repeat((1 << 20) - 200);
    publish(&url, "farm.farm.events.default", &[("Nats-Msg-Id", "x-1"), ("Farm-Large", "1")], &long);
    let name = format!(r#"{{"object":"y-1/{}","sha256":"","octets":1}}"#, "a".repeat(800));
    for (subject, id) in [("farm.farm.events.default", "y-1"), ("farm.farm.results.y-1", "y-1.d")] {
        publish(&url, subject, &[("Nats-Msg-Id", id), ("Farm-Large", "1"), ("Farm-Kind", "k")], &name);
    }
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let _node = node(&url, &["cat"]);
    fine(&run_with(&url, &["feed", "--lines", "--name", "f"], b"small\n"));
    until("all events", || count(&url, "farm-events") == 0);
    let taken = run(&url, &["results", "--stdout", "--lines"]);
    refused(&taken, 1, &["left out the result y-1: the reference to an object is none"]);
    assert_eq!(said(&taken).1, "small\n");
    fine(&run(&url, &["prune", "--dead"]));
}

#[test]
fn results_that_nobody_wants_any_more_give_their_room_back() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB", "--large-bytes", "16MiB"]));
    let take = |name, count| fine(&run(&url, &["results", "--name", name, "--stdout", "--lines", "--count", count]));
    take("late", "0");
    let dispatcher = Running::start(&mut farm(&url, &["dispatch"]));
    let _node = node(&url, &["cat"]);
    let line = vec![b'x'; LARGE];
    fine(&run_with(&url, &["feed", "--lines", "--name", "one"], &line));
    assert_eq!(take("results", "1").len(), LARGE + 1);
    assert!(count(&url, STORES[1]) > 0);
    fine(&run(&url, &["prune", "--forget", "late"]));
    assert_eq!(count(&url, STORES[1]), 0);
    dispatcher.stop();
    dispatcher.end();
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--results", "none"]));
    fine(&run_with(&url, &["feed", "--lines", "--name", "two"], &line));
    until("it is done", || count(&url, "farm-events") == 0);
    objects_are_gone(&url);
    assert_eq!(count(&url, "farm-results"), 0);
}

#[test]
fn feeder_and_taker_end_by_a_signal_while_their_server_is_away() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB", "--large-bytes", "5MiB"]));
    let line = vec![b'x'; LARGE];
    fine(&run_with(&url, &["feed", "--lines", "--name", "one"], &line));
    let mut feeder = Running::start(farm(&url, &["feed", "--lines", "--name", "two"]).stdin(Stdio::piped()));
    let mut input = feeder.child.stdin.take().unwrap();
    input.write_all(&line).unwrap();
    input.write_all(b"\n").unwrap();
    feeder.says("the farm is full");
    let mut taker = Running::start(&mut farm(&url, &["results", "--stdout", "--follow"]));
    until("the taker is there", || {
        with(&url, async |js| {
            js.get_stream("farm-results").await.unwrap().get_info().await.unwrap().state.consumer_count
        }) == 1
    });
    drop(server);
    for process in [&mut feeder, &mut taker] {
        process.says("lost the connection");
        process.stop();
    }
    for process in [feeder, taker] {
        let ended = process.end();
        assert_ne!(
            ended.status.signal(),
            Some(9),
            "the test's limit ended it: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
}

#[test]
fn references_in_a_farm_without_stores_stop_neither_nodes_nor_takers() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB"]));
    let reference = r#"{"object":"x/1","sha256":"","octets":1}"#;
    for number in 0..4 {
        let headers = [("Nats-Msg-Id", &*format!("x-{number}")), ("Farm-Large", "1")];
        publish(&url, "farm.farm.events.default", &headers, reference);
    }
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let _node = node(&url, &["cat"]);
    let line = b"small\n";
    fine(&run_with(&url, &["feed", "--lines", "--name", "f"], line));
    until("the small event is done", || count(&url, "farm-results") == 1);
    until("dead letters", || count(&url, "farm-dead") == 4);
    assert!(letters(&url)[0]["reason"].as_str().unwrap().contains("--large-bytes"));
    assert_eq!(status(&url)["nodes"][0]["refused"], 0, "that would pause the node");
    for (id, object) in [("evil", "evil/1"), ("bad", "f-0/1")] {
        let reference = reference.replace("x/1", object);
        publish(&url, &format!("farm.farm.results.{id}"), &[("Farm-Kind", "k"), ("Farm-Large", "1")], &reference);
    }
    let taken = run(&url, &["results", "--stdout", "--lines"]);
    refused(&taken, 1, &["left out the result evil: the farm has no room", "left out the result bad: the reference"]);
    assert_eq!(said(&taken).1, "small\n");
}

#[test]
fn a_large_event_that_fails_is_a_letter_and_is_fed_again() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB", "--large-bytes", "16MiB"]));
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let failing = node(&url, &["sh", "-c", "cat >/dev/null; exit 3"]);
    let content = content();
    feed(&url, "f", &content);
    until("dead letters", || count(&url, "farm-dead") == 2);
    let large = letters(&url).into_iter().find(|letter| letter["id"] == "f-one").unwrap();
    assert_eq!((&large["bytes"], &large["cut"]), (&Value::from(LARGE), &Value::from(false)), "{large}");
    assert!(large["reason"].as_str().unwrap().contains("exit code 3"), "{large}");
    drop(failing);
    let _node = node(&url, &["sha256sum"]);
    fine(&run(&url, &["dead", "--again"]));
    let taken = fine(&run(&url, &["results", "--stdout", "--lines", "--count", "2"]));
    let sum = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &content);
    let hexadecimal = sum.as_ref().iter().fold(String::new(), |text, octet| text + &format!("{octet:02x}"));
    assert!(taken.contains(&hexadecimal), "{taken}");
    objects_are_gone(&url);
}

#[test]
fn an_object_that_is_exchanged_or_removed_is_no_event() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB", "--large-bytes", "16MiB"]));
    let content = content();
    for (id, reason) in [("exchanged", "is not what was stored"), ("removed", "is gone")] {
        feed(&url, id, &content);
        let name = object(&url);
        with(&url, async |js| {
            let store = js.get_object_store("farm-large-events").await.unwrap();
            match id {
                "exchanged" => drop(store.put(name.as_str(), &mut &content[1..]).await.unwrap()),
                _ => store.delete(&name).await.unwrap(),
            }
        });
        let dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
        let node = node(&url, &["cat"]);
        let letter = || letters(&url).into_iter().find(|letter| letter["id"] == format!("{id}-one"));
        until("a dead letter", || letter().is_some());
        let said = letter().unwrap()["reason"].as_str().unwrap().to_owned();
        assert!(said.contains(reason), "{said}");
        drop((dispatcher, node));
        with(&url, async |js| js.get_stream(STORES[0]).await.unwrap().purge().await.map(drop).unwrap());
    }
}

#[test]
fn a_reference_that_names_what_it_may_not_removes_nothing_and_stops_nobody() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--max-bytes", "8MiB", "--large-bytes", "16MiB"]));
    feed(&url, "f", &content());
    let parts = count(&url, STORES[0]);
    // The description of an object whose parts are those of all objects, and events with odd references.
    with(&url, async |js| {
        let told = r#"{"name":"evil","bucket":"farm-large-events","nuid":">","size":1,"chunks":1,"digest":"","deleted":false}"#;
        js.publish("$O.farm-large-events.M.ZXZpbA==", told.into()).await.unwrap().await.unwrap();
    });
    let huge = format!(r#"{{"object":"evil","sha256":"","octets":{}}}"#, u64::MAX);
    for (id, body) in [
        ("a", r#"{"object":"evil","sha256":"","octets":1}"#),
        ("b", &huge),
        ("c", "no reference"),
        ("d", r#"{"object":"","sha256":"","octets":0}"#),
    ] {
        let headers = [("Nats-Msg-Id", id), ("Farm-Large", "1")];
        publish(&url, "farm.farm.events.default", &headers, body);
    }
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let _node = node(&url, &["cat"]);
    until("dead letters", || count(&url, "farm-dead") == 4);
    until("results", || count(&url, "farm-results") == 2);
    until("the object of the result is removed, and no other", || count(&url, STORES[0]) == 1);
    assert_eq!(parts, 5, "four parts and their description");
    // A taker leaves a result out whose reference is none, and goes on.
    let headers = [("Farm-Kind", "k"), ("Farm-Large", "1")];
    publish(&url, "farm.farm.results.evil", &headers, &huge);
    // Of this one there is no object: it is looked for again behind the others.
    let gone = r#"{"object":"gone/1","sha256":"","octets":1}"#;
    publish(&url, "farm.farm.results.gone", &headers, gone);
    let out = tempfile::tempdir().unwrap();
    let taken = run(&url, &["results", "--to", out.path().to_str().unwrap()]);
    refused(
        &taken,
        1,
        &[
            "left out the result evil: the reference to an object is none",
            "left out the result gone: the object gone/1 is gone",
            "took 2 results",
        ],
    );
}
