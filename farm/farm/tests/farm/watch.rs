//! Watching a farm: a real one, a missing one, and one that a hostile client makes up.

use crate::program::{Running, farm, fine, refused, run, until};
use crate::work::Farm;
use prometheus_parse::{Scrape, Value};
use serde_json::Value as Json;
use sidecore_testing::nats::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn where_nobody_dispatches_that_is_the_answer() {
    let Some(server) = Server::start() else { return };
    for args in [&["status"][..], &["status", "--json"], &["top", "--once"]] {
        let output = run(&server.url(), args);
        refused(&output, 1, &["nobody dispatches in farm farm", "sidecore farm dispatch"]);
        assert!(output.stdout.is_empty());
    }
    refused(&run("nats://127.0.0.1:1", &["status"]), 2, &["no NATS server"]);
}

#[test]
fn a_farm_is_shown_as_text_as_json_and_as_metrics() {
    let Some(farm) = Farm::new() else { return };
    let _node = farm.node(&["--name", "one", "--jobs", "3"], &["cat"]);
    farm.feed("a\nb\nc\n");
    assert_eq!(farm.results(3).len(), 3);
    let status = || serde_json::from_str::<Json>(&fine(&run(&farm.url(), &["status", "--json"]))).unwrap();
    until("the node's events", || {
        let status = status();
        status["nodes"][0]["done"] == 3 && status["queued"] == 0
    });
    let status = status();
    assert_eq!(
        (&status["farm"], &status["balance"], &status["active"]),
        (&"farm".into(), &"tokens".into(), &true.into())
    );
    assert_eq!((&status["nodes"][0]["name"], &status["nodes"][0]["slots"]), (&"one".into(), &3.into()));
    assert_eq!((&status["totals"]["committed"], &status["totals"]["dead"]), (&3.into(), &0.into()));
    assert_eq!((&status["queued"], &status["unacknowledged"]), (&0.into(), &0.into()), "{status}");
    for args in [&["status"][..], &["top", "--once"], &["top"]] {
        let text = fine(&run(&farm.url(), args));
        assert!(text.starts_with("farm farm, balance tokens; nodes: 1, slots: 3,"), "{text}");
        let row = text.lines().find(|line| line.starts_with("one ")).unwrap();
        assert!(row.split_whitespace().nth(2) == Some("3"), "{text}");
    }
    metrics(&farm);
}

#[test]
fn the_queue_and_what_is_handed_out_of_it_are_shown_without_any_node() {
    let Some(farm) = Farm::new() else { return };
    farm.feed("a\nb\nc\n");
    let status = || serde_json::from_str::<Json>(&fine(&run(&farm.url(), &["status", "--json"]))).unwrap();
    until("the queue", || status()["queued"] == 3 && status()["unacknowledged"] == 3);
    let text = fine(&run(&farm.url(), &["status"]));
    assert!(text.contains("\nqueue, up to a second ago: 3 events, not acknowledged: 3\nheld: 3 events"), "{text}");
}

fn metrics(of: &Farm) {
    let mut export = Running::start(&mut farm(&of.url(), &["export", "--listen", "127.0.0.1:0"]));
    let said = export.says("metrics at http://");
    let address = said.trim().split("http://").nth(1).unwrap().strip_suffix("/metrics").unwrap().to_owned();
    let mut page = String::new();
    until("a scrape of a farm that is up", || {
        page = scraped(&address);
        page.contains("sidecore_farm_up 1.0\n")
    });
    let body = page.split_once("\r\n\r\n").unwrap().1;
    let scrape = Scrape::parse(body.lines().map(|line| Ok(line.to_owned()))).unwrap();
    for (name, node, expected) in [
        ("sidecore_farm_committed_total", None, 3.0),
        ("sidecore_farm_node_done_total", Some("one"), 3.0),
        ("sidecore_farm_node_slots", Some("one"), 3.0),
    ] {
        let sample = scrape.samples.iter().find(|sample| sample.metric == name).unwrap();
        assert_eq!(sample.labels.get("node"), node, "{name}");
        let (Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value)) = sample.value else {
            panic!("{name}")
        };
        assert!((value - expected).abs() < f64::EPSILON, "{name}: {value}");
    }
}

fn scraped(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: farm\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn text_that_somebody_hostile_publishes_drives_no_terminal() {
    let Some(server) = Server::start() else { return };
    let node = serde_json::json!({ "name": "\u{1b}[2J\u{1b}]0;mine\u{7}\r\nfarm", "slots": 1 });
    let hostile = serde_json::json!({
        "farm": "farm", "active": true, "connected": true, "balance": "\u{9b}31m", "holds": "\u{1b}c", "nodes": [node],
    });
    let (url, message) = (server.url(), hostile.to_string());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let publisher = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = async_nats::connect(url).await.unwrap();
            while stopped.try_recv().is_err() {
                for rubbish in ["", "{", "[[[[", &message] {
                    client.publish("farm.farm.status", rubbish.to_owned().into()).await.unwrap();
                }
                client.flush().await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    });
    for args in [&["status"][..], &["top", "--once"], &["status", "--json"]] {
        let text = fine(&run(&server.url(), args));
        assert!(text.contains("mine") && text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
    stop.send(()).unwrap();
    publisher.join().unwrap();
}
