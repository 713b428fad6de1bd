//! Taking results: each once for each taker, as a file, a frame or a line.

use crate::program::{Running, farm, fine, refused, run, until};
use crate::queue::{COMMITTED, count, publish, with};
use async_nats::jetstream::consumer::pull;
use futures_util::StreamExt;
use sidecore_testing::nats::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

fn farm_with(server: &Server, results: &[(&str, &str)]) {
    fine(&run(&server.url(), &["feed"]));
    add(server, results);
}

fn add(server: &Server, results: &[(&str, &str)]) {
    for (id, body) in results {
        publish(&server.url(), &format!("farm.farm.results.{id}"), &COMMITTED, body);
    }
}

fn files(directory: &Path) -> BTreeMap<String, String> {
    let read =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap());
    fs::read_dir(directory).unwrap().map(|entry| read(entry.unwrap())).collect()
}

#[test]
fn each_result_is_a_file_called_as_its_event() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("new/directory");
    farm_with(&server, &[("f-1", "one\n"), ("f-2", "")]);
    let args = ["results", "--to", to.to_str().unwrap()];
    refused(&run(&server.url(), &args), 0, &["took 2 results"]);
    let expected = [("f-1", "one\n"), ("f-2", "")].map(|(id, body)| (id.to_owned(), body.to_owned()));
    assert_eq!(files(&to), BTreeMap::from(expected));
    add(&server, &[("f-3", "three")]);
    refused(&run(&server.url(), &args), 0, &["took 1 results"]);
}

#[test]
fn one_events_result_is_printed_and_stays_and_without_one_the_reason_is_said() {
    let Some(server) = Server::start() else { return };
    farm_with(&server, &[("f-1", "one\n"), ("f-2", "")]);
    let result = |args: &[&str]| run(&server.url(), &[&["result"], args].concat());
    for _ in 0..2 {
        assert_eq!(fine(&result(&["f-1"])), "one\n");
    }
    assert_eq!((fine(&result(&["f-2"])), count(&server.url(), "farm-results")), (String::new(), 2));
    publish(&server.url(), "farm.farm.results.f-3", &[], "by somebody else");
    refused(&result(&["f-3"]), 1, &["f-3 has no result: it waits or is with a node"]);
    publish(&server.url(), "farm.farm.dead.f-4", &[("Farm-Kind", "event"), ("Farm-Reason", "exit code 3")], "four");
    refused(&result(&["f-4"]), 1, &["f-4 is a dead letter: exit code 3; `sidecore farm dead --again f-4`"]);
    refused(&result(&["a.b"]), 2, &["invalid value 'a.b' for '<ID>'"]);
    refused(&result(&["f-5", "--farm", "none"]), 2, &["there is no farm none"]);
    let waiting = thread::spawn({
        let url = server.url();
        move || run(&url, &["result", "f-5", "--wait", "60s"])
    });
    thread::sleep(Duration::from_millis(300));
    add(&server, &[("f-5", "five")]);
    assert_eq!(fine(&waiting.join().unwrap()), "five");
}

#[test]
fn a_result_stays_until_every_taker_has_it_and_is_removed_then() {
    let Some(server) = Server::start() else { return };
    farm_with(&server, &[("f-1", "one"), ("f-2", "two"), ("f-3", "three")]);
    let take = |name: &str, more: &[&str]| {
        let taken = run(&server.url(), &[&["results", "--stdout", "--lines", "--name", name], more].concat());
        (fine(&taken), count(&server.url(), "farm-results"))
    };
    let all = "one\ntwo\nthree\n".to_owned();
    assert_eq!(take("first", &["--count", "0"]), (String::new(), 3), "it is known from now on");
    assert_eq!(take("second", &[]), (all.clone(), 3));
    assert_eq!(take("first", &["--count", "1"]), ("one\n".to_owned(), 2));
    let pruned = fine(&run(&server.url(), &["prune"]));
    assert!(pruned.contains("first has not taken 2") && pruned.contains("second has taken all"), "{pruned}");
    assert_eq!(take("first", &[]), ("two\nthree\n".to_owned(), 0));
    add(&server, &[("f-4", "four")]);
    assert_eq!(take("second", &["--keep"]), ("four\n".to_owned(), 1));
    assert_eq!(take("third", &["--keep"]), ("four\n".to_owned(), 1));
    refused(&run(&server.url(), &["prune", "--forget", "nobody"]), 2, &["cannot forget the taker nobody"]);
    let pruned = fine(&run(&server.url(), &["prune", "--forget", "first"]));
    assert!(pruned.contains("taken results removed: 1\n"), "{pruned}");
    assert_eq!(count(&server.url(), "farm-results"), 0);
}

#[test]
fn a_farm_is_deleted_if_that_is_meant_and_nobody_would_make_it_again() {
    let Some(server) = Server::start() else { return };
    refused(&run(&server.url(), &["delete"]), 2, &["no farm farm here"]);
    farm_with(&server, &[("f-1", "one")]);
    refused(&run(&server.url(), &["delete"]), 2, &["1 in farm-results", "--yes"]);
    let dispatcher = Running::start(&mut farm(&server.url(), &["dispatch"]));
    until("a dispatcher", || run(&server.url(), &["status"]).status.success());
    refused(&run(&server.url(), &["delete", "--yes"]), 2, &["a dispatcher of the farm farm is active"]);
    dispatcher.stop();
    fine(&dispatcher.end());
    refused(&run(&server.url(), &["delete", "--yes"]), 0, &["deleted farm-results, messages in it: 1"]);
    refused(&run(&server.url(), &["dead"]), 2, &["no farm farm here"]);
}

#[test]
fn results_come_as_frames_or_as_lines() {
    let Some(server) = Server::start() else { return };
    farm_with(&server, &[("f-1", "one\n"), ("f-2", "two")]);
    assert_eq!(fine(&run(&server.url(), &["results", "--stdout", "--keep"])), "\0\0\0\x04one\n\0\0\0\x03two");
    let lines = ["results", "--stdout", "--lines", "--name", "lines", "--keep"];
    assert_eq!(fine(&run(&server.url(), &lines)), "one\ntwo\n");
    assert_eq!(
        fine(&run(&server.url(), &["results", "--stdout", "--lines", "--ids", "--name", "ids"])),
        "f-1\tone\nf-2\ttwo\n"
    );
}

#[test]
fn a_result_of_several_lines_is_no_line() {
    let Some(server) = Server::start() else { return };
    farm_with(&server, &[("f-1", "one\ntwo\n")]);
    refused(
        &run(&server.url(), &["results", "--stdout", "--lines"]),
        2,
        &["the result f-1 has several lines", "--to DIR"],
    );
    // The result is not lost.
    assert_eq!(fine(&run(&server.url(), &["results", "--stdout"])), "\0\0\0\x08one\ntwo\n");
}

#[test]
fn a_name_that_leads_elsewhere_is_left_out_and_said() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("to");
    farm_with(&server, &[("/tmp/x", "evil"), ("a/b", "evil"), ("f-1", "one")]);
    refused(
        &run(&server.url(), &["results", "--to", to.to_str().unwrap()]),
        1,
        &["left out a result whose name is no id: /tmp/x", "took 1 results"],
    );
    assert_eq!(files(&to).into_keys().collect::<Vec<_>>(), ["f-1"]);
    assert_eq!(files(scratch.path().join("to").as_path()).len(), 1);
}

#[test]
fn a_number_of_results_is_waited_for() {
    let Some(server) = Server::start() else { return };
    farm_with(&server, &[("f-1", "one")]);
    let taker = Running::start(&mut farm(&server.url(), &["results", "--stdout", "--lines", "--count", "2"]));
    add(&server, &[("f-2", "two"), ("f-3", "three")]);
    assert_eq!(fine(&taker.end()), "one\ntwo\n");
    assert_eq!(fine(&run(&server.url(), &["results", "--stdout", "--lines"])), "three\n");
}

#[test]
fn a_taker_that_follows_is_killed_and_goes_on() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let to = scratch.path().join("to");
    farm_with(&server, &[("f-1", "one")]);
    let args = ["results", "--follow", "--to", to.to_str().unwrap()];
    let mut taker = Running::start(&mut farm(&server.url(), &args));
    until("the first is there", || to.join("f-1").exists());
    taker.child.kill().unwrap();
    add(&server, &[("f-2", "two")]);
    let taker = Running::start(&mut farm(&server.url(), &args));
    until("the second is there", || to.join("f-2").exists());
    taker.stop();
    fine(&taker.end());
    assert_eq!(files(&to).len(), 2);
}

#[test]
fn a_result_that_died_with_its_taker_comes_again_although_earlier_ones_are_removed() {
    let Some(server) = Server::start() else { return };
    farm_with(&server, &[("f-1", "one"), ("f-2", "two"), ("f-3", "three")]);
    assert_eq!(fine(&run(&server.url(), &["results", "--stdout", "--lines", "--count", "1", "--keep"])), "one\n");
    with(&server.url(), async |js| {
        let stream = js.get_stream("farm-results").await.unwrap();
        let consumer = stream.get_consumer::<pull::Config>("results").await.unwrap();
        let mut delivered = consumer.fetch().max_messages(1).messages().await.unwrap();
        let message = delivered.next().await.unwrap().unwrap();
        assert_eq!(message.payload, "two");
    });
    assert!(fine(&run(&server.url(), &["prune"])).starts_with("taken results removed: 1\n"));
    assert_eq!(count(&server.url(), "farm-results"), 2);
    let rest = fine(&run(&server.url(), &["results", "--stdout", "--lines"]));
    assert_eq!(rest.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["three", "two"]));
}

#[test]
fn a_directory_that_cannot_be_written_is_said_and_nothing_is_lost() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    farm_with(&server, &[("f-1", "one")]);
    refused(&run(&server.url(), &["results", "--to", file.to_str().unwrap()]), 2, &["cannot make the directory"]);
    assert_eq!(fine(&run(&server.url(), &["results", "--stdout", "--lines"])), "one\n");
}

#[test]
fn no_result_is_written_through_a_link_and_no_file_looks_like_an_option() {
    let Some(server) = Server::start() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let (to, victim) = (scratch.path().join("to"), scratch.path().join("victim"));
    fs::create_dir(&to).unwrap();
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, to.join(".f-1.part")).unwrap();
    farm_with(&server, &[("f-1", "one"), ("-rf", "two")]);
    fine(&run(&server.url(), &["results", "--to", to.to_str().unwrap()]));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    let expected = [("f-1", "one"), ("%2Drf", "two")].map(|(id, body)| (id.to_owned(), body.to_owned()));
    assert_eq!(files(&to), BTreeMap::from(expected));
}
