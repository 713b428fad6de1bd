//! Clients that try to use up the service, and a neighbour with modest use.
//!
//! Only root can act as other users; without root the tests that need them are reported as skipped.

use crate::common::root_or_skipped;
use crate::peer::{Held, Peer, until};
use rustix::process::geteuid;
use sidecore::client::{Admin, Client, Options};
use sidecore::engine::crypto::Secret;
use sidecore::keys::{Acl, KeyCommand};
use sidecore_testing::{go_on, stop};
use std::fs::{self, Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const EC: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-p-256.pkcs8.der");
const USER: &str = "64011";
const OTHER: &str = "64012";
/// Half the closing time of an attacker's socket, and far longer than any other step.
const LONG: Duration = Duration::from_secs(30);

struct Site {
    service: Option<Peer>,
    directory: TempDir,
}

impl Site {
    fn new(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let service = Peer::serve(&directory.path().join("socket"), &format!("socket_mode = '666'\n{config}"));
        Self { service: Some(service), directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn peer(&self, part: &str, more: &[&str]) -> Peer {
        let path = self.path();
        Peer::start(&[&[part, path.to_str().unwrap()], more].concat())
    }

    fn neighbour(&self, uid: &str) -> Peer {
        let mut peer = self.peer("neighbour", &[uid]);
        peer.expect("ready");
        peer
    }

    fn options(&self) -> Options {
        Options { socket: self.path(), ..Options::default() }
    }

    fn pid(&self) -> u32 {
        self.service.as_ref().unwrap().pid()
    }

    fn end(mut self) {
        self.service.take().unwrap().finish();
    }
}

fn is_root() -> bool {
    root_or_skipped("play another user")
}

fn sign(neighbour: &mut Peer) {
    neighbour.say("go");
    neighbour.expect("signed");
}

#[test]
fn descriptors_that_take_long_to_close_keep_nobody_waiting() {
    let site = Site::new("");
    let mut neighbour = site.neighbour(&geteuid().as_raw().to_string());
    sign(&mut neighbour);
    let start = Instant::now();
    let mut attacker = site.peer("linger", &[]);
    println!("{}", attacker.line());
    for _ in 0..10 {
        sign(&mut neighbour);
    }
    attacker.kill();
    for _ in 0..10 {
        sign(&mut neighbour);
    }
    site.end();
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
}

/// Before Linux 6.16 each declined connection may bring a socket that takes a minute to close.
#[test]
fn connections_that_are_declined_take_no_descriptor_from_root() {
    const DESCRIPTORS: usize = 256;
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("socket");
    let socket = path.to_str().unwrap();
    let mut service = Peer::start(&["serve-older", &DESCRIPTORS.to_string(), socket, "socket_mode = '666'"]);
    service.expect("serving");
    // All connections wait before the first is accepted.
    stop(service.pid());
    let mut attacker = Peer::start(&["besiege", socket, "400", USER]);
    attacker.expect("besieged by 400");
    go_on(service.pid());
    let mut root = Peer::start(&["neighbour", socket, "0"]);
    root.expect("ready");
    until("root is served", || {
        root.say("go");
        root.line() == "signed"
    });
    // One process may have 64 connections without a lane, which count until they are closed.
    until("what was declined is closed", || Held::by(service.pid()).descriptors < DESCRIPTORS / 2);
    attacker.kill();
    service.finish();
}

/// A process's number is reused by another one before the service learns of the first one's end.
#[test]
fn a_process_whose_number_was_anothers_keeps_its_connections() {
    const ATTEMPTS: u32 = 200;
    if !is_root() {
        return;
    }
    let site = Site::new("");
    let mut first = site.peer("load", &["1"]);
    first.expect("loading");
    let number = first.pid();
    stop(site.pid());
    // The service sees the listening socket first: it accepts all waiting connections before the end.
    let mut early = site.neighbour("0");
    early.say("go");
    until("the first connects", || waits_for(early.pid()));
    first.kill();
    let mut second = None;
    for _ in 0..ATTEMPTS {
        fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).unwrap();
        let next = site.neighbour("0");
        if next.pid() == number {
            second = Some(next);
            break;
        }
    }
    let mut second = second.expect("the number is free");
    second.say("go");
    until("the second connects", || waits_for(number));
    go_on(site.pid());
    early.expect("signed");
    second.expect("signed");
    site.end();
}

fn waits_for(pid: u32) -> bool {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let sleeps = stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('S'));
    sleeps && fds.into_iter().any(|fd| fd.to_string_lossy().starts_with("socket:"))
}

#[test]
fn one_user_at_its_limits_keeps_no_other_waiting() {
    const ROUNDS: u64 = 40;
    if !is_root() {
        return;
    }
    let site = Site::new("");
    let mut neighbour = site.neighbour(OTHER);
    let mut throng = site.peer("throng", &["1000", USER]);
    throng.expect("thronging");
    let mut answers = || {
        throng.say("how many");
        throng.line().parse::<u64>().unwrap()
    };
    // Until the load has started.
    until("the throng is served", || answers() > 100);
    let before = answers();
    let mut took: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            sign(&mut neighbour);
            start.elapsed()
        })
        .collect();
    let meanwhile = (answers() - before) / ROUNDS;
    took.sort_unstable();
    println!("attached and signed in {:?}, {:?} at most; {meanwhile} answers to others meanwhile", took[20], took[39]);
    // A thousand asked before; served in order of messages, all of them would be answered first.
    assert!(meanwhile < 200, "{meanwhile} answers");
    assert!(answers() > before, "the throng is served as well");
}

/// Number of a user's connections for each one made here meanwhile, in a quarter of the rounds at most: other load of this
/// machine lengthens some, and a queue before ours all.
fn churned(churner: &mut Peer, mut attach: impl FnMut()) -> u64 {
    const ROUNDS: usize = 41;
    let mut connections = || {
        churner.say("how many");
        churner.line().parse::<u64>().unwrap()
    };
    // Until the kernel's queue is full, if it can be filled.
    until("it is under way", || connections() > 10_000);
    let mut meanwhile: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let before = connections();
            attach();
            connections() - before
        })
        .collect();
    meanwhile.sort_unstable();
    println!("{} connections of another meanwhile, {} at most", meanwhile[ROUNDS / 4], meanwhile[ROUNDS - 1]);
    meanwhile[ROUNDS / 4]
}

#[test]
fn connections_that_are_dropped_without_end_keep_no_other_user_waiting() {
    if !is_root() {
        return;
    }
    let site = Site::new("");
    let mut neighbour = site.neighbour(OTHER);
    for what in ["nothing", "lane"] {
        let mut churner = site.peer("churn", &[what, USER]);
        churner.expect("churning");
        // The kernel's queue alone holds a thousand.
        let meanwhile = churned(&mut churner, || sign(&mut neighbour));
        assert!(meanwhile < 200, "{what}: {meanwhile} connections");
        churner.kill();
    }
    site.end();
}

#[test]
fn users_that_take_all_lanes_leave_some_for_administration() {
    if !is_root() {
        return;
    }
    let site = Site::new("[limits]\nlanes = 128\nlanes_per_uid = 100");
    let hoard = |uid| {
        let mut peer = site.peer("hoard", &["lanes", uid]);
        let reason = peer.line();
        (peer, reason)
    };
    let (_one, reason) = hoard(USER);
    assert!(reason.contains("user 64011 has 100 lanes already (limits.lanes_per_uid)"), "{reason}");
    let (_two, reason) = hoard(OTHER);
    assert!(reason.contains("limits.lanes allows"), "{reason}");
    let mut admin = Admin::connect(&site.options()).unwrap();
    let import = KeyCommand::Import { name: "www".to_owned(), pkcs8: Secret::from(EC), acl: Acl::default() };
    admin.keys(import).unwrap();
    admin.keys(KeyCommand::Delete { name: "www".to_owned() }).unwrap();
    admin.set("notify=park").unwrap();
    assert!(Client::connect(&site.options()).is_ok());
}

/// Memory of a process that is not shared, bytes.
fn private_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn sessions_are_limited_in_bytes_and_their_memory_comes_back() {
    const MIB: u64 = 1 << 20;
    let site = Site::new("[limits]\nsession_bytes_per_client = 33554432");
    let before = private_bytes(site.pid());
    let mut hoarder = site.peer("hoard", &["sessions", &geteuid().as_raw().to_string()]);
    let reason = hoarder.line();
    assert!(reason.contains("limits.session_bytes_per_client"), "{reason}");
    let full = private_bytes(site.pid());
    hoarder.finish();
    until("memory is given back", || private_bytes(site.pid()) < before + 3 * MIB);
    println!(
        "{} MiB taken, {} MiB left",
        (full - before) / MIB,
        private_bytes(site.pid()).saturating_sub(before) / MIB
    );
    assert!((6 * MIB..40 * MIB).contains(&(full - before)), "{before} {full}");
}

/// CPU time of a process's threads that serve all users, in clock ticks of 10 ms.
fn serving_ticks(pid: u32) -> u64 {
    let ticks = |stat: String| {
        let (name, fields) = stat.rsplit_once(')')?;
        let serves = name.contains("(sidecore-0") || name.contains("(sidecore-contro");
        let fields = fields.split_whitespace().skip(11).take(2);
        serves.then(|| fields.map(|field| field.parse::<u64>().unwrap()).sum::<u64>())
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats.filter_map(ticks).sum()
}

#[test]
fn a_large_lane_is_unmapped_by_nobody_who_serves() {
    const ARENA: u32 = 256 << 20;
    let site = Site::new("");
    let mut spent = Vec::new();
    for _ in 0..4 {
        let mut client = None;
        until("there is room for the lane", || {
            client = Client::connect(&Options { slots: 2, arena_bytes: ARENA, ..site.options() }).ok();
            client.is_some()
        });
        let mut client = client.unwrap();
        let buffer = client.alloc(ARENA / 8 * 7).unwrap();
        let page = vec![1; 1 << 20];
        (0..buffer.extent().len >> 20).for_each(|mib| client.write(&buffer, mib << 20, &page).unwrap());
        let before = serving_ticks(site.pid());
        drop(client);
        until("the lane is gone", || Held::by(site.pid()).lanes == 0);
        spent.push(serving_ticks(site.pid()) - before);
    }
    println!("{spent:?} ticks");
    assert!(spent.iter().sum::<u64>() <= 8, "{spent:?} ticks for closing");
}

#[test]
fn a_client_that_the_service_cannot_see_hears_so() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut service = Peer::apart(&["serve", socket.to_str().unwrap(), ""]);
    service.expect("serving");
    let reason = Client::connect(&Options { socket, ..Options::default() }).unwrap_err().to_string();
    assert!(reason.contains("another PID namespace"), "{reason}");
}

#[test]
fn what_is_inherited_or_was_roots_once_gives_no_right() {
    if !is_root() {
        return;
    }
    let site = Site::new("");
    let mut heir = site.peer("inherit", &[]);
    let heard = [(); 4].map(|()| heir.line());
    assert!(heard[0].contains("a connection that has a lane cannot see and change the keys"), "{heard:?}");
    assert!(heard[1].contains("speaks on a connection of process"), "{heard:?}");
    assert_eq!(heard[2], "listed");
    assert!(heard[3].contains("user 65534 speaks on a connection of user 0"), "{heard:?}");
}
