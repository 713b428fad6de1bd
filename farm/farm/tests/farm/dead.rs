//! Dead letters: listed with their reasons, and fed again without a loss.

use crate::program::{Running, farm, fine, refused, run, run_with, status, until};
use crate::queue::{COMMITTED, Event, count, publish, take};
use serde_json::Value;
use sidecore_testing::nats::Server;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, SystemTime};

const HEADERS: [(&str, &str); 3] = [("Farm-Kind", "image"), ("Farm-Tries", "3"), ("Farm-Reason", "exit code 1")];

fn bury(server: &Server, id: &str, body: &str) {
    publish(&server.url(), &format!("farm.farm.dead.{id}"), &HEADERS, body);
}

fn event(id: &str, body: &str) -> Event {
    Event { id: id.into(), kind: "image".into(), body: body.into() }
}

#[test]
fn dead_letters_are_listed_with_their_reasons() {
    let Some(server) = Server::start() else { return };
    fine(&run(&server.url(), &["feed"]));
    assert_eq!(fine(&run(&server.url(), &["dead"])), "no dead letters\n");
    bury(&server, "f-1", "body");
    bury(&server, "f-2", "");
    let table = fine(&run(&server.url(), &["dead"]));
    assert!(table.contains("f-1") && table.contains("exit code 1"), "{table}");
    let lines = fine(&run(&server.url(), &["dead", "--json", "f-1"]));
    let letter: Value = serde_json::from_str(&lines).unwrap();
    let expected = serde_json::json!({"id": "f-1", "kind": "image", "tries": 3, "reason": "exit code 1", "bytes": 4, "cut": false, "whole_bytes": 4, "again": false});
    assert_eq!(letter, expected);
    let few = run(&server.url(), &["dead", "--most", "1"]);
    refused(&few, 0, &["more than 1"]);
}

#[test]
fn dead_letters_are_fed_again_under_their_ids() {
    let Some(server) = Server::start() else { return };
    fine(&run(&server.url(), &["feed"]));
    for id in ["f-1", "f-2", "f-3"] {
        bury(&server, id, "body");
    }
    fine(&run(&server.url(), &["dead", "--again", "f-2"]));
    assert_eq!(take(&server.url(), "farm", 10), [event("f-2", "body")]);
    refused(&run(&server.url(), &["dead", "--again"]), 0, &["fed 2 of 2"]);
    assert_eq!(take(&server.url(), "farm", 10), [event("f-1", "body"), event("f-3", "body")]);
    assert_eq!(count(&server.url(), "farm-dead"), 0);
}

#[test]
fn one_who_was_stopped_half_way_finishes_the_next_time() {
    let Some(server) = Server::start() else { return };
    fine(&run(&server.url(), &["feed"]));
    // The first letter was copied but not removed; the second is completely renamed.
    bury(&server, "again+f-1", "one");
    bury(&server, "f-1", "one");
    bury(&server, "again+f-2", "two");
    refused(&run(&server.url(), &["dead", "--again"]), 0, &["fed"]);
    let mut events = take(&server.url(), "farm", 10);
    events.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(events, [event("f-1", "one"), event("f-2", "two")]);
    assert_eq!(count(&server.url(), "farm-dead"), 0);
}

#[test]
fn what_was_fed_a_moment_ago_is_fed_again_at_once() {
    let Some(server) = Server::start() else { return };
    fine(&run_with(&server.url(), &["feed", "--lines", "--name", "f", "--kind", "image"], b"body\n"));
    for _ in 0..2 {
        assert_eq!(take(&server.url(), "farm", 10), [event("f-0", "body")]);
        bury(&server, "f-0", "body");
        refused(&run(&server.url(), &["dead", "--again"]), 0, &["fed 1 of 1"]);
    }
    assert_eq!(take(&server.url(), "farm", 10), [event("f-0", "body")]);
}

#[test]
fn an_event_with_a_result_is_no_dead_letter() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed"]));
    // A dispatcher before this one stored the result, and ended before it acknowledged the event.
    publish(&url, "farm.farm.results.f-0", &COMMITTED, "result");
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let _node = Running::start(farm(&url, &["work"]).args(["--", "false"]));
    fine(&run_with(&url, &["feed", "--lines", "--name", "f"], b"one\ntwo\n"));
    until("both events are over", || count(&url, "farm-events") == 0);
    let letters = fine(&run(&url, &["dead"]));
    assert!(letters.contains("f-1") && !letters.contains("f-0"), "{letters}");
    assert_eq!((count(&url, "farm-dead"), count(&url, "farm-results")), (1, 1));
}

#[test]
fn a_second_event_of_one_id_with_other_content_is_a_dead_letter_with_an_id_of_its_own() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed"]));
    for (tag, body) in [("x.1", "one"), ("x.2", "two"), ("x.3", "one")] {
        publish(&url, "farm.farm.events.image", &[("Nats-Msg-Id", tag)], body);
    }
    let mut dispatcher = Running::start(&mut farm(&url, &["dispatch"]));
    let node = Running::start(farm(&url, &["work", "--jobs", "1"]).args(["--", "cat"]));
    until("all events are over", || count(&url, "farm-events") == 0);
    assert_eq!((count(&url, "farm-dead"), count(&url, "farm-results")), (1, 1), "the same content is the same event");
    let letter: Value = serde_json::from_str(&fine(&run(&url, &["dead", "--json"]))).unwrap();
    assert!(letter["reason"].as_str().unwrap().starts_with("another event has the id x"), "{letter}");
    assert!(letter["id"].as_str().unwrap().starts_with("x__"), "{letter}");
    refused(&run(&url, &["dead", "--again"]), 0, &["fed 1 of 1"]);
    let taken = fine(&run(&url, &["results", "--stdout", "--lines", "--ids", "--count", "2"]));
    let mut taken: Vec<&str> = taken.lines().map(|line| line.split_once('\t').unwrap().1).collect();
    taken.sort_unstable();
    assert_eq!(taken, ["one", "two"]);

    // The same where both fail.
    drop(node);
    for (tag, body) in [("y.1", "one"), ("y.2", "two")] {
        publish(&url, "farm.farm.events.image", &[("Nats-Msg-Id", tag)], body);
    }
    dispatcher.child.kill().unwrap();
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let _node = Running::start(farm(&url, &["work"]).args(["--", "false"]));
    until("both letters", || count(&url, "farm-dead") == 2);
    let letters = fine(&run(&url, &["dead"]));
    assert!(letters.contains("y ") && letters.contains("y__"), "{letters}");
}

#[test]
fn an_event_is_a_dead_letter_at_its_deadline_while_it_waits_and_while_it_is_done() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    let feed = |name: &str, deadline: &[&str]| {
        fine(&run_with(&url, &[&["feed", "--lines", "--name", name], deadline].concat(), b"60\n"));
    };
    feed("late", &["--deadline", "300ms"]);
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch"]));
    until("nobody does it", || count(&url, "farm-dead") == 1);
    let _node = Running::start(farm(&url, &["work", "--jobs", "2"]).args(["--", "sh", "-c", "sleep $(cat)"]));
    feed("slow", &["--deadline", "2s"]);
    until("its program is ended", || count(&url, "farm-dead") == 2);
    let letters = fine(&run(&url, &["dead", "--json"]));
    let reasons: Vec<String> =
        letters.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["reason"].to_string()).collect();
    assert!(reasons.iter().all(|reason| reason.contains("its deadline was over before it was done")), "{letters}");
    assert!(reasons[1].contains("took longer than"), "{letters}");
    assert_eq!(count(&url, "farm-events"), 0);
    // Again without a deadline.
    refused(&run(&url, &["dead", "--again", "late-0"]), 0, &["fed 1 of 1"]);
    until("it is with the node", || {
        let status: Value = serde_json::from_str(&fine(&run(&url, &["status", "--json"]))).unwrap();
        status["nodes"][0]["in_flight"] == 1
    });
    assert_eq!(count(&url, "farm-dead"), 1);
}

#[test]
fn an_event_with_a_delay_is_done_later_and_holds_up_no_other() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch"]));
    let _standby = Running::start(&mut farm(&url, &["dispatch"]));
    let _node = Running::start(farm(&url, &["work"]).args(["--", "cat"]));
    let fed = SystemTime::now();
    fine(&run_with(&url, &["feed", "--lines", "--name", "later", "--delay", "3s"], b"1\n2\n"));
    fine(&run_with(&url, &["feed", "--lines", "--name", "hour", "--delay", "1h"], b"3\n"));
    fine(&run_with(&url, &["feed", "--lines", "--name", "now"], b"4\n"));
    until("all but one", || count(&url, "farm-results") == 3);
    assert!(fed.elapsed().unwrap() >= Duration::from_secs(3));
    let names = fine(&run(&url, &["results", "--stdout", "--lines", "--ids", "--keep"]));
    assert!(names.starts_with("now-0\t4\n"), "{names}");
    until("one is left", || {
        let status = status(&url);
        (&status["queued"], &status["delayed"]) == (&1.into(), &1.into())
    });
    let status = fine(&run(&url, &["status"]));
    assert!(status.contains("queue, up to a second ago: 1 events, not acknowledged: 1, not due: 1"), "{status}");
    fine(&run(&url, &["cancel", "hour-*"]));
    until("it need not be due to be cancelled", || (count(&url, "farm-dead"), count(&url, "farm-events")) == (1, 0));
}

#[test]
fn events_that_wait_are_cancelled_wherever_they_are_and_what_is_fed_later_is_done() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    let feed = |name: &str, lines: &[u8]| {
        fine(&run_with(&url, &["feed", "--lines", "--name", name], lines));
    };
    let cancel = |patterns: &[&str]| fine(&run(&url, &[&["cancel"], patterns].concat()));
    feed("a", b"1\n2\n3\n4\n5\n");
    refused(&run(&url, &["cancel", "a-1"]), 1, &["no dispatcher of the farm farm answers: start one"]);
    // It holds two events. The first one goes to the node, and the last three wait in the queue.
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--hold", "2"]));
    let gate = tempfile::tempdir().unwrap();
    let open = gate.path().join("open");
    let command = format!("until [ -e {} ]; do sleep 0.02; done; cat", open.display());
    let _node = Running::start(farm(&url, &["work", "--jobs", "1"]).args(["--", "sh", "-c", &command]));
    until("it is with the node", || {
        let status = status(&url);
        status["nodes"][0]["in_flight"].as_u64() > Some(0)
    });
    let said = cancel(&["a-0", "a-3"]);
    assert!(said.starts_with("cancelled: 0\nwith a node, which does them: 1\nof the others, "), "{said}");
    assert!(cancel(&["b-*"]).starts_with("cancelled: 0\nof the others, "));
    feed("b", b"later\n");
    fs::write(&open, "").unwrap();
    until("the others are done", || count(&url, "farm-results") == 5);
    let results = fine(&run(&url, &["results", "--stdout", "--lines", "--ids", "--keep"]));
    assert_eq!(
        results.lines().collect::<BTreeSet<_>>(),
        BTreeSet::from(["a-0\t1", "a-1\t2", "a-2\t3", "a-4\t5", "b-0\tlater"])
    );
    refused(&run(&url, &["result", "a-3"]), 1, &["a-3 is a dead letter: cancelled; `sidecore farm dead --again a-3`"]);
    refused(&run(&url, &["dead", "--again"]), 0, &["fed 1 of 1"]);
    until("what was cancelled is done once it is fed again", || count(&url, "farm-results") == 6);
}

#[test]
fn an_event_whose_result_was_taken_already_becomes_no_dead_letter() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    let bad = tempfile::tempdir().unwrap();
    let bad = bad.path().join("bad");
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let command = format!("cat; ! [ -e {} ]", bad.display());
    let _node = Running::start(farm(&url, &["work"]).args(["--", "sh", "-c", &command]));
    fine(&run_with(&url, &["feed", "--lines", "--name", "f"], b"one\n"));
    let taken = fine(&run(&url, &["results", "--stdout", "--lines", "--ids", "--count", "1"]));
    assert_eq!(taken, "f-0\tone\n");
    until("it is removed", || count(&url, "farm-results") == 0);
    fs::write(&bad, "").unwrap();
    // As if the first dispatcher had died before it acknowledged the event.
    publish(&url, "farm.farm.events.f.event", &[("Nats-Msg-Id", "f-0.once-more")], "one");
    publish(&url, "farm.farm.events.f.event", &[("Nats-Msg-Id", "f-1.new")], "two");
    until("both are done", || count(&url, "farm-events") == 0);
    let letters = fine(&run(&url, &["dead", "--json"]));
    assert!(letters.lines().count() == 1 && letters.contains("\"id\":\"f-1\""), "{letters}");
    assert_eq!(count(&url, "farm-results"), 0);
}

#[test]
fn a_letter_whose_name_is_no_id_is_left_alone() {
    let Some(server) = Server::start() else { return };
    fine(&run(&server.url(), &["feed"]));
    bury(&server, "a/b", "evil");
    bury(&server, "f-1", "one");
    refused(&run(&server.url(), &["dead", "--again"]), 1, &["left a/b alone", "fed 1 of 2"]);
    assert_eq!(count(&server.url(), "farm-dead"), 1);
}

#[test]
fn a_letter_that_has_only_a_part_of_its_event_is_shown_as_cut_and_stays_while_others_are_fed() {
    let Some(server) = Server::start() else { return };
    fine(&run(&server.url(), &["feed"]));
    for (id, whole) in [("f-1", "5000"), ("f-2", "many")] {
        let headers = [&HEADERS[..], &[("Farm-Whole", whole)]].concat();
        publish(&server.url(), &format!("farm.farm.dead.{id}"), &headers, "body");
    }
    bury(&server, "f-3", "body");
    let table = fine(&run(&server.url(), &["dead"]));
    assert!(table.contains("4 of 5000 (cut)") && table.contains("4 of an unknown number (cut)"), "{table}");
    let lines = fine(&run(&server.url(), &["dead", "--json", "f-1"]));
    let letter: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!((&letter["bytes"], &letter["cut"], &letter["whole_bytes"]), (&4.into(), &true.into(), &5000.into()));
    let again = run(&server.url(), &["dead", "--again"]);
    refused(&again, 1, &["left f-1 alone: it is cut, bytes kept: 4 of 5000", "left f-2 alone", "fed 1 of 3"]);
    assert_eq!(take(&server.url(), "farm", 10), [event("f-3", "body")]);
    assert_eq!(count(&server.url(), "farm-dead"), 2);
}

#[test]
fn an_event_that_died_when_the_server_took_less_is_no_whole_event_any_more() {
    let Some(mut server) = Server::start() else { return };
    let url = server.url();
    fine(&run_with(&url, &["feed", "--lines", "--name", "f"], &vec![b'x'; 40_000]));
    server.reconfigure("max_payload: 10000\n");
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch"]));
    until("a dead letter", || count(&url, "farm-dead") == 1);
    let letter: Value = serde_json::from_str(&fine(&run(&url, &["dead", "--json"]))).unwrap();
    assert_eq!((&letter["cut"], &letter["whole_bytes"]), (&true.into(), &40_000.into()), "{letter}");
    assert!(letter["bytes"].as_u64().unwrap() > 9_000, "{letter}");
    refused(&run(&url, &["dead", "--again"]), 1, &["left f-0 alone: it is cut", "of 40000"]);
    assert_eq!((count(&url, "farm-dead"), count(&url, "farm-events")), (1, 0));
}
