//! Feeding: each event is stored once, also if it comes again or a process dies.

use crate::program::{Running, farm, fine, refused, run, run_with, said, until};
use crate::queue::{by_id, count, take};
use sidecore_testing::nats::Server;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Enough events that a feeder is still at work when it is killed.
const MANY: u64 = 60_000;

fn numbers(feeder: &str, path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut offset = 0;
    let mut all = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        all.insert(format!("{feeder}-{offset}"), line.as_bytes().to_vec());
        offset += line.len() + 1;
    }
    all
}

fn write_numbers(path: &Path, number: u64) {
    let text: String = (0..number).map(|number| "event ".to_owned() + &number.to_string() + "\n").collect();
    fs::write(path, text).unwrap();
}

#[test]
fn lines_become_events_in_their_order() {
    let Some(server) = Server::start() else { return };
    let output = run_with(&server.url(), &["feed", "--lines", "--kind", "log", "--name", "me"], b"one\n\nthree\nfour");
    assert_eq!(fine(&output), "fed 4, stored 4, already there 0, refused 0, shed 0\n");
    let events = take(&server.url(), "farm", 10);
    let seen: Vec<_> =
        events.iter().map(|event| (event.id.as_str(), event.kind.as_str(), event.body.as_slice())).collect();
    assert_eq!(
        seen,
        [("me-0", "log", &b"one"[..]), ("me-1", "log", b""), ("me-2", "log", b"three"), ("me-3", "log", b"four")]
    );
}

#[test]
fn frames_may_hold_anything() {
    let Some(server) = Server::start() else { return };
    let bodies: [&[u8]; 4] = [b"", b"a\nb", &[0, 255, 10, 13], &vec![7; 100_000]];
    let input: Vec<u8> =
        bodies.iter().flat_map(|body| [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()).collect();
    fine(&run_with(&server.url(), &["feed"], &input));
    let events = take(&server.url(), "farm", 10);
    assert!(events.iter().map(|event| event.body.as_slice()).eq(bodies));
}

#[test]
fn a_feeder_with_a_name_goes_on_where_it_was() {
    let Some(server) = Server::start() else { return };
    let args = ["feed", "--lines", "--name", "me"];
    fine(&run_with(&server.url(), &args, b"one\ntwo\n"));
    let again = run_with(&server.url(), &args, b"one\ntwo\nthree\n");
    assert_eq!(fine(&again), "fed 1, stored 1, already there 0, refused 0, shed 0\n");
    assert_eq!(count(&server.url(), "farm-events"), 3);
    refused(&run_with(&server.url(), &args, b"one\n"), 2, &["its feeder was behind 3", "another --name"]);
}

#[test]
fn what_is_published_again_is_stored_once() {
    let Some(server) = Server::start() else { return };
    let args = ["feed", "--lines", "--name", "me"];
    fine(&run_with(&server.url(), &args, b"one\ntwo\n"));
    crate::queue::with(&server.url(), async |js| {
        let places = js.get_stream("farm-places").await.unwrap();
        let place = places.get_last_raw_message_by_subject("farm.farm.places.me").await.unwrap();
        // As it was before the first event.
        let mut place: serde_json::Value = serde_json::from_slice(&place.payload).unwrap();
        (place["number"], place["offset"]) = (0.into(), 0.into());
        js.publish("farm.farm.places.me", place.to_string().into()).await.unwrap().await.unwrap();
    });
    let again = run_with(&server.url(), &args, b"one\ntwo\n");
    assert_eq!(fine(&again), "fed 2, stored 0, already there 2, refused 0, shed 0\n");
    assert_eq!(count(&server.url(), "farm-events"), 2);
}

#[test]
fn a_name_belongs_to_one_source() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "one\n").unwrap();
    fine(&run_with(&server.url(), &["feed", "--lines", "--name", "me"], b"other\n"));
    let from = run(&server.url(), &["feed", "--lines", "--name", "me", "--from", file.to_str().unwrap()]);
    refused(&from, 2, &["the feeder me has fed standard input so far", "another --name"]);
}

#[test]
fn a_file_that_became_shorter_is_another_file() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    let args = ["feed", "--lines", "--name", "me", "--from", file.to_str().unwrap()];
    fs::write(&file, "one\ntwo\n").unwrap();
    fine(&run(&server.url(), &args));
    fs::write(&file, "one\ntwo\nthree\n").unwrap();
    assert!(fine(&run(&server.url(), &args)).starts_with("fed 1, stored 1"));
    fs::write(&file, "new\n").unwrap();
    refused(&run(&server.url(), &args), 2, &["it is another file by now", "another --name"]);
}

#[test]
fn a_feeder_that_is_killed_and_started_again_has_stored_each_event_once() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    write_numbers(&file, MANY);
    let args = ["feed", "--lines", "--name", "me", "--from", file.to_str().unwrap()];
    for kill in 1..=3 {
        let mut feeder = Running::start(&mut farm(&server.url(), &args));
        until("events are stored", || count(&server.url(), "farm-events") > kill * MANY / 8);
        feeder.child.kill().unwrap();
    }
    fine(&run(&server.url(), &args));
    assert_eq!(by_id(take(&server.url(), "farm", usize::MAX)), numbers("me", &file));
}

#[test]
fn a_feeder_of_standard_input_goes_on_too() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    write_numbers(&file, MANY);
    let args = ["feed", "--lines", "--name", "me"];
    let open = || Stdio::from(fs::File::open(&file).unwrap());
    let mut feeder = Running::start(farm(&server.url(), &args).stdin(open()));
    until("events are stored", || count(&server.url(), "farm-events") > MANY / 4);
    feeder.child.kill().unwrap();
    fine(&farm(&server.url(), &args).stdin(open()).output().unwrap());
    let bodies: Vec<_> = by_id(take(&server.url(), "farm", usize::MAX)).into_values().collect();
    assert_eq!(bodies.len() as u64, MANY);
}

#[test]
fn a_server_that_is_killed_and_started_again_has_each_event_once() {
    let Some(mut server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    write_numbers(&file, MANY);
    let args = ["feed", "--lines", "--name", "me", "--from", file.to_str().unwrap()];
    let mut feeder = Running::start(&mut farm(&server.url(), &args));
    until("events are stored", || count(&server.url(), "farm-events") > MANY / 8);
    server.kill();
    feeder.says("lost the connection");
    server.start_again();
    fine(&feeder.end());
    assert_eq!(by_id(take(&server.url(), "farm", usize::MAX)), numbers("me", &file));
}

#[test]
fn a_feeder_that_is_asked_to_end_finishes_what_it_read() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    write_numbers(&file, 4 * MANY);
    let args = ["feed", "--lines", "--name", "me", "--from", file.to_str().unwrap()];
    let feeder = Running::start(&mut farm(&server.url(), &args));
    until("events are stored", || count(&server.url(), "farm-events") > 1_000);
    feeder.stop();
    let said = fine(&feeder.end());
    let stored = count(&server.url(), "farm-events");
    assert_eq!(said, format!("fed {stored}, stored {stored}, already there 0, refused 0, shed 0\n"));
    assert!(
        fine(&run(&server.url(), &args)).ends_with("already there 0, refused 0, shed 0\n"),
        "the place was not stored"
    );
}

#[test]
fn files_of_a_directory_are_events_whatever_they_are_called() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let long = "n".repeat(200);
    fs::create_dir_all(root.join("sub/..sub")).unwrap();
    let names = ["a", "b c", "*", ">", "x.y", "line\nfeed", "ä", "..a", "-", &long, "sub/..sub/deep", "sub/a"];
    for name in names {
        fs::write(root.join(name), name).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
    let args = ["feed", "--dir", root.to_str().unwrap(), "--name", "me"];
    let output = run(&server.url(), &args);
    refused(&output, 1, &["refused link: it is a symbolic link"]);
    let events = by_id(take(&server.url(), "farm", 100));
    let mut bodies: Vec<_> = events.values().map(|body| String::from_utf8(body.clone()).unwrap()).collect();
    bodies.sort();
    let mut expected = names.map(str::to_owned);
    expected.sort();
    assert_eq!(bodies, expected);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    assert!(events.keys().all(|id| id.len() <= 96 && id.bytes().all(plain)), "{:?}", events.keys());
    fs::write(root.join("\u{fc}"), "later").unwrap();
    let again = run(&server.url(), &args);
    assert!(said(&again).1.starts_with("fed 2, stored 1, already there 0, refused 1"), "{again:?}");
    fs::write(root.join("b"), "before").unwrap();
    refused(&run(&server.url(), &args), 2, &["1 new file(s)", "another --name"]);
}
