//! Each event is done once, also if the processes that do them fail.

use crate::crew::{Crew, ids};
use bytes::Bytes;
use sidecore_testing::nats::Server;
use sidecore_testing::{go_on, stop};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Longest time of a test, far longer than any takes.
const MAX_TEST: Duration = Duration::from_secs(300);

pub(crate) fn on_a_server(test: impl AsyncFnOnce(&mut Server, Crew)) {
    let Some(mut server) = Server::start() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let crew = Crew::new(&server).await;
        timeout(MAX_TEST, test(&mut server, crew)).await.expect("the test does not end");
    });
}

#[test]
fn each_event_has_one_result() {
    on_a_server(async |_, crew| {
        let _dispatcher = crew.dispatcher(&[]).await;
        let _nodes = [crew.node("n1", "2"), crew.node("n2", "4")];
        crew.feed(0..200, 1).await;
        crew.done(200).await;
        assert_eq!(crew.ids("f-results").await, (ids(0..200), 200));
        let status = crew.shown("all committed", |status| status["totals"]["committed"] == 200).await;
        assert_eq!((&status["totals"]["seen"], &status["totals"]["dead"]), (&200.into(), &0.into()));
        assert_eq!(
            (&status["held"], &status["active"], status["nodes"].as_array().unwrap().len()),
            (&0.into(), &true.into(), 2)
        );
    });
}

#[test]
fn bad_events_before_good_ones_hold_up_nobody() {
    on_a_server(async |_, crew| {
        let _dispatcher = crew.dispatcher(&["--backoff", "1s"]).await;
        // Nothing is known of the nodes, and the first that they see are a hundred events that fail.
        crew.feed_bad(0..100).await;
        crew.feed(100..600, 1).await;
        let _nodes = [crew.node("n1", "2"), crew.node("n2", "2")];
        crew.kept("f-results", 500).await;
        let status = crew.shown("its state", |status| status["totals"]["committed"] == 500).await;
        assert_eq!(status["totals"]["dead"], 0, "good events were done before the third try of a bad one: {status}");
        crew.kept("f-dead", 100).await;
        crew.kept("f-events", 0).await;
        let up = crew.shown("both nodes", |status| status["nodes"].as_array().unwrap().len() == 2).await;
        for node in up["nodes"].as_array().unwrap() {
            assert_ne!(node["state"], "paused", "{up}");
        }
    });
}

#[test]
fn an_event_that_kills_its_nodes_takes_no_innocent_one_along() {
    on_a_server(async |_, crew| {
        let _dispatcher = crew.dispatcher(&["--silence", "200ms"]).await;
        crew.feed(0..20, 1).await;
        crew.feed_text(20, "kill").await;
        let program = "read -r event; [ \"$event\" != kill ] || kill -9 $PPID; echo done";
        let start = |number: u32| {
            let name = format!("n{number}");
            crew.start(&name, &["work", "--name", &name, "--jobs", "4", "--", "sh", "-c", program])
        };
        let (mut node, mut deaths) = (start(0), 0);
        while crew.count("f-dead").await == 0 {
            if node.has_ended() {
                deaths += 1;
                assert!(deaths <= 5, "{deaths} nodes");
                node = start(deaths);
            }
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(deaths, 5);
        let letter = crew.message("f-dead", "farm.f.dead.e-20").await;
        let reason = letter.headers.get("Farm-Reason").unwrap().as_str().to_owned();
        assert_eq!(reason, "5 nodes died while they had it, the last three with no other event");
        crew.done(20).await;
        assert_eq!(crew.ids("f-results").await.0, ids(0..20));
    });
}

#[test]
fn events_of_a_killed_node_and_of_a_stopped_one_are_done_by_another_and_once() {
    on_a_server(async |_, crew| {
        let _dispatcher = crew.dispatcher(&[]).await;
        let (mut killed, stopped) = (crew.node("n1", "4"), crew.node("n2", "4"));
        crew.feed(0..60, 100).await;
        crew.shown("both work", |status| {
            let nodes = status["nodes"].as_array().unwrap();
            nodes.len() == 2 && nodes.iter().all(|node| node["in_flight"].as_u64() > Some(0))
        })
        .await;
        killed.kill();
        stop(stopped.id());
        crew.shown("both lost", |status| status["nodes"].as_array().unwrap().is_empty()).await;
        let _other = crew.node("n3", "8");
        crew.kept("f-results", 60).await;
        go_on(stopped.id());
        crew.shown("it came back", |status| status["nodes"].as_array().unwrap().len() == 2).await;
        crew.feed(60..80, 1).await;
        crew.done(80).await;
        assert_eq!(crew.ids("f-results").await, (ids(0..80), 80));
    });
}

#[test]
fn a_dispatcher_that_stands_by_goes_on_where_the_first_was_killed() {
    on_a_server(async |_, crew| {
        let mut first = crew.dispatcher(&[]).await;
        let _node = crew.node("n", "4");
        crew.shown("the first is active", |status| status["active"] == true).await;
        let _second = crew.start("second", &["dispatch"]);
        crew.shown("the second stands by", |status| status["active"] == false).await;
        crew.feed(0..100, 5).await;
        crew.shown("some are done", |status| status["totals"]["committed"].as_u64() > Some(5)).await;
        first.kill();
        crew.done(100).await;
        assert_eq!(crew.ids("f-results").await, (ids(0..100), 100));
    });
}

#[test]
fn a_dispatcher_that_was_stopped_gives_way_to_the_one_that_took_over() {
    on_a_server(async |_, crew| {
        let first = crew.dispatcher(&[]).await;
        let _node = crew.node("n", "4");
        let active = crew.shown("the first is active", |status| status["active"] == true).await;
        let _second = crew.start("second", &["dispatch"]);
        crew.shown("the second stands by", |status| status["active"] == false).await;
        stop(first.id());
        let later = |status: &serde_json::Value| {
            status["active"] == true && status["dispatcher"].as_u64() > active["dispatcher"].as_u64()
        };
        crew.shown("the second is active", later).await;
        crew.feed(0..50, 2).await;
        go_on(first.id());
        crew.shown("the first stands by", |status| status["active"] == false).await;
        crew.feed(50..100, 2).await;
        crew.done(100).await;
        assert_eq!(crew.ids("f-results").await, (ids(0..100), 100));
        assert!(first.said().contains("stands by"), "{}", first.said());
    });
}

#[test]
fn a_server_that_is_killed_and_started_again_loses_nothing_that_it_had() {
    on_a_server(async |server, crew| {
        let _dispatcher = crew.dispatcher(&[]).await;
        let _nodes = [crew.node("n1", "2"), crew.node("n2", "2")];
        for round in 0..3 {
            crew.feed(round * 50..(round + 1) * 50, 5).await;
            sleep(Duration::from_millis(30)).await;
            server.start_again();
        }
        crew.done(150).await;
        assert_eq!(crew.ids("f-results").await, (ids(0..150), 150));
    });
}

#[test]
fn where_results_have_no_room_the_farm_waits_and_says_why_and_then_goes_on() {
    on_a_server(async |_, crew| {
        let dispatcher = crew.dispatcher(&["--max-bytes", "8KiB"]).await;
        let _node = crew.node("n", "2");
        let feeding = crew.feed(0..200, 0);
        let waiting = async {
            let status = crew.shown("it waits", |status| status["holds"] != "").await;
            assert!(status["holds"].as_str().unwrap().contains("full"), "{status}");
            loop {
                crew.empty("f-results").await;
                sleep(Duration::from_millis(100)).await;
                let status = crew.shown("it goes on", |status| status["active"] == true).await;
                // A result whose confirmation was late counts as committed before.
                let count = |name: &str| status["totals"][name].as_u64().unwrap();
                if count("committed") + count("already_committed") >= 200 {
                    return;
                }
            }
        };
        tokio::join!(feeding, waiting);
        crew.kept("f-events", 0).await;
        assert_eq!(crew.ids("f-results").await.1, 200);
        assert!(dispatcher.said().contains("`sidecore farm results` takes and removes"), "{}", dispatcher.said());
    });
}

#[test]
fn an_event_that_fails_is_a_dead_letter_with_its_reason_after_its_tries() {
    on_a_server(async |_, crew| {
        let _dispatcher = crew.dispatcher(&["--tries", "2"]).await;
        let _node = crew.start("n", &["work", "--jobs", "2", "--", "false"]);
        crew.feed(0..3, 7).await;
        crew.kept("f-dead", 3).await;
        crew.kept("f-events", 0).await;
        let letter = crew.message("f-dead", "farm.f.dead.e-1").await;
        let header = |name: &str| letter.headers.get(name).unwrap().as_str().to_owned();
        assert_eq!(
            (&letter.payload[..], header("Farm-Tries"), header("Farm-Kind")),
            (&b"7"[..], "2".into(), "k".into())
        );
        assert!(header("Farm-Reason").contains('1'), "{}", header("Farm-Reason"));
        assert_eq!(crew.ids("f-results").await.1, 0);
    });
}

#[test]
fn events_without_a_sound_id_get_one_and_results_are_left_out_where_nobody_wants_them() {
    on_a_server(async |_, crew| {
        let _dispatcher = crew.dispatcher(&["--results", "none"]).await;
        let _node = crew.node("n", "2");
        for body in ["1", "1", "1"] {
            crew.client.publish("farm.f.events.other", body.into()).await.unwrap();
        }
        crew.client.flush().await.unwrap();
        let status = crew.shown("all done", |status| status["nodes"][0]["done"] == 3).await;
        assert_eq!(status["totals"]["committed"], 0);
        crew.done(0).await;
    });
}

#[test]
fn garbage_on_each_subject_is_counted_and_changes_nothing() {
    on_a_server(async |_, crew| {
        let _dispatcher = crew.dispatcher(&[]).await;
        let _node = crew.node("n", "2");
        crew.shown("a node", |status| status["nodes"].as_array().unwrap().len() == 1).await;
        for subject in ["farm.f.up", "farm.f.dispatcher", "farm.f.status", "farm.f.down.n.1"] {
            for body in [&b""[..], b"\x01", b"\x01\x00\xff\xff\xff\xff\xff", b"{}", b"\x02", &vec![0xff; 10_000]] {
                crew.client.publish(subject, Bytes::copy_from_slice(body)).await.unwrap();
            }
        }
        crew.feed(0..20, 1).await;
        crew.done(20).await;
        // The garbage on `farm.f.status` also reaches this test.
        assert_eq!(crew.ids("f-results").await, (ids(0..20), 20));
        crew.shown("garbage", |status| status["totals"]["garbage"].as_u64() >= Some(5)).await;
    });
}
