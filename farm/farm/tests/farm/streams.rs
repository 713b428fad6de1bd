//! Refusals of servers, with their remedies.

use crate::program::{Running, farm, fine, refused, run, run_with, said, until};
use crate::queue::{count, info, make, publish, take, with};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use futures_util::StreamExt;
use sidecore_testing::nats::Server;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Stdio;
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
    refused(&run(&server.url(), &["feed", "--farm", "second"]), 2, &["already takes farm.second.events.>", "--farm"]);
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
fn a_farm_that_does_not_fit_leaves_nothing_behind_and_what_is_named_makes_one_that_fits() {
    let scratch = tempfile::tempdir().unwrap();
    let conf = scratch.path().join("conf");
    let limit = "jetstream { max_file_store: 100000000 }\n";
    let account = "accounts { A { jetstream: { max_file: 90000000 }, users: [ { user: a, password: a } ] }, B { jetstream: enabled, users: [ { user: b, password: b } ] } }\n";
    fs::write(&conf, format!("{limit}{account}")).unwrap();
    let Some(server) = Server::start_with(&["-c", conf.to_str().unwrap()]) else { return };
    let as_user = |user: &str| server.url().replace("nats://", &format!("nats://{user}:{user}@"));
    let streams = |user: &str| {
        with(&as_user(user), async |js| js.stream_names().map(Result::unwrap).collect::<Vec<String>>().await)
    };
    // Together 40 + 40 + 5 + 16 MiB: the servers learn of the last ones at the end only.
    let too_much = run(&as_user("b"), &["feed", "--max-bytes", "40MiB"]);
    refused(&too_much, 2, &["left to set aside for farm-", "take a smaller --max-bytes", "max_file_store"]);
    assert_eq!(streams("b"), [""; 0]);
    let too_much = run(&as_user("a"), &["feed", "--max-bytes", "40MiB"]);
    refused(
        &too_much,
        2,
        &["this account may set aside 90000000 more bytes of files", "smaller --max-bytes", "`max_file`"],
    );
    assert_eq!(streams("a"), [""; 0]);
    fine(&run(&as_user("a"), &["feed", "--max-bytes", "20MiB"]));
    assert_eq!(streams("a").len(), 4);
}

#[test]
fn a_stream_that_is_deleted_is_made_again_while_the_dispatcher_runs_and_nothing_is_lost() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed", "--storage", "memory", "--max-bytes", "2MiB"]));
    let mut dispatcher = Running::start(&mut farm(&url, &["dispatch", "--tries", "1"]));
    let _node = Running::start(&mut farm(&url, &["work", "--sleep", "1ms"]));
    until("a dispatcher", || run(&url, &["status"]).status.success());
    let kept = |stream| {
        let config = info(&url, stream).config;
        (config.storage, config.max_bytes, config.num_replicas)
    };
    for stream in ["farm-results", "farm-dead"] {
        let before = kept(stream);
        with(&url, async |js| js.delete_stream(stream).await.map(drop).unwrap());
        refused(&run(&url, &["results", "--stdout"]), 2, &[&format!("lacks its stream {stream}")]);
        // The feeder's command would make it again.
        for (id, event) in [("good", "1"), ("bad", "no number")] {
            publish(&url, "farm.farm.events.event", &[("Nats-Msg-Id", &format!("{id}-{stream}"))], event);
        }
        dispatcher.says(&format!("the stream {stream} was gone; made it again"));
        until("its result or its dead letter", || count(&url, stream) > 0);
        assert_eq!(kept(stream), before, "{stream} is as safe as it was, and as large");
    }
    until("all events", || count(&url, "farm-events") == 0);
    assert_eq!(
        (count(&url, "farm-results"), count(&url, "farm-dead")),
        (2, 1),
        "one letter was deleted with its stream"
    );
}

#[test]
fn a_farm_whose_results_are_full_goes_on_when_what_it_names_was_done() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--max-bytes", "64KiB"]));
    until("a dispatcher", || run(&url, &["status"]).status.success());
    let _node = Running::start(farm(&url, &["work"]).args(["--", "head", "-c", "20000", "/dev/zero"]));
    fine(&run_with(&url, &["feed", "--lines"], b"1\n2\n3\n4\n5\n6\n"));
    let status = |part: &str| {
        let (_, out, _) = said(&run(&url, &["status"]));
        out.contains(part)
    };
    until("the cause and the remedy", || status("full") && status("`sidecore farm results` takes and removes results"));
    assert_eq!(count(&url, "farm-results"), 3);
    let to = tempfile::tempdir().unwrap();
    let taken = run(&url, &["results", "--to", to.path().to_str().unwrap(), "--count", "6"]);
    refused(&taken, 0, &["took 6 results"]);
    until("all events", || count(&url, "farm-events") == 0);
}

/// Without padding, a server before 2.10.5 drops the oldest event for one that does not fit, at one of these sizes.
#[test]
fn a_full_farm_loses_no_event_of_any_size() {
    let Some(server) = Server::start() else { return };
    for size in (900..1_000).step_by(7) {
        let name = format!("f{size}");
        let lines = ["x".repeat(size), "\n".to_owned()].concat().repeat(30);
        let args = ["feed", "--farm", &name, "--lines", "--max-bytes", "8KiB"];
        let mut feeder = farm(&server.url(), &args).stdin(Stdio::piped()).spawn().unwrap();
        feeder.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        until("a full farm", || count(&server.url(), &format!("{name}-events")) > 5);
        let mut taken = 0;
        until("the feeder's end", || {
            taken += take(&server.url(), &name, 1_000).len();
            feeder.try_wait().unwrap().is_some()
        });
        taken += take(&server.url(), &name, 1_000).len();
        let out = fine(&feeder.wait_with_output().unwrap());
        assert!(out.starts_with("fed 30, stored 30,"), "{out}");
        assert_eq!(taken, 30, "{size} bytes");
    }
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
    refused(&run_with(&with("looking"), &["feed", "--lines"], b"one\n"), 2, &["may not feed farm.farm.events.*.event"]);
    refused(&run(&with("looking"), &["feed", "--name", "me"]), 2, &["may not read a feeder's place"]);
    refused(&run(&with("looking"), &["results", "--stdout"]), 2, &["may not take results"]);
    refused(&run(&with("looking"), &["dead"]), 2, &["may not read dead letters"]);
}

#[test]
fn a_server_that_is_started_again_has_its_port_and_its_streams() {
    let Some(mut server) = Server::start() else { return };
    let before = server.url();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
        context.create_stream("kept").await.unwrap();
    });
    server.start_again();
    assert_eq!(server.url(), before);
    runtime.block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(server.url()).await.unwrap());
        context.get_stream("kept").await.unwrap();
    });
}
