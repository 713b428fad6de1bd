//! Priorities, and the progress of what one feeder has fed.

use crate::program::{Running, farm, fine, refused, run, run_with, status, until};
use crate::queue::{count, publish};
use serde_json::Value;
use sidecore_testing::nats::Server;
use std::collections::BTreeSet;
use std::fs;

fn lines(count: u32) -> Vec<u8> {
    (0..count).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

#[test]
fn urgent_events_overtake_a_long_queue_and_let_one_of_eight_of_it_through() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run_with(&url, &["feed", "--lines", "--name", "usual"], &b"1\n".repeat(1_000)));
    // It holds few events, so that urgent ones have to be taken out of the middle of the queue.
    let _dispatcher = Running::start(&mut farm(&url, &["dispatch", "--hold", "64"]));
    until("it has taken what it holds", || status(&url)["held"].as_u64() == Some(64));
    fine(&run_with(&url, &["feed", "--lines", "--name", "now", "--urgent", "--kind", "other"], &b"1\n".repeat(200)));
    // Slow beside a dispatcher on a busy machine, which brings urgent events from the servers meanwhile.
    let _node = Running::start(&mut farm(&url, &["work", "--jobs", "1", "--sleep", "5ms"]));
    until("the urgent ones are done", || {
        let progress = fine(&run(&url, &["progress", "now", "--json"]));
        serde_json::from_str::<Value>(&progress).unwrap()["left"] == 0
    });
    let done = fine(&run(&url, &["results", "--stdout", "--lines", "--ids", "--count", "1200"]));
    let order: Vec<bool> = done.lines().map(|line| line.starts_with("now-")).collect();
    assert_eq!((order.len(), order.iter().filter(|urgent| **urgent).count()), (1_200, 200));
    let last = order.iter().rposition(|urgent| *urgent).unwrap();
    // 200, 28 of the others, and what the node had while the next urgent ones were on their way.
    assert!((220..500).contains(&last), "the last urgent result is number {last}");
    let others = order[..last].iter().filter(|urgent| !**urgent).count();
    assert!(others >= 25, "{others} others were done meanwhile");
}

#[test]
fn the_progress_of_a_batch_survives_its_dispatcher_and_counts_no_other_batch() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    let scratch = tempfile::tempdir().unwrap();
    let open = scratch.path().join("open");
    refused(&run(&url, &["progress", "job"]), 2, &["there is no farm farm here yet"]);
    fine(&run_with(&url, &["feed", "--lines", "--name", "job"], &lines(60)));
    fine(&run_with(&url, &["feed", "--lines", "--name", "job-2"], b"fail\n"));
    refused(&run(&url, &["progress", "jo"]), 1, &["no event of jo is in the farm, and no feeder of that name"]);
    let progress = |wanted: &[&str]| fine(&run(&url, &[&["progress", "job"], wanted].concat()));
    assert_eq!(progress(&[]), "job: 0 of 60 events done, 60 left\n");

    let mut dispatcher = Running::start(&mut farm(&url, &["dispatch", "--backoff", "1ms"]));
    let command = format!(
        "read n; test $n != fail || exit 1; test $n -lt 20 || until [ -e {} ]; do sleep 0.02; done; echo $n",
        open.display()
    );
    let _node = Running::start(farm(&url, &["work", "--jobs", "2"]).args(["--", "sh", "-c", &command]));
    until("twenty are done", || count(&url, "farm-events") <= 41);
    for _ in 0..2 {
        let said: Value = serde_json::from_str(&progress(&["--json"])).unwrap();
        let number = |name: &str| said[name].as_u64();
        assert_eq!(number("fed"), Some(60), "{said}");
        assert_eq!(number("left").zip(number("done")).map(|(left, done)| left + done), Some(60), "{said}");
        assert!((18..=22).contains(&number("done").unwrap()), "{said}");
        dispatcher = Running::start(&mut farm(&url, &["dispatch", "--backoff", "1ms"]));
    }
    refused(&run(&url, &["progress", "job", "--wait", "1s"]), 1, &[]);
    fs::write(&open, "").unwrap();
    assert_eq!(progress(&["--wait", "1min"]), "job: 60 of 60 events done, 0 left\n");
    let other = run(&url, &["progress", "job-2", "--wait", "1min"]);
    refused(&other, 1, &[]);
    assert_eq!(String::from_utf8_lossy(&other.stdout), "job-2: 1 of 1 events done, 0 left, dead letters: 1\n");
    drop(dispatcher);
}

#[test]
fn events_of_the_former_layout_are_not_left_behind_unseen() {
    let Some(server) = Server::start() else { return };
    let url = server.url();
    fine(&run(&url, &["feed"]));
    crate::queue::with(&url, async |js| {
        let config = js.get_stream("farm-events").await.unwrap().get_info().await.unwrap().config;
        let subjects = ["farm.farm.events.*", "farm.farm.fed.*.*"].map(str::to_owned).to_vec();
        js.update_stream(async_nats::jetstream::stream::Config { subjects, ..config }).await.map(drop).unwrap();
    });
    publish(&url, "farm.farm.fed.camera.k", &[("Nats-Msg-Id", "a-1.tag")], "event");
    refused(&run(&url, &["feed"]), 2, &["1 events wait in farm-events as an earlier version stored them"]);
    let taken: BTreeSet<_> = crate::queue::take(&url, "farm", 1).into_iter().map(|event| event.body).collect();
    assert_eq!(taken.len(), 1);
    fine(&run_with(&url, &["feed", "--lines"], b"one\n"));
}
