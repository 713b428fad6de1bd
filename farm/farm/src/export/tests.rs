//! Exported pages of a made-up farm, and a server on loopback.

use super::metrics::page;
use crate::status::{Node, Quantiles, Stages, Status, Totals};
use crate::status_watch::View;
use sidecore_terminal::metrics::{Server, answer};
use sidecore_testing::scraped::{names, number, parsed};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

fn view() -> View {
    let stages = Stages { network: Quantiles { p50_us: 250, p99_us: 1_500 }, ..Stages::default() };
    let node = Node {
        name: "n 1".to_owned(),
        slots: 4,
        credit_ns: -500_000_000,
        lag_ms: 2.0,
        done: 9,
        stages,
        ..Node::default()
    };
    let totals = Totals { seen: 12, committed: 10, turned_away: 3, ..Totals::default() };
    let farm = Status {
        farm: "f".to_owned(),
        balance: "tokens".to_owned(),
        connected: true,
        held_bytes: 77,
        delayed: 5,
        queued: Some(900),
        unacknowledged: Some(20),
        totals,
        nodes: vec![node],
        ..Status::default()
    };
    View { active: Some(farm), standing_by: 2 }
}

#[test]
fn everything_has_its_name_unit_and_labels() {
    let text = page(&view());
    let scrape = parsed(&text);
    let node = ("node", "n 1");
    for (name, labels, value) in [
        ("sidecore_farm_up", &[][..], 1.0),
        ("sidecore_farm_standing_by", &[], 2.0),
        ("sidecore_farm_info", &[("farm", "f"), ("balance", "tokens")], 1.0),
        ("sidecore_farm_connected", &[], 1.0),
        ("sidecore_farm_held_up", &[], 0.0),
        ("sidecore_farm_held_bytes", &[], 77.0),
        ("sidecore_farm_delayed_events", &[], 5.0),
        ("sidecore_farm_queued_events", &[], 900.0),
        ("sidecore_farm_unacknowledged_events", &[], 20.0),
        ("sidecore_farm_events_total", &[], 12.0),
        ("sidecore_farm_committed_total", &[], 10.0),
        ("sidecore_farm_nodes_turned_away_total", &[], 3.0),
        ("sidecore_farm_node_up", &[node], 1.0),
        ("sidecore_farm_node_slots", &[node], 4.0),
        ("sidecore_farm_node_credit_seconds", &[node], -0.5),
        ("sidecore_farm_node_lag_seconds", &[node], 0.002),
        ("sidecore_farm_node_done_total", &[node], 9.0),
        ("sidecore_farm_node_stage_seconds", &[node, ("stage", "network"), ("quantile", "0.99")], 0.0015),
        ("sidecore_farm_node_stage_seconds", &[node, ("stage", "return"), ("quantile", "0.5")], 0.0),
    ] {
        assert_eq!(number(&scrape, name, labels), Some(value), "{name} {labels:?} in\n{text}");
    }
}

#[test]
fn each_metric_of_the_alerts_is_exported() {
    let (text, alerts) = (page(&view()), include_str!("../../../../packaging/prometheus/sidecore.rules.yml"));
    let used: Vec<&str> = names(alerts).filter(|name| name.starts_with("sidecore_farm_")).collect();
    assert!(!used.is_empty());
    for name in used {
        assert!(text.lines().any(|line| line.split(['{', ' ']).next() == Some(name)), "{name} is not exported");
    }
}

#[test]
fn a_queue_of_which_its_server_says_nothing_has_no_number() {
    let mut silent = view();
    silent.active.as_mut().unwrap().queued = None;
    let text = page(&silent);
    assert!(!text.contains("sidecore_farm_queued_events") && text.contains("sidecore_farm_unacknowledged_events 20"));
}

#[test]
fn a_name_does_not_end_its_quotes() {
    let mut hostile = view();
    hostile.active.as_mut().unwrap().nodes[0].name = "\"} 1\\".to_owned();
    assert!(page(&hostile).contains("sidecore_farm_node_slots{node=\"\\\"} 1\\\\\"} 4.0\n"));
}

#[test]
fn without_a_dispatcher_the_page_says_that_alone() {
    let scrape = parsed(&page(&View::default()));
    assert_eq!(number(&scrape, "sidecore_farm_up", &[]), Some(0.0));
    assert_eq!(number(&scrape, "sidecore_farm_standing_by", &[]), Some(0.0));
    assert_eq!(scrape.samples.len(), 2);
}

#[test]
fn a_farm_without_nodes_has_metrics_of_its_own() {
    let mut empty = view();
    empty.active.as_mut().unwrap().nodes.clear();
    let text = page(&empty);
    assert!(!text.contains("node_slots") && text.contains("sidecore_farm_committed_total 10"), "{text}");
}

fn asked(server: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_answers_over_http() {
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap().patience(Duration::from_secs(60));
    let address = server.address();
    // The thread ends with the test program.
    std::thread::spawn(move || server.run(&|wanted| answer(&mut view(), wanted)));
    let page = asked(address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("sidecore_farm_up 1.0\n"), "{page}");
    assert!(asked(address, "GET / HTTP/1.1\r\n\r\n").contains("<a href=\"/metrics\">"));
    assert!(asked(address, "GET /nothing HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
}

#[test]
fn connections_that_ask_nothing_keep_no_scraper_out() {
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap().patience(Duration::from_secs(600));
    let address = server.address();
    // The thread ends with the test program.
    std::thread::spawn(move || server.run(&|wanted| answer(&mut view(), wanted)));
    let mut idle: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    for _ in 0..20 {
        let page = asked(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.contains("sidecore_farm_up 1.0\n"), "{page}");
        // A client that sends only the beginning of a request.
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(b"GET /metrics HT").unwrap();
        idle.push(slow);
    }
    // The oldest idle connection is closed.
    assert_eq!(idle[0].read(&mut [0]).unwrap(), 0);
}
