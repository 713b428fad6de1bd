//! Clients that mean no good, and users who may not.

use crate::raw::{FAILURE, ask_on, blob, connect, list, message, receive, sign, signature, string};
use crate::site::{Agent, MAX_WAIT, Site, root_or_skipped};
use sidecore::keys::{Acl, Kind};
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const OWN: u32 = 64_001;
const OTHER: u32 = 64_002;

/// Waits until the agent has ended this connection.
fn ends(mut stream: &UnixStream) {
    let begun = Instant::now();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            // It ended while requests were unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            read => assert!(read.is_ok() && begun.elapsed() < MAX_WAIT, "{read:?}"),
        }
    }
}

fn memory_kb(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn lengths_that_no_message_has_end_their_connection_and_take_no_memory() {
    let site = Site::with(&[("a", Kind::Ed25519)]);
    let agent = site.agent(&[]);
    assert_eq!(list(&agent.socket).len(), 1);
    let before = memory_kb(agent.id());
    for len in [0, 256 * 1024 + 1, 1 << 31, u32::MAX] {
        let stream = connect(&agent.socket);
        (&stream).write_all(&len.to_be_bytes()).unwrap();
        ends(&stream);
    }
    // The longest one, of which only the length comes.
    let longest: Vec<UnixStream> = (0..40).map(|_| connect(&agent.socket)).collect();
    for mut stream in &longest {
        stream.write_all(&(256 * 1024_u32).to_be_bytes()).unwrap();
    }
    assert_eq!(list(&agent.socket).len(), 1);
    assert!(memory_kb(agent.id()) < before + 4096);
}

#[test]
fn clients_that_drip_stall_or_take_no_reply_lose_their_connection_and_keep_no_other_waiting() {
    let site = Site::with(&[("a", Kind::Ed25519)]);
    let agent = site.agent(&[]);
    let key = blob(&agent.socket, "a");
    let (half, dripping, greedy) = (connect(&agent.socket), connect(&agent.socket), connect(&agent.socket));
    (&half).write_all(&[0, 0, 0, 9, 13]).unwrap();
    (&dripping).write_all(&100_000_u32.to_be_bytes()).unwrap();
    // Requests whose replies fill all buffers.
    greedy.set_nonblocking(true).unwrap();
    while (&greedy).write(&string([11])).is_ok() {}
    let drips = std::thread::scope(|scope| {
        let drip = scope.spawn(|| {
            let mut drips = 0;
            // Fails once the agent has ended the connection.
            while (&dripping).write_all(&[0]).is_ok() {
                drips += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
            drips
        });
        while !drip.is_finished() {
            signature(&sign(&agent.socket, &key, 0));
        }
        drip.join().unwrap()
    });
    assert!(drips < 100_000);
    ends(&half);
    // Reading would make room for further replies.
    let begun = Instant::now();
    while !(&greedy).write(&[0]).is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
        assert!(begun.elapsed() < MAX_WAIT);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(list(&agent.socket).len(), 1);
}

#[test]
fn idle_connections_stay_until_their_places_are_needed() {
    let site = Site::with(&[("a", Kind::Ed25519)]);
    let agent = site.agent(&[]);
    let idle: Vec<UnixStream> = (0..200).map(|_| connect(&agent.socket)).collect();
    assert_eq!(list(&agent.socket).len(), 1);
    ends(&idle[0]);
    assert_eq!(ask_on(&idle[199], &[11])[0], 12);
}

#[test]
fn any_garbage_has_a_failure_as_its_reply() {
    let site = Site::with(&[("a", Kind::Ed25519)]);
    let agent = site.agent(&[]);
    let key = blob(&agent.socket, "a");
    let stream = connect(&agent.socket);
    let whole = message(13, &[&string(&key), &string("a message"), &[0; 4]]);
    for len in 1..whole.len() {
        assert_eq!(ask_on(&stream, &whole[..len]), FAILURE, "{len}");
    }
    assert_eq!(ask_on(&stream, &[&whole[..], &[0]].concat()), FAILURE);
    for at in 0..whole.len() - 4 {
        let mut changed = whole.clone();
        changed[at] ^= 0x80;
        let reply = ask_on(&stream, &changed);
        // A changed message is another message.
        assert!(reply == FAILURE || reply[0] == 14, "{at}");
    }
    // Several requests before the first reply.
    (&stream).write_all(&string([11]).repeat(20)).unwrap();
    assert!((0..20).all(|_| receive(&stream)[0] == 12));
}

#[test]
fn a_key_of_another_user_is_neither_listed_nor_used() {
    if !root_or_skipped("play another user") {
        return;
    }
    let site = Site::new();
    let of = |uid: u32| Acl { uids: vec![uid], gids: vec![] };
    site.make("own", Kind::Ed25519, of(OWN));
    site.make("theirs", Kind::Ed25519, of(OTHER));
    let all = site.agent(&[]);
    let theirs = blob(&all.socket, "theirs");
    let agent = site.agent_of(OWN, &["--keys", "own,theirs"]);
    let listed = list(&agent.socket);
    assert_eq!(listed.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["own"]);
    assert_eq!(sign(&agent.socket, &theirs, 0), FAILURE);
    signature(&sign(&agent.socket, &listed[0].0, 0));
    // A right that is withdrawn is no longer the agent's.
    let acl = of(OTHER);
    site.keys(sidecore::keys::KeyCommand::SetAcl { name: "own".to_owned(), acl });
    assert_eq!(sign(&agent.socket, &listed[0].0, 0), FAILURE);
    assert_eq!(list(&agent.socket), []);
}

#[test]
fn other_users_are_turned_away_unless_they_are_named() {
    if !root_or_skipped("play another user") {
        return;
    }
    let site = Site::new();
    site.make("own", Kind::Ed25519, Acl { uids: vec![OWN], gids: vec![] });
    let user = |number: u32| format!("--reuid={number}");
    let mut agent = site.agent_of(OWN, &[]);
    // Whatever becomes of the socket's mode.
    fs::set_permissions(&agent.socket, Permissions::from_mode(0o666)).unwrap();
    let assert_listed = |agent: &Agent, number: u32, expected: bool| {
        let done = site.output(agent, "setpriv", &[&user(number), "--clear-groups", "ssh-add", "-L"], "");
        assert_eq!(done.status.success(), expected, "{number}: {done:?} {}", agent.said());
    };
    assert_listed(&agent, OWN, true);
    assert_listed(&agent, 0, true);
    assert_listed(&agent, OTHER, false);
    let said = agent.said();
    assert!(said.contains(&format!("--allow-uid {OTHER}")), "{said}");
    assert_eq!(agent.end().code(), Some(0));
    fs::remove_dir_all(site.path("own")).unwrap();
    let agent = site.agent_of(OWN, &["--allow-uid", &OTHER.to_string()]);
    fs::set_permissions(&agent.socket, Permissions::from_mode(0o666)).unwrap();
    assert_listed(&agent, OTHER, true);
    assert_listed(&agent, OTHER + 1, false);
}
