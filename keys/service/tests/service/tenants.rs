//! Time is shared by user first, whatever a user has many of: processes, lanes, or subordinate users.
//!
//! Only root can act as other users; without root these tests are reported as skipped.

use crate::busy::Busy;
use crate::common::{Running, administer, options, root_or_skipped, start};
use crate::peer::Peer;
use sidecore::client::{Client, Options};
use sidecore::config::{ClientConfig, Config, LimitsConfig};
use sidecore_counters::{LaneCounter, Snapshot};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

const OP: &str = "rsa-2048-sign";
/// Requests of the honest client, of which all others together get at most a few more.
const COUNTED: u64 = 400;
const GREEDY: u32 = 4_242;
const SUBORDINATES: &str = "4242:100000:65536";
/// The part that an honest client keeps beside one greedy user.
const LEAST: f64 = 0.45;

fn serve(config: Config) -> Running {
    let subordinate_users = Some(SUBORDINATES.parse().unwrap());
    let service = start(Config { socket_mode: 0o666, subordinate_users, ..config });
    set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o711)).unwrap();
    service
}

/// Processes that fill their rings and stop, one of each of these users.
fn fill(service: &Running, uids: impl Iterator<Item = u32>, lanes: u32) -> Vec<Peer> {
    let socket = service.socket().to_str().unwrap();
    let start = |uid: u32| Peer::start(&["fill", socket, OP, &lanes.to_string(), &uid.to_string()]);
    let mut all: Vec<Peer> = uids.map(start).collect();
    for peer in &mut all {
        peer.expect("attached");
    }
    for peer in &mut all {
        peer.say("fill");
    }
    for peer in &mut all {
        peer.expect("full");
    }
    all
}

/// Requests done for everybody else than this process.
fn of_others(service: &Running) -> u64 {
    let lanes = Snapshot::read(service.counters()).unwrap().lanes;
    let others = lanes.iter().filter(|lane| lane.pid != std::process::id());
    others.map(|lane| lane.get(LaneCounter::Done)).sum()
}

/// The part of all requests that this process gets.
fn part(service: &Running) -> f64 {
    let mut honest = Busy::new(&Options { slots: 64, ..options(service) }, OP, 100).unwrap();
    (0..50).for_each(|_| honest.step().unwrap());
    let (own, before) = (honest.done, of_others(service));
    (0..COUNTED).for_each(|_| honest.step().unwrap());
    let (own, others) = (honest.done - own, of_others(service) - before);
    let part = own as f64 / (own + others) as f64;
    println!("{own} of this client, {others} of others: {part:.3}");
    part
}

#[test]
fn however_many_processes_or_lanes_another_user_has_an_honest_client_keeps_its_half() {
    if !root_or_skipped("play another user") {
        return;
    }
    for (processes, lanes) in [(32, 1), (1, 32)] {
        let service = serve(Config::default());
        let _greedy = fill(&service, [GREEDY].into_iter().cycle().take(processes), lanes);
        let part = part(&service);
        assert!(part >= LEAST, "{processes} processes of {lanes} lanes leave it {part}");
    }
}

#[test]
fn subordinate_users_take_their_owners_share_and_no_others() {
    if !root_or_skipped("play other users") {
        return;
    }
    let service = serve(Config::default());
    let _greedy = fill(&service, [GREEDY].into_iter().chain(100_000..100_015), 1);
    let part = part(&service);
    assert!(part >= LEAST, "{part}");
}

/// Of three users one has three times the weight; a subordinate user's weight is among its owner's processes.
#[test]
fn weights_are_those_of_users_and_within_a_user_those_of_its_subordinate_users() {
    if !root_or_skipped("play other users") {
        return;
    }
    let weight =
        |uid, weight| ClientConfig { uid, weight: Some(weight), lanes: None, in_flight: None, arena_bytes: None };
    let service = serve(Config { clients: vec![weight(0, 3), weight(100_000, 4)], ..Config::default() });
    let greedy = fill(&service, [GREEDY, 100_000].into_iter(), 1);
    let of = |peer: &Peer| {
        let lanes = Snapshot::read(service.counters()).unwrap().lanes;
        let own = lanes.iter().filter(|lane| lane.pid == peer.pid());
        own.map(|lane| lane.get(LaneCounter::Done)).sum::<u64>() as f64
    };
    let before = [of(&greedy[0]), of(&greedy[1])];
    let part = part(&service);
    let done = [of(&greedy[0]) - before[0], of(&greedy[1]) - before[1]];
    assert!((0.65..0.85).contains(&part), "three to one: {part}");
    assert!((3.0..5.5).contains(&(done[1] / done[0])), "four to one: {done:?}");
}

#[test]
fn limits_of_a_user_hold_for_its_subordinate_users_and_follow_the_file_while_the_service_runs() {
    if !root_or_skipped("play other users") {
        return;
    }
    let limits = LimitsConfig { lanes_per_uid: 3, ..LimitsConfig::default() };
    let service = serve(Config { limits, ..Config::default() });
    let hoard = |uid: u32| {
        let mut peer = Peer::start(&["hoard", service.socket().to_str().unwrap(), "lanes", &uid.to_string()]);
        (peer.line(), peer)
    };
    let (said, _first) = hoard(100_000);
    assert!(said.contains("user 4242 has 3 lanes already (limits.lanes_per_uid)"), "{said}");
    for uid in [GREEDY, 165_535] {
        let (said, _) = hoard(uid);
        assert!(said.contains("user 4242 has 3 lanes already"), "{uid}: {said}");
    }
    let (said, _) = hoard(200_000);
    assert!(said.contains("user 200000 has 3 lanes already"), "{said}");
    let mut root = administer(&service);
    let (said, _other) = hoard(200_001);
    assert!(said.contains("user 200001 has 3 lanes already"), "another user: {said}");
    root.set(&format!("subordinates={SUBORDINATES},4242:300000:10")).unwrap();
    let (said, _) = hoard(300_009);
    assert!(said.contains("user 4242 has 3 lanes already"), "{said}");
    let wrong = root.set("subordinates=root:1:1").unwrap_err().to_string();
    assert!(wrong.contains("sidecore reload"), "{wrong}");
    // Whoever administers has room, whatever its subordinate users do.
    assert!(Client::connect(&options(&service)).is_ok());
}
