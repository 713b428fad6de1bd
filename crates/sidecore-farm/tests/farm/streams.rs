//! Refusals of servers, with their remedies.

use crate::program::{fine, refused, run};
use crate::queue::{info, make};
use crate::server::Server;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

#[test]
fn the_first_command_makes_the_streams_and_later_ones_use_them_as_they_are() {
    let Some(server) = Server::start() else { return };
    fine(&run(&server.url(), &["feed", "--storage", "memory", "--max-bytes", "1MiB", "--results-age", "1h"]));
    let events = info(&server.url(), "farm-events").config;
    assert_eq!(
        (events.retention, events.discard, events.storage),
        (RetentionPolicy::WorkQueue, DiscardPolicy::New, StorageType::Memory)
    );
    let results = info(&server.url(), "farm-results").config;
    assert_eq!((results.max_messages_per_subject, results.discard_new_per_subject), (1, true));
    assert_eq!((results.max_bytes, results.max_age), (1 << 20, Duration::from_secs(3_600)));
    fine(&run(&server.url(), &["feed"]));
    fine(&run(&server.url(), &["feed", "--storage", "memory", "--results-age", "1h"]));
    fine(&run(&server.url(), &["feed", "--farm", "other"]));
    assert_eq!(info(&server.url(), "other-events").config.storage, StorageType::File);
}

#[test]
fn settings_other_than_asked_for_are_named_with_how_to_change_them() {
    let Some(server) = Server::start() else { return };
    fine(&run(&server.url(), &["feed"]));
    let ask = |option, value| run(&server.url(), &["feed", option, value]);
    refused(
        &ask("--storage", "memory"),
        2,
        &["farm-events exists and is kept in files", "nats stream rm farm-events", "leave --storage out"],
    );
    refused(&ask("--max-bytes", "2MiB"), 2, &["holds 1GiB", "nats stream edit farm-events --max-bytes 2097152"]);
    refused(&ask("--results-age", "2h"), 2, &["farm-results", "86400 s", "--max-age 7200s"]);
    refused(&ask("--replicas", "3"), 2, &["has 1 replicas", "nats stream edit farm-events --replicas 3"]);
}

#[test]
fn a_stream_of_somebody_else_is_left_alone() {
    let Some(server) = Server::start() else { return };
    make(&server.url(), Config { name: "farm-events".into(), subjects: vec!["mine.>".into()], ..Config::default() });
    refused(&run(&server.url(), &["feed"]), 2, &["farm-events exists and is no farm's", "--farm"]);
    make(&server.url(), Config { name: "all".into(), subjects: vec!["farm.second.>".into()], ..Config::default() });
    refused(&run(&server.url(), &["feed", "--farm", "second"]), 2, &["already takes farm.second.events.*", "--farm"]);
}

#[test]
fn more_than_the_servers_have_is_refused_with_the_limit_to_raise() {
    let Some(server) = Server::start() else { return };
    let ask = |options: &[&str]| run(&server.url(), &[&["feed"], options].concat());
    refused(&ask(&["--replicas", "3"]), 2, &["3 replicas need as many servers", "--replicas 1"]);
    refused(&ask(&["--max-bytes", "900000GiB"]), 2, &["left to set aside", "max_file_store"]);
    refused(&ask(&["--max-bytes", "900000GiB", "--storage", "memory"]), 2, &["left to set aside", "max_memory_store"]);
}

#[test]
fn a_server_without_jetstream_is_told_apart() {
    let Some(server) = Server::without_jetstream() else { return };
    refused(&run(&server.url(), &["feed"]), 2, &["JetStream is not enabled", "nats-server -js"]);
    refused(&run(&server.url(), &["results", "--stdout"]), 2, &["JetStream is not enabled"]);
}

#[test]
fn results_of_a_farm_that_is_not_there_say_who_makes_it() {
    let Some(server) = Server::start() else { return };
    refused(
        &run(&server.url(), &["results", "--stdout"]),
        2,
        &["no farm farm here yet", "sidecore farm feed --farm farm"],
    );
    refused(&run(&server.url(), &["dead"]), 2, &["no farm farm here yet"]);
}

#[test]
fn an_old_server_is_named_with_its_version() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    // Enough of an old server: only its greeting is needed.
    let old = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let info = r#"{"server_id":"x","server_name":"x","version":"2.8.4","go":"x","host":"127.0.0.1","port":1,"headers":true,"max_payload":1048576,"proto":1}"#;
        write!(stream, "INFO {info}\r\n").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            if line == "PING" {
                stream.write_all(b"PONG\r\n").unwrap();
            }
        }
    });
    refused(&run(&url, &["feed"]), 2, &["the server is NATS 2.8.4", "2.9 or later"]);
    old.join().unwrap();
}

const ACCOUNTS: &str = r#"
accounts {
  STORING {
    jetstream: enabled
    users: [
      { user: all, password: all }
      { user: looking, password: looking, permissions: { publish: ["$JS.API.STREAM.INFO.*"], subscribe: ["_INBOX.>"] } }
      { user: nothing, password: nothing, permissions: { publish: ["none"], subscribe: ["_INBOX.>"] } }
    ]
  }
  PLAIN { users: [ { user: plain, password: plain } ] }
}
"#;

#[test]
fn accounts_and_what_they_may_not_do_are_named() {
    let scratch = tempfile::tempdir().unwrap();
    let conf = scratch.path().join("conf");
    fs::write(&conf, ACCOUNTS).unwrap();
    let Some(server) = Server::start_with(&["-c", conf.to_str().unwrap()]) else { return };
    let with = |user: &str| server.url().replace("nats://", &format!("nats://{user}:{user}@"));
    refused(&run(&server.url(), &["feed"]), 2, &["does not accept who this is", "--creds"]);
    refused(
        &run(&with("wrong"), &["feed"]),
        2,
        &["does not accept who this is", "the user and the password in --server"],
    );
    refused(&run(&with("plain"), &["feed"]), 2, &["JetStream is not enabled"]);
    refused(&run(&with("nothing"), &["feed"]), 2, &["may not do that", "$JS.API.STREAM.INFO.farm-events"]);
    refused(&run(&with("looking"), &["feed"]), 2, &["may not do that", "$JS.API.STREAM.CREATE.farm-events"]);
    fine(&run(&with("all"), &["feed"]));
    refused(
        &crate::program::run_with(&with("looking"), &["feed", "--lines"], b"one\n"),
        2,
        &["may not feed farm.farm.events.event"],
    );
    refused(&run(&with("looking"), &["feed", "--name", "me"]), 2, &["may not read a feeder's place"]);
    refused(&run(&with("looking"), &["results", "--stdout"]), 2, &["may not take results"]);
    refused(&run(&with("looking"), &["dead"]), 2, &["may not read dead letters"]);
}
