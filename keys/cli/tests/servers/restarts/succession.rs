//! A service takes the place of another, which serves until the next one can: by real processes, which die at each step.

use super::{asked, loaded, no_handshake_is_lost};
use crate::guides::{Step, follow_steps, page, steps};
use crate::programs::{BOUND, is_root, run, send, wait_for};
use crate::secrets::directory;
use crate::server::WORKER;
use crate::service::{Service, uid_of};
use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use rustix::process::Signal;
use sidecore::client::Error;
use sidecore::control::{self, RefusalCode, Refused, Reply, Request, Succession};
use sidecore::keys::{Acl, KeyCommand, Kind as KeyKind};
use sidecore_counters::{Snapshot, counters_beside};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Restarts if `SIDECORE_RESTARTS` names no other number, and threads that load all cores meanwhile.
const RESTARTS: u32 = 5;
const LOAD: u32 = 8;
/// Services that are killed, each a little later than the one before.
const KILLED: u32 = 12;

/// The full test, on a machine that is loaded as much as in the field: `SIDECORE_RESTARTS=100 SIDECORE_LOAD=45 cargo test
/// -p sidecore-cli --test servers -- succession::no_handshake`.
#[test]
fn no_handshake_fails_while_the_next_service_takes_the_place_on_a_loaded_machine() {
    let directory = directory();
    let mut service = Service::keeping_keys(directory.path());
    let times = asked("SIDECORE_RESTARTS");
    let load = times.map_or(LOAD, |_| loaded());
    no_handshake_is_lost(directory.path(), &mut service, load, times.unwrap_or(RESTARTS), Service::hand_over);
}

#[test]
fn the_next_service_becomes_the_managers_main_process_and_has_the_keys_made_until_then() {
    let directory = directory();
    let mut service = Service::managed(directory.path());
    for round in 0..3 {
        let name = format!("key-{round}");
        generate(&service, &name).unwrap();
        let former = service.pid();
        service.hand_over();
        assert_ne!(service.pid(), former);
        assert_eq!(service.main(), Some(service.pid()));
        assert!(service.log().contains("the former service hands over and ends"), "{}", service.log());
        assert!(Service::admin(service.socket()).key_info(&name).is_ok());
        let counted = Snapshot::read(&counters_beside(&service.socket())).unwrap();
        assert_eq!(counted.start.pid, service.pid(), "the counters are those of the next service");
    }
    // Its manager holds the same socket still.
    service.stop();
    assert!(service.socket().exists());
    service.run();
}

/// What the next service does, step by step, and with its death after each.
#[test]
fn a_service_whose_successor_dies_at_any_step_goes_on_and_changes_keys_again() {
    let directory = directory();
    let mut service = Service::keeping_keys(directory.path());
    let pid = service.pid();
    for steps in [&[Succession::Keys][..], &[Succession::Keys, Succession::Socket]] {
        let next = connected(&service.socket());
        let mut given = Vec::new();
        for step in steps {
            let (reply, descriptors) = ask(&next, *step);
            assert!(matches!(reply, Reply::Done | Reply::Socket), "{reply:?}");
            given.extend(descriptors);
        }
        if steps.len() == 1 {
            let refused = generate(&service, "meanwhile").unwrap_err().to_string();
            assert!(refused.contains("another service is taking this one's place"), "{refused}");
        } else {
            assert_eq!(given.len(), 2, "the socket and the lock");
        }
        drop((next, given));
        let name = format!("after-{}", steps.len());
        assert!(wait_for(BOUND, || generate(&service, &name).is_ok()), "{}", service.log());
        assert_eq!(service.pid(), pid);
        assert!(service.daemon().lives());
    }
    service.hand_over();
    for name in ["after-1", "after-2"] {
        assert!(Service::admin(service.socket()).key_info(name).is_ok(), "{name}");
    }
}

/// A process that holds the lock may write. The former service does not, until the kernel gives it the lock back.
#[test]
fn a_service_that_gave_the_keys_away_writes_none_while_another_process_has_their_lock() {
    let directory = directory();
    let mut service = Service::keeping_keys(directory.path());
    let next = connected(&service.socket());
    assert!(matches!(ask(&next, Succession::Keys).0, Reply::Done));
    let keys = File::open(directory.path().join("keys")).unwrap();
    flock(&keys, FlockOperation::NonBlockingLockExclusive).unwrap();
    drop(next);
    thread::sleep(Duration::from_secs(1));
    assert!(generate(&service, "other").is_err(), "two writers");
    // That process changes keys and ends: those of the service are out of date.
    let master = directory.path().join("keys/master");
    let mut bytes = fs::read(&master).unwrap();
    bytes.push(0);
    fs::write(&master, bytes).unwrap();
    drop(keys);
    let daemon = service.daemon();
    assert!(wait_for(BOUND, || !daemon.lives()), "{}", daemon.log());
    assert!(!daemon.status().unwrap().success(), "its manager is to start it again");
    assert!(daemon.log().contains("the keys are not as they were"), "{}", daemon.log());
}

#[test]
fn a_next_service_that_is_killed_at_any_time_leaves_one_service_that_serves_and_changes_keys() {
    let directory = directory();
    let mut service = Service::keeping_keys(directory.path());
    for round in 0..KILLED {
        let mut next = service.begin_next();
        thread::sleep(Duration::from_millis(u64::from(round) * 25));
        next.kill();
        let has_ended = |service: &mut Service| !service.daemon().lives();
        // One that had let the former service end has taken the place with it.
        if next.log().contains("the former service hands over")
            && wait_for(Duration::from_secs(2), || has_ended(&mut service))
        {
            service.run();
        }
        let name = format!("round-{round}");
        assert!(wait_for(BOUND, || generate(&service, &name).is_ok()), "round {round}\n{}", service.log());
        assert!(service.daemon().lives());
    }
    service.hand_over();
    for round in 0..KILLED {
        assert!(Service::admin(service.socket()).key_info(&format!("round-{round}")).is_ok(), "round {round}");
    }
}

#[test]
fn a_next_service_that_cannot_start_leaves_the_present_one_as_it_was() {
    let directory = directory();
    let mut service = Service::keeping_keys(directory.path());
    let passphrase = directory.path().join("passphrase");
    let right = fs::read(&passphrase).unwrap();
    fs::write(&passphrase, "not that one\n").unwrap();
    let mut next = service.begin_next();
    assert!(wait_for(BOUND, || !next.lives()), "{}", next.log());
    assert!(!next.status().unwrap().success() && next.log().contains("passphrase"), "{}", next.log());
    fs::write(&passphrase, right).unwrap();
    assert!(wait_for(BOUND, || generate(&service, "www").is_ok()), "{}", service.log());
    service.hand_over();
}

#[test]
fn no_other_user_makes_a_service_hand_over_or_end() {
    assert!(is_root(), "another user's process is made by root");
    let directory = directory();
    let mut service = Service::keeping_keys(directory.path());
    let mut other = Command::new(env!("CARGO_BIN_EXE_sidecore"));
    other
        .args(["serve", "--take-over", "--detach", "--socket"])
        .arg(service.socket())
        .uid(uid_of(WORKER))
        .gid(uid_of(WORKER));
    let done = run(&mut other);
    assert!(!done.ok() && done.stderr.contains("only root and the service's own user may take the place"), "{done:?}");
    // Nor does the right user with the wrong step, or in the middle of another succession.
    let next = connected(&service.socket());
    for early in [Succession::End, Succession::Socket] {
        assert!(matches!(ask(&next, early).0, Reply::Refused(_)), "{early:?}");
    }
    assert!(matches!(ask(&next, Succession::Keys).0, Reply::Done));
    let second = connected(&service.socket());
    for step in [Succession::Keys, Succession::Socket, Succession::End] {
        let (reply, given) = ask(&second, step);
        assert!(matches!(reply, Reply::Refused(_)) && given.is_empty(), "{step:?}: {reply:?}");
    }
    drop((next, second));
    assert!(wait_for(BOUND, || generate(&service, "www").is_ok()), "{}", service.log());
    assert!(service.daemon().lives());
}

#[test]
fn a_command_returns_when_the_next_service_serves_and_says_its_process() {
    let directory = directory();
    let mut service = Service::keeping_keys(directory.path());
    let detached = |service: &Service| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
        run(command.args(["serve", "--take-over", "--detach", "--config"]).arg(service.configuration()))
    };
    let done = detached(&service);
    let pid: u32 = done.stdout.trim().parse().unwrap_or_else(|_| panic!("{done:?}"));
    scopeguard::defer!(send(pid, Signal::TERM));
    assert!(done.ok(), "{done:?}");
    assert!(!service.daemon().lives(), "the former one has ended before the command returned");
    generate(&service, "www").unwrap();
    // One that fails says why, and the present one goes on.
    fs::write(directory.path().join("passphrase"), "not that one\n").unwrap();
    let done = detached(&service);
    assert!(!done.ok() && done.stdout.is_empty() && done.stderr.contains("passphrase"), "{done:?}");
    assert!(wait_for(BOUND, || generate(&service, "after").is_ok()));
}

/// A version before this answers the request as one that it does not know. A script stops it then.
#[test]
fn a_service_of_an_older_version_is_left_alone_and_told_by_the_exit_code() {
    let directory = directory();
    let path = directory.path().join("old");
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&socket, 1).unwrap();
    let old = thread::spawn(move || {
        let client = rustix::net::accept(&socket).unwrap();
        let (asked, _) = control::receive::<Request>(&client).unwrap();
        assert_eq!(asked, Request::Succeed(Succession::Keys));
        control::send(&client, &Reply::Refused(Refused::new(RefusalCode::UnknownRequest, "it is older")), &[]).unwrap();
        let end = control::receive::<Request>(&client).unwrap_err();
        assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof, "nothing else is asked of it");
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore"));
    let done = run(command.args(["serve", "--take-over", "--detach", "--socket"]).arg(&path));
    old.join().unwrap();
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    assert!(done.stderr.contains("of an older version and cannot hand over: stop it, then start this one"), "{done:?}");
}

/// By systemd itself: a reload starts the next service beside the present one, in its unit.
#[test]
fn a_reload_under_systemd_is_a_restart_without_a_gap() {
    let mut all = steps(&page("install.md"));
    all.push(Step::Do(include_str!("reload-steps.sh").to_owned()));
    let followed = follow_steps(&all);
    assert!(followed.said.contains("reloaded three times, no signature was lost"), "{}", followed.said);
}

fn generate(service: &Service, name: &str) -> Result<(), Error> {
    let (name, acl) = (name.to_owned(), Acl::default());
    Service::admin(service.socket()).keys(KeyCommand::Generate { name, kind: KeyKind::P256, acl }).map(drop)
}

fn ask(service: &OwnedFd, step: Succession) -> (Reply, Vec<OwnedFd>) {
    control::send(service, &Request::Succeed(step), &[]).unwrap();
    control::receive(service).unwrap()
}

/// It waits for each answer.
fn connected(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}
