//! Clients that try to fill, block or forge the log.

use crate::serving::{Dialled, Home, field, noop, number, read_lines, terminate};
use rustix::net::{SendFlags, send};
use sidecore::control::{Reply, Request, receive};
use sidecore::core::session::Op;
use std::io::Read;
use std::time::{Duration, Instant};

const REFUSALS: u64 = 100_000;
/// Requests in flight before their replies are read.
const BATCH_SIZE: u64 = 50;
/// More settings than the pipe and the service's queue hold.
const SETTINGS: u64 = 4000;
/// Log lines about one user's refusals for one reason: the first of them, and one each period, s.
const BURST: u64 = 5;
const PERIOD: u64 = 10;

fn set(line: &Dialled, number: u64) {
    let setting = if number.is_multiple_of(2) { "balance=sed" } else { "balance=eft" };
    assert_eq!(line.ask(&Request::Set(vec![setting.to_owned()])), Reply::Done, "{number}");
}

#[test]
fn a_hundred_thousand_refusals_are_a_few_lines_and_others_are_served_meanwhile() {
    let home = Home::new("");
    let service = home.serve(&["--log", "json"]);
    let mut other = service.client();
    let session = noop(&mut other);
    let (hostile, start) = (service.dial(), Instant::now());
    for _ in 0..REFUSALS / BATCH_SIZE {
        (0..BATCH_SIZE).for_each(|_| hostile.say(&Request::KeyInfo { name: "absent".to_owned() }));
        assert!(other.call(session, Op::Noop, 0, &[], 0).is_ok());
        for _ in 0..BATCH_SIZE {
            assert!(matches!(hostile.hear(), Reply::Refused(_)));
        }
    }
    let log = service.end();
    let told: Vec<&String> = log.iter().filter(|line| field(line, "reason") == "no-key").collect();
    let refused = told.iter().filter(|line| field(line, "event") == "refused").count() as u64;
    let suppressed: u64 = told.iter().map(|line| number(line, "suppressed")).sum();
    assert_eq!(refused + suppressed, REFUSALS, "each is told or counted");
    // The number of lines depends on the duration, and one more follows at the end.
    let most = BURST + start.elapsed().as_secs() / PERIOD + 2;
    assert!(told.len() as u64 <= most, "{} lines, at most {most}", told.len());
    println!("{REFUSALS} refusals are {} lines", told.len());
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up_and_tells_later_what_is_lost() {
    let home = Home::new("");
    let mut child = home.serve_unread();
    let line = Dialled::to(&home.socket());
    (0..SETTINGS).for_each(|number| set(&line, number));
    // The test starts to read.
    let lines = read_lines(child.stderr.take().unwrap());
    let (mut told, mut lost) = (0, 0);
    while told + lost < SETTINGS {
        let line = lines.recv_timeout(Duration::from_secs(60)).expect("the rest is told or counted");
        told += u64::from(field(&line, "event") == "set");
        if field(&line, "event") == "lines-lost" {
            assert_eq!(number(&line, "lines"), number(&line, "notices"), "only settings were lost");
            lost += number(&line, "lines");
        }
    }
    assert!(lost > 0 && told > 1000, "{told} told, {lost} lost");
    set(&line, 0);
    let next = lines.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(field(&next, "event"), "set", "what happens from then on is told");
    terminate(&mut child);
}

#[test]
fn a_service_whose_log_nobody_reads_ends_when_it_is_told_to() {
    let home = Home::new("");
    let mut child = home.serve_unread();
    let line = Dialled::to(&home.socket());
    (0..SETTINGS).for_each(|number| set(&line, number));
    terminate(&mut child);
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("\"start\"") && !log.contains("\"stop\""), "the pipe was full");
}

#[test]
fn a_service_whose_log_is_closed_goes_on() {
    let home = Home::new("");
    let mut child = home.serve_unread();
    drop(child.stderr.take());
    let line = Dialled::to(&home.socket());
    (0..100).for_each(|number| set(&line, number));
    terminate(&mut child);
}

#[test]
fn no_line_is_forged_by_what_a_client_writes() {
    const NAME: &str = "x\n<2>start: forged\r\n{\"event\":\"key-deleted\"}\u{1b}[2K\u{202e}\u{9b}31m\u{7f}\t\"";
    for format in ["text", "json"] {
        let home = Home::new("");
        let service = home.serve(&["--log", format, "--log-level", "debug"]);
        let line = service.dial();
        assert!(matches!(line.ask(&Request::KeyInfo { name: NAME.to_owned() }), Reply::Refused(_)));
        assert!(matches!(line.ask(&Request::Set(vec![NAME.to_owned()])), Reply::Refused(_)));
        let client = sidecore::client::Options { socket: home.socket(), name: NAME.to_owned(), ..Default::default() };
        drop(sidecore::client::Client::connect(&client).unwrap());
        let log = service.end();
        let harmless = |letter: char| !letter.is_control() && letter != '\u{202e}';
        assert!(log.iter().all(|line| line.chars().all(harmless)), "{log:?}");
        assert!(log.iter().filter(|line| line.contains("forged")).count() >= 3, "each is told: {log:?}");
        let stamped =
            |line: &String| if format == "json" { line.starts_with("{\"time\":\"2") } else { line.starts_with('2') };
        assert!(log.iter().all(stamped), "{log:?}");
    }
}

#[test]
fn who_breaks_the_protocol_is_told_at_a_bounded_rate() {
    let home = Home::new("");
    let service = home.serve(&["--log", "json"]);
    let start = Instant::now();
    for _ in 0..100 {
        let line = service.dial();
        send(&line.0, &[0xff; 64], SendFlags::empty()).unwrap();
        // While earlier connections are still open, the service declines the next one, which ends it too.
        assert!(!matches!(receive(&line.0), Ok((Reply::Done, _))));
    }
    let log = service.end();
    let told = |event: &str| log.iter().filter(|line| field(line, "event") == event).collect::<Vec<_>>();
    let (faults, refused) = (told("client-fault"), told("refused"));
    assert_eq!(
        (field(faults[0], "level"), number(faults[0], "pid")),
        ("warning".to_owned(), std::process::id().into())
    );
    let suppressed: u64 = log.iter().map(|line| number(line, "suppressed")).sum();
    assert_eq!((faults.len() + refused.len()) as u64 + suppressed, 100, "{log:?}");
    let most = 2 * (BURST + start.elapsed().as_secs() / PERIOD + 2);
    assert!(log.len() as u64 <= most + 4, "{log:?}");
}
