//! Two dispatchers; one receives or sends late. The later term assigns each event, and none stands still.

use crate::crew::ids;
use crate::luck::on_a_server;
use crate::relay::Relay;
use sidecore_testing::{go_on, stop};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;
use tokio::time::sleep;

/// Consumers of a term: for urgent events, and for others.
const CONSUMERS: usize = 2;
/// Subjects: announcements of dispatchers, and their requests for the queue.
const ANNOUNCED: &str = "farm.f.dispatcher";
const CREATE: &str = "$JS.API.CONSUMER.CREATE.f-events";
const NAMES: &str = "$JS.API.CONSUMER.NAMES.f-events";

#[test]
fn events_are_done_although_the_dispatcher_that_took_over_is_heard_late() {
    on_a_server(async |server, crew| {
        let _first = crew.dispatcher(&[]).await;
        let _node = crew.node("n", "4");
        crew.shown("the first is active", |status| status["active"] == true).await;
        let way = Relay::to(server.port());
        let _second = crew.start_by(&way.url(), "second", &["dispatch"]);
        crew.shown("the second stands by", |status| status["active"] == false).await;
        crew.feed(0..100, 5).await;
        let before = crew.consumers().await;
        // The second dispatcher hears no announcement and takes the queue over. From then on its messages are held.
        way.hold_after(CREATE);
        way.mute(ANNOUNCED);
        crew.until("another consumer", async |crew| crew.consumers().await != before).await;
        crew.feed(100..200, 1).await;
        crew.done(200).await;
        way.release();
        crew.feed(200..300, 1).await;
        crew.done(300).await;
        assert_eq!(crew.ids("f-results").await, (ids(0..300), 300));
    });
}

#[test]
fn a_late_deletion_of_an_earlier_term_meets_no_later_consumer() {
    on_a_server(async |server, crew| {
        let first = crew.dispatcher(&[]).await;
        let _node = crew.node("n", "4");
        crew.shown("the first is active", |status| status["active"] == true).await;
        let way = Relay::to(server.port());
        let _second = crew.start_by(&way.url(), "second", &["dispatch"]);
        crew.shown("the second stands by", |status| status["active"] == false).await;
        // The second has listed the first's consumer, and its deletion is held.
        way.hold_after(NAMES);
        way.mute(ANNOUNCED);
        crew.until("a list", async |_| way.is_holding()).await;
        // The first is stopped meanwhile, and then begins another term.
        let before = crew.consumers().await;
        stop(first.id());
        let _third = crew.start("third", &["dispatch"]);
        crew.until("another consumer", async |crew| {
            let now = crew.consumers().await;
            now != before && now.len() == CONSUMERS
        })
        .await;
        go_on(first.id());
        crew.feed(0..100, 1).await;
        way.release();
        crew.feed(100..200, 1).await;
        crew.done(200).await;
        assert_eq!(crew.ids("f-results").await, (ids(0..200), 200));
    });
}

#[test]
fn dispatchers_whose_servers_answer_late_agree_on_one() {
    on_a_server(async |server, crew| {
        let ways = [Relay::to(server.port()), Relay::to(server.port())];
        // A takeover takes several answers, longer than dispatchers wait for an announcement.
        for way in &ways {
            way.delay(Duration::from_millis(150));
        }
        // Nodes' messages are late too.
        let dispatch = ["dispatch", "--silence", "2s"];
        let _dispatchers =
            [("one", &ways[0]), ("two", &ways[1])].map(|(name, way)| crew.start_by(&way.url(), name, &dispatch));
        let _nodes = [crew.node("n1", "4"), crew.node("n2", "4")];
        crew.until("the farm", async |crew| crew.has_farm().await).await;
        let feeding = async {
            crew.feed(0..600, 1).await;
            crew.done(600).await;
        };
        let mut terms = BTreeSet::new();
        let counting = async {
            loop {
                terms.extend(crew.consumers().await);
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = feeding => {}
            () = counting => {}
        }
        // The second heard the first's announcement during the takeover.
        assert_eq!(terms.len(), CONSUMERS, "{terms:?}");
        assert_eq!(crew.ids("f-results").await, (ids(0..600), 600));
    });
}

#[test]
fn a_dispatcher_that_was_cut_off_goes_on_with_what_it_holds() {
    on_a_server(async |server, crew| {
        let way = Relay::to(server.port());
        let _dispatcher = crew.start_by(&way.url(), "dispatch", &["dispatch"]);
        crew.until("the farm", async |crew| crew.has_farm().await).await;
        let scratch = tempfile::tempdir().unwrap();
        let go = scratch.path().join("go");
        let work = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
        let _node = crew.start("n", &["work", "--name", "n", "--jobs", "4", "--", "sh", "-c", &work]);
        let first = crew.shown("it is active", |status| status["active"] == true).await;
        crew.feed(0..40, 0).await;
        for _ in 0..3 {
            // A cut loses messages on their way to the node. There are none once two reports have the same number of
            // events.
            let given = Cell::new(0);
            crew.shown("the node has its events", |status| {
                let now = status["nodes"][0]["in_flight"].as_u64().unwrap_or(0);
                now > 0 && given.replace(now) == now
            })
            .await;
            let before = crew.consumers().await;
            way.cut();
            crew.until("another consumer", async |crew| {
                let now = crew.consumers().await;
                now != before && now.len() == CONSUMERS
            })
            .await;
        }
        File::create(&go).unwrap();
        crew.done(40).await;
        let last = crew.shown("all is committed", |status| status["totals"]["committed"] == 40).await;
        let totals = &last["totals"];
        assert_eq!(last["dispatcher"], first["dispatcher"], "the same term");
        assert_eq!((&totals["seen"], &totals["redone"]), (&40.into(), &0.into()), "{last}");
    });
}

#[test]
fn a_standby_that_was_paused_does_not_take_over() {
    on_a_server(async |_, crew| {
        let _first = crew.dispatcher(&[]).await;
        let _node = crew.node("n", "4");
        crew.shown("the first is active", |status| status["active"] == true).await;
        let second = crew.start("second", &["dispatch"]);
        crew.shown("the second stands by", |status| status["active"] == false).await;
        let mut taken_over = 0;
        for _ in 0..6 {
            let before = crew.shown("one is active", |status| status["active"] == true).await;
            stop(second.id());
            // The fault.
            sleep(Duration::from_millis(300)).await;
            go_on(second.id());
            crew.shown("one stands by", |status| status["active"] == false).await;
            let after = crew.shown("one is active", |status| status["active"] == true).await;
            taken_over += u32::from(after["dispatcher"] != before["dispatcher"]);
        }
        // On a busy machine the first may be late too.
        assert!(taken_over < 3, "{taken_over} of 6");
    });
}

#[test]
fn a_server_that_stood_still_makes_no_dead_letters() {
    on_a_server(async |server, crew| {
        let dispatcher = crew.dispatcher(&["--hold", "32"]).await;
        let _node = crew.node("n", "2");
        crew.shown("a node", |status| status["nodes"].as_array().unwrap().len() == 1).await;
        stop(server.id());
        // The fault: longer than a request's silence, and shorter than the end of a term.
        sleep(Duration::from_millis(2_800)).await;
        go_on(server.id());
        crew.feed(0..300, 3).await;
        crew.done(300).await;
        assert_eq!(crew.ids("f-results").await, (ids(0..300), 300), "{}", dispatcher.said());
        assert_eq!(crew.ids("f-dead").await.1, 0);
    });
}
