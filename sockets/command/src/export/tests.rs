//! Exported pages of made-up lists.

use super::Exporter;
use crate::programs::made_up;
use sidecore_sockets::protocol::Row;
use sidecore_terminal::metrics::Exporter as _;
use sidecore_testing::scraped::{explained, names, number, parsed};
use std::collections::HashSet;
use std::time::{Duration, Instant};

fn exporter() -> Exporter {
    Exporter::new("/nowhere/sockets".into(), 2)
}

fn with_sockets(exporter: &mut Exporter, rows: &[Row]) -> String {
    exporter.take(Some(rows.to_vec()));
    exporter.page()
}

#[test]
fn programs_with_sockets_are_summed_up_by_name() {
    let mut exporter = exporter();
    let mut rows = vec![made_up::row("feed", 31, 0), made_up::row("feed", 32, 0), made_up::row("feed", 32, 1)];
    (rows[2].open, rows[2].why, rows[2].saved_ns) = (false, 2, None);
    let labels = [("program", "feed"), ("user", "root")];
    for (name, labels, value) in [
        ("sidecore_sockets_up", &[][..], 1.0),
        ("sidecore_sockets_in_rings", &labels, 2.0),
        ("sidecore_sockets_on_kernel", &[("program", "feed"), ("why", "large sends")], 1.0),
        ("sidecore_sockets_waiting_bytes", &labels, 1920.0),
        ("sidecore_sockets_messages_total", &labels, 3000.0),
        ("sidecore_sockets_kernel_messages_total", &labels, 18.0),
        ("sidecore_sockets_transfers_total", &labels, 18.0),
        ("sidecore_sockets_drains_total", &labels, 6.0),
        ("sidecore_sockets_sent_bytes_total", &labels, 192_000.0),
        ("sidecore_sockets_cpu_saved_seconds", &labels, 0.007_936),
    ] {
        let text = with_sockets(&mut exporter, &rows);
        assert_eq!(number(&parsed(&text), name, labels), Some(value), "{name} {labels:?} in\n{text}");
    }
    // A closed socket takes nothing off the sums. The saved time may become negative.
    (rows[0].messages, rows[0].saved_ns) = (1001, Some(-1_000_000_000));
    let scrape = parsed(&with_sockets(&mut exporter, &rows[..1]));
    assert_eq!(number(&scrape, "sidecore_sockets_messages_total", &labels), Some(3001.0));
    assert_eq!(number(&scrape, "sidecore_sockets_in_rings", &labels), Some(1.0));
    assert!(number(&scrape, "sidecore_sockets_cpu_saved_seconds", &labels).unwrap() < -0.9);
    // The last counts of a program that has ended are added to the sums.
    let gone = Row { messages: 1011, open: false, gone_ns: Some(1), ..rows[0].clone() };
    let scrape = parsed(&with_sockets(&mut exporter, &[gone]));
    assert_eq!(number(&scrape, "sidecore_sockets_messages_total", &labels), Some(3011.0));
    assert_eq!(number(&scrape, "sidecore_sockets_in_rings", &labels), Some(0.0));
    assert_eq!(number(&scrape, "sidecore_sockets_waiting_bytes", &labels), Some(0.0));
}

#[test]
fn names_of_programs_with_sockets_are_bounded_in_number_and_stay_inside_their_labels() {
    let mut exporter = exporter();
    let mut rows: Vec<Row> = (0..9).map(|pid| made_up::row(&format!("p{pid}"), pid, 0)).collect();
    let messages =
        |text: &str, program: &str| number(&parsed(text), "sidecore_sockets_messages_total", &[("program", program)]);
    let text = with_sockets(&mut exporter, &rows);
    assert_eq!(
        (messages(&text, "p1"), messages(&text, "p2"), messages(&text, "(other)")),
        (Some(1000.0), None, Some(7000.0))
    );
    rows.truncate(1);
    rows[0].stream = 2;
    rows[0].program = "a\"} 1\nsidecore_sockets_up 0\\".to_owned();
    let text = with_sockets(&mut exporter, &rows);
    assert!(
        text.contains(
            "sidecore_sockets_messages_total{program=\"a\\\"} 1\\nsidecore_sockets_up 0\\\\\",user=\"root\"} 1000\n"
        ),
        "{text}"
    );
    assert_eq!(messages(&text, "(other)"), Some(7000.0), "what was counted stays");
    assert_eq!(text.lines().filter(|line| line.starts_with("sidecore_sockets_up ")).count(), 1);
}

#[test]
fn a_service_that_goes_and_comes_is_down_and_up_again() {
    let mut exporter = exporter();
    assert!(exporter.metrics().contains("sidecore_sockets_up 0\n"), "there is none");
    assert_eq!(exporter.state(), "The service of sockets does not answer.");
    assert!(with_sockets(&mut exporter, &[made_up::row("feed", 31, 0)]).contains("sidecore_sockets_up 1\n"));
    exporter.take(None);
    let text = exporter.page();
    assert!(
        !text.contains("feed") && text.contains("sidecore_sockets_up 0\n"),
        "old numbers are not given out as new ones"
    );
    let text = with_sockets(&mut exporter, &[made_up::row("feed", 31, 0)]);
    assert!(text.contains("sidecore_sockets_messages_total{program=\"feed\",user=\"root\"} 1000\n"), "{text}");
}

#[test]
fn the_service_of_sockets_is_asked_once_a_second_however_often_somebody_scrapes() {
    let mut exporter = exporter();
    let (start, feed) = (Instant::now(), [made_up::row("feed", 31, 0)]);
    let asked = [0, 1, 999, 1000, 1500, 2000].map(|after| {
        with_sockets(&mut exporter, &feed);
        exporter.ask(start + Duration::from_millis(after));
        // There is no service: the page reports it as down.
        exporter.page().contains("sidecore_sockets_up 0\n")
    });
    assert_eq!(asked, [true, false, false, true, false, true]);
}

#[test]
fn each_metric_of_the_alerts_is_exported() {
    let alerts = include_str!("../../../../packaging/prometheus/sidecore.rules.yml");
    let text = with_sockets(&mut exporter(), &[made_up::row("feed", 31, 0)]);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let exported: HashSet<&str> = samples.filter_map(|line| names(line).next()).collect();
    let used: Vec<&str> = names(alerts).filter(|name| name.starts_with("sidecore_sockets_")).collect();
    assert!(!used.is_empty() && used.iter().all(|name| exported.contains(name)), "{used:?}");
}

#[test]
fn each_metric_is_explained_with_its_type_in_its_own_words() {
    let text = with_sockets(&mut exporter(), &[Row { open: false, why: 4, ..made_up::row("feed", 31, 0) }]);
    explained(include_str!("../../../../docs/sockets.md"), &text);
}
