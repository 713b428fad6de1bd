//! Feeding over TCP: clients receive the outcome of their events, and wait while too many are not stored.

use crate::program::{Running, farm, fine};
use crate::queue::{by_id, count, take};
use sidecore_testing::nats::Server;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn listening(server: &Server, args: &[&str]) -> (Running, String) {
    let mut feeder = Running::start(&mut farm(&server.url(), &[&["feed", "--listen", "127.0.0.1:0"], args].concat()));
    let line = feeder.says("taking events at");
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    (feeder, address)
}

fn lines(stream: TcpStream) -> Vec<String> {
    BufReader::new(stream).lines().map(Result::unwrap).collect()
}

fn frame(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()
}

#[test]
fn a_client_is_told_what_is_stored_and_what_is_not() {
    let Some(server) = Server::start() else { return };
    let (feeder, address) = listening(&server, &["--name", "door"]);
    let mut client = TcpStream::connect(&address).unwrap();
    let input = [frame(b"one"), frame(&vec![0; 2 << 20]), frame(b"three")].concat();
    client.write_all(&input).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let said = lines(client);
    let refused = said.iter().position(|line| line.starts_with("refused 2 2097152 bytes are more than")).unwrap();
    assert!(said[..refused].iter().all(|line| line == "stored 1"), "{said:?}");
    assert_eq!(said.last().unwrap(), "stored 3");
    feeder.stop();
    // One event was refused.
    assert_eq!(feeder.end().status.code(), Some(1));
    let events = by_id(take(&server.url(), "farm", 10));
    assert_eq!(events.into_values().collect::<Vec<_>>(), [b"one".to_vec(), b"three".to_vec()]);
}

#[test]
fn feeders_of_one_name_that_listen_one_after_another_take_no_id_twice() {
    let Some(server) = Server::start() else { return };
    for _ in 0..2 {
        let (feeder, address) = listening(&server, &["--name", "door", "--lines"]);
        let mut client = TcpStream::connect(&address).unwrap();
        client.write_all(b"one\ntwo\n").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(lines(client).last().unwrap(), "stored 2");
        feeder.stop();
        fine(&feeder.end());
    }
    assert_eq!(count(&server.url(), "farm-events"), 4);
}

#[test]
fn a_client_waits_while_the_farm_is_full() {
    let Some(server) = Server::start() else { return };
    let args = ["--lines", "--max-bytes", "100KiB", "--in-flight-bytes", "64KiB"];
    let (mut feeder, address) = listening(&server, &args);
    let mut client = TcpStream::connect(&address).unwrap();
    client.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let line = [b'x'; 1_023];
    let mut whole = 0_u32;
    let mut rest = Vec::new();
    // The system's own buffers take some megabytes.
    while rest.is_empty() && whole < 100_000 {
        let event = [&line[..], b"\n"].concat();
        match client.write(&event) {
            Ok(written) if written == event.len() => whole += 1,
            Ok(written) => rest = event[written..].to_vec(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(whole < 100_000, "nothing held the client back");
    feeder.says("the farm is full");
    client.set_write_timeout(None).unwrap();
    let sender = std::thread::spawn(move || {
        client.write_all(&rest).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        lines(client)
    });
    let mut events = Vec::new();
    while !sender.is_finished() {
        events.extend(take(&server.url(), "farm", 1_000));
    }
    let said = sender.join().unwrap();
    events.extend(take(&server.url(), "farm", 1_000));
    assert_eq!(said.last().unwrap(), &format!("stored {}", events.len()));
    assert!(by_id(events).len() as u64 >= u64::from(whole));
    feeder.stop();
    fine(&feeder.end());
}

#[test]
fn half_an_event_has_a_time_limit() {
    let Some(server) = Server::start() else { return };
    let (_feeder, address) = listening(&server, &["--event-time", "100ms"]);
    let mut client = TcpStream::connect(&address).unwrap();
    client.write_all(&[&frame(b"one")[..], b"\0\0\0\x09tw"].concat()).unwrap();
    let said = lines(client);
    assert!(said.iter().any(|line| line == "stored 1"), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("refused 2 it was not whole 100ms after it began")), "{said:?}");
}

#[test]
fn what_is_no_event_ends_its_own_connection_only() {
    let Some(server) = Server::start() else { return };
    let (_feeder, address) = listening(&server, &[]);
    let mut bystander = TcpStream::connect(&address).unwrap();
    let mut browser = TcpStream::connect(&address).unwrap();
    browser.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut said = String::new();
    // The feeder may close the connection with unread bytes.
    drop(browser.read_to_string(&mut said));
    assert!(said.starts_with("refused 1 text where an event's length should be"), "{said}");
    let mut cut = TcpStream::connect(&address).unwrap();
    cut.write_all(b"\0\0\0\x09tw").unwrap();
    cut.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(lines(cut)[0].starts_with("refused 1 it ends in the middle of an event"));
    bystander.write_all(&frame(b"one")).unwrap();
    bystander.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(lines(bystander), ["stored 1"]);
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    let Some(server) = Server::start() else { return };
    let (_feeder, address) = listening(&server, &["--connections", "1", "--lines"]);
    let mut first = TcpStream::connect(&address).unwrap();
    first.write_all(b"one\n").unwrap();
    let mut answer = [0; 9];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"stored 1\n");
    assert!(lines(TcpStream::connect(&address).unwrap())[0].starts_with("refused 0"));
    first.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(lines(first).is_empty());
    let mut next = TcpStream::connect(&address).unwrap();
    next.write_all(b"two\n").unwrap();
    next.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(lines(next), ["stored 1"]);
}
