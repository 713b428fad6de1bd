//! Assignment of a socket to one of several services, and each service's removal of its own files.

use crate::common::{root_or_skipped, start};
use crate::peer::{Peer, until};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use sidecore::client::{Client, Options};
use sidecore::config::Config;
use sidecore::service::Service;
use sidecore_ipc::sys::clock;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

const ROUNDS: usize = 50;
const SERVICES: usize = 8;
/// Time for all of them to read the time of the start.
const HEAR_NS: u64 = 2_000_000;

fn at(socket: &Path) -> Config {
    Config { socket: socket.to_owned(), ..Config::default() }
}

fn refusal(socket: &Path) -> String {
    Service::start(at(socket)).unwrap_err().to_string()
}

fn beside(socket: &Path, suffix: &str) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn left(socket: &Path) -> Vec<PathBuf> {
    fs::read_dir(socket.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn of_many_services_at_one_dead_socket_exactly_one_takes_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut peers: Vec<Peer> = (0..SERVICES).map(|_| Peer::start(&["claim", socket.to_str().unwrap()])).collect();
    for peer in &mut peers {
        peer.expect("ready");
    }
    for round in 0..ROUNDS {
        drop(UnixListener::bind(&socket).unwrap());
        let time = (clock::now() + HEAR_NS).to_string();
        for peer in &mut peers {
            peer.say(&time);
        }
        let said: Vec<String> = peers.iter_mut().map(Peer::line).collect();
        let serving = said.iter().filter(|line| *line == "serving").count();
        let refused = said.iter().filter(|line| line.contains("a service answers at")).count();
        assert_eq!((serving, refused), (1, SERVICES - 1), "round {round}: {said:?}");
        assert!(Client::connect(&Options { socket: socket.clone(), ..Options::default() }).is_ok());
        // The refused ones end first, and remove none of the first one's files.
        let (mut last, mut first): (Vec<_>, Vec<_>) =
            peers.iter_mut().zip(&said).partition(|(_, line)| *line == "serving");
        for (peer, _) in &mut first {
            peer.say("end");
            peer.expect("ended");
        }
        assert!(Client::connect(&Options { socket: socket.clone(), ..Options::default() }).is_ok());
        last[0].0.say("end");
        last[0].0.expect("ended");
        assert_eq!(left(&socket), Vec::<PathBuf>::new(), "nothing is left of the one that served");
    }
}

#[test]
fn the_lock_of_a_killed_service_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    Peer::serve(&socket, "").kill();
    assert!(beside(&socket, ".lock").exists());
    let service = Service::start(at(&socket)).unwrap();
    assert!(refusal(&socket).contains("name another socket"));
    drop(service);
    assert!(left(&socket).is_empty());
}

#[test]
fn a_service_that_stops_leaves_what_another_put_in_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, lock) = (directory.path().join("socket"), directory.path().join("socket.lock"));
    let first = Service::start(at(&socket)).unwrap();
    let counters = first.counters().to_owned();
    // An operator clears the directory, and the next service starts there.
    for file in [&socket, &counters, &lock] {
        fs::remove_file(file).unwrap();
    }
    let second = Service::start(at(&socket)).unwrap();
    drop(first);
    assert!(Client::connect(&Options { socket: socket.clone(), ..Options::default() }).is_ok());
    assert!(counters.exists() && refusal(&socket).contains("a service answers at"));
    drop(second);
    assert!(left(&socket).is_empty());
}

#[test]
fn a_service_that_does_not_start_removes_no_counter_file_of_another() {
    let first = start(Config::default());
    let socket = first.socket().parent().unwrap().join("other");
    // Its counter file cannot be made: the draft's name is taken.
    let draft = beside(first.counters(), &format!(".{}.new", std::process::id()));
    fs::create_dir(&draft).unwrap();
    let config = Config { counters: Some(first.counters().to_owned()), ..at(&socket) };
    assert!(Service::start(config).is_err());
    assert!(first.counters().exists());
    assert!(!socket.exists() && !beside(&socket, ".lock").exists());
}

#[test]
fn what_others_put_in_the_place_of_the_lock_is_neither_followed_nor_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, lock) = (directory.path().join("socket"), directory.path().join("socket.lock"));
    let victim = directory.path().join("victim");
    symlink(&victim, &lock).unwrap();
    assert!(refusal(&socket).contains("no regular file: remove it"));
    assert!(!victim.exists() && !socket.exists());
    fs::remove_file(&lock).unwrap();
    mknodat(CWD, &lock, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(refusal(&socket).contains("no regular file: remove it"));
    fs::remove_file(&lock).unwrap();
    // A process that may open the lock can keep a service from starting, and the message names the lock.
    let held = File::create(&lock).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    assert!(refusal(&socket).contains("socket.lock"));
    drop(held);
    let service = Service::start(at(&socket)).unwrap();
    until("the socket is there", || socket.exists());
    drop(service);
}

#[test]
fn the_lock_is_its_users_alone_and_the_socket_has_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _service = Service::start(Config { socket_mode: 0o660, ..at(&socket) }).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&socket), mode(&beside(&socket, ".lock"))), (0o660, 0o600));
    assert_eq!(fs::metadata(&socket).unwrap().uid(), rustix::process::geteuid().as_raw());
}

#[test]
fn the_socket_has_its_mode_also_where_there_is_no_proc() {
    if !root_or_skipped("take /proc away") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut service = Peer::without_proc(&["serve", socket.to_str().unwrap(), "socket_mode = '604'"]);
    service.expect("serving");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o604);
    assert!(Client::connect(&Options { socket, ..Options::default() }).is_ok());
    service.finish();
}
