//! Limits of one client, and the room left for others.

use crate::busy::Busy;
use crate::common::{Running, connect, options, root_or_skipped, start};
use crate::load::Load;
use crate::peer::Peer;
use sidecore::client::{Client, Error, Options, Request};
use sidecore::config::{ClientConfig, Config, DeviceConfig, LimitsConfig};
use sidecore::core::policy::balance::Balance;
use sidecore::core::session::{Class, Op};
use sidecore::core::wire::Status;
use sidecore::engine::crypto::sample::sample;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

const COUNTED: u64 = 1500;
const NOBODY: u32 = 65_534;

fn limited(limits: LimitsConfig) -> Running {
    start(Config { limits, ..Config::default() })
}

fn refusal(result: Result<Client, impl ToString>) -> String {
    result.map(|_| "attached").expect_err("a refusal").to_string()
}

#[test]
fn lanes_of_a_client_are_limited() {
    let service = limited(LimitsConfig { lanes_per_client: 2, ..LimitsConfig::default() });
    let (first, _second) = (connect(&service), connect(&service));
    let message = refusal(Client::connect(&options(&service)));
    assert!(message.contains("2 lanes already (limits.lanes_per_client)"), "{message}");
    drop(first);
    crate::peer::until("the lane is free again", || Client::connect(&options(&service)).is_ok());
}

#[test]
fn lanes_of_all_are_limited() {
    let service = limited(LimitsConfig { lanes: 1, ..LimitsConfig::default() });
    let _only = connect(&service);
    let message = refusal(Client::connect(&options(&service)));
    assert!(message.contains("limits.lanes allows"), "{message}");
}

#[test]
fn clients_of_a_user_are_limited() {
    let service = limited(LimitsConfig { clients_per_uid: 1, ..LimitsConfig::default() });
    let other = || Peer::start(&["connect", service.socket().to_str().unwrap()]).finish();
    assert_eq!(other(), ["attached"]);
    let _one = connect_when_free(&service);
    let lines = other();
    assert!(lines[0].contains("1 clients already (limits.clients_per_uid)"), "{lines:?}");
}

fn reclaimable(limits: LimitsConfig) -> (Running, Client) {
    let service = limited(limits);
    let client = Client::connect(&Options { reclaimable: true, ..options(&service) }).unwrap();
    (service, client)
}

#[test]
fn an_idle_lane_is_taken_back_for_another_process_of_its_user() {
    let of_processes = LimitsConfig { clients_per_uid: 1, ..LimitsConfig::default() };
    let of_lanes = LimitsConfig { lanes_per_uid: 1, ..LimitsConfig::default() };
    let of_bytes = LimitsConfig { lane_bytes_per_uid: 6 << 20, ..LimitsConfig::default() };
    for limits in [of_processes, of_lanes, of_bytes] {
        let (service, mut idle) = reclaimable(limits);
        let session = idle.open_session(&sample(Class::NOOP, 0, 0).spec).unwrap();
        idle.call(session, Op::Noop, 0, &[], 0).unwrap();
        let other = Peer::start(&["connect", service.socket().to_str().unwrap()]).finish();
        assert_eq!(other, ["attached"]);
        let error = idle.call(session, Op::Noop, 0, &[], 0).unwrap_err();
        assert!(error.to_string().contains("another process of this user needs a lane"), "{error}");
    }
}

#[test]
fn a_user_that_takes_all_lanes_that_there_are_gets_no_idle_one_of_another() {
    if !root_or_skipped("be another user") {
        return;
    }
    let limits = LimitsConfig { lanes: 3, ..LimitsConfig::default() };
    let service = start(Config { limits, socket_mode: 0o666, ..Config::default() });
    let mut mine = Client::connect(&Options { reclaimable: true, ..options(&service) }).unwrap();
    set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let session = mine.open_session(&sample(Class::NOOP, 0, 0).spec).unwrap();
    let mut greedy = Peer::start(&["hoard", service.socket().to_str().unwrap(), "lanes", &NOBODY.to_string()]);
    let refused = greedy.line();
    assert!(refused.contains("limits.lanes allows"), "{refused}");
    mine.call(session, Op::Noop, 0, &[], 0).unwrap();
}

fn connect_when_free(service: &Running) -> Client {
    let mut client = None;
    crate::peer::until("the client is forgotten", || {
        client = Client::connect(&options(service)).ok();
        client.is_some()
    });
    client.unwrap()
}

#[test]
fn the_shape_of_a_lane_is_limited() {
    let limits = LimitsConfig { slots_per_lane: 64, arena_bytes_per_client: 3 << 20, ..LimitsConfig::default() };
    let service = limited(limits);
    let with = |slots, arena_bytes| Client::connect(&Options { slots, arena_bytes, ..options(&service) });
    let message = refusal(with(128, 4096));
    assert!(message.contains("use up to 64 (limits.slots_per_lane)"), "{message}");
    let _first = with(64, 2 << 20).unwrap();
    let message = refusal(with(64, 2 << 20));
    assert!(message.contains("1048576 are left (limits.arena_bytes_per_client)"), "{message}");
    assert!(with(64, 1 << 20).is_ok());
}

#[test]
fn sessions_of_a_lane_are_limited() {
    let service = limited(LimitsConfig { sessions_per_lane: 3, ..LimitsConfig::default() });
    let mut client = connect(&service);
    let spec = sample(Class::NOOP, 0, 0).spec;
    let sessions = [(); 3].map(|()| client.open_session(&spec).unwrap());
    match client.open_session(&spec) {
        Err(Error::Service(message)) => assert!(message.contains("3 sessions already (limits.sessions_per_lane)")),
        other => panic!("{other:?}"),
    }
    client.close_session(sessions[1]).unwrap();
    assert!(client.open_session(&spec).is_ok());
}

/// With two in flight of three the rest waits in the ring, its payload unread: it can still be changed.
#[test]
fn requests_beyond_the_limit_in_flight_are_held() {
    let slow = DeviceConfig::emulated("slow", 100_000_000, 0.0);
    let limits = LimitsConfig { in_flight_per_client: 2, ..LimitsConfig::default() };
    let service = start(Config { devices: vec![slow], limits, ..Config::default() });
    let mut client = connect(&service);
    let session = client.open_session(&sample(Class::from_name("sha-256").unwrap(), 0, 0).spec).unwrap();
    let buffers = [(); 8].map(|()| (client.alloc(64).unwrap(), client.alloc(64).unwrap()));
    for (tag, (input, output)) in buffers.iter().enumerate() {
        client.write(input, 0, &[1; 64]).unwrap();
        let (inputs, outputs) = ([input.extent()], [output.extent()]);
        let request =
            Request { session, op: Op::Digest, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: false };
        client.submit(tag as u32, &request).unwrap();
    }
    client.ring();
    assert_eq!(client.wait().unwrap().tag, 0);
    client.write(&buffers[7].0, 0, &[2; 64]).unwrap();
    for tag in 1..8 {
        let received = client.wait().unwrap();
        assert_eq!((received.tag, received.status), (tag, Status::Done { len: 32 }));
    }
    let mut digests = [[0; 32]; 2];
    client.read(&buffers[0].1, 0, &mut digests[0]).unwrap();
    client.read(&buffers[7].1, 0, &mut digests[1]).unwrap();
    assert_ne!(digests[0], digests[1], "the last request was read before there was room for it");
}

fn shares(service: &Running, op: &str, size: usize, mut rival: Peer) -> (u64, Vec<u64>) {
    rival.expect("busy");
    let counts = |rival: &mut Peer| {
        rival.say("how many?");
        rival.line().split(' ').map(|count| count.parse().unwrap()).collect::<Vec<u64>>()
    };
    let mut modest = Busy::new(&Options { slots: 64, ..options(service) }, op, size).unwrap();
    (0..100).for_each(|_| modest.step().unwrap());
    let (own, before) = (modest.done, counts(&mut rival));
    (0..COUNTED).for_each(|_| modest.step().unwrap());
    let done = counts(&mut rival).iter().zip(before).map(|(after, before)| after - before).collect();
    (modest.done - own, done)
}

fn greedy(service: &Running, op: &str, size: usize, uid: u32) -> Peer {
    let (socket, size, uid) = (service.socket().to_str().unwrap(), size.to_string(), uid.to_string());
    Peer::start(&["greedy", socket, op, &size, "8", &uid])
}

fn part(own: u64, others: &[u64]) -> f64 {
    let share = own as f64 / (own + others.iter().sum::<u64>()) as f64;
    println!("{own} of this client, {others:?} of the other: {share:.3}");
    share
}

fn check_equal_shares(devices: Vec<DeviceConfig>, op: &str, size: usize) {
    check_share(Config { devices, ..Config::default() }, (op, size), 0.4);
}

fn check_share(config: Config, (op, size): (&str, usize), least: f64) {
    let service = start(config);
    let rival = greedy(&service, op, size, 0);
    let (own, others) = shares(&service, op, size, rival);
    assert!(part(own, &others) >= least);
    assert!(others.iter().all(|lane| *lane > 0), "no lane of a client starves another of it");
}

#[test]
fn eight_full_lanes_do_not_starve_one() {
    check_equal_shares(vec![DeviceConfig::inline("inline")], "rsa-2048-sign", 100);
}

#[test]
fn eight_full_lanes_do_not_starve_one_on_a_full_worker() {
    check_equal_shares(vec![DeviceConfig::worker("worker", None, false)], "rsa-2048-sign", 100);
}

#[test]
fn eight_full_lanes_do_not_starve_one_on_a_full_card() {
    let card = DeviceConfig { depth: Some(8), ..DeviceConfig::emulated("card", 500_000, 0.0) };
    check_equal_shares(vec![card], "sha-256", 100);
}

/// Requests wait for such cards in the sidecore, where those of eight lanes arrived first. With a second card the
/// modest client gets at least half of one card.
#[test]
fn eight_full_lanes_do_not_starve_one_where_requests_wait_for_the_best_card() {
    let card = |name: &str| DeviceConfig { depth: Some(8), ..DeviceConfig::emulated(name, 500_000, 0.0) };
    let priced = |devices| Config { devices, balance: Balance::Priced, ..Config::default() };
    check_share(priced(vec![card("a")]), ("sha-256", 100), 0.4);
    check_share(priced(vec![card("a"), card("b")]), ("sha-256", 100), 0.2);
}

#[test]
fn lanes_of_a_client_take_turns_though_each_asks_again_at_once() {
    const LANES: usize = 8;
    const TOTAL: u32 = 2000;
    // A signature takes longer than a share of one round: the first lane to ask would always be the first again.
    let service = start(Config::default());
    let (served, all) = (AtomicU32::new(0), Barrier::new(LANES));
    let shares: Vec<u32> = thread::scope(|scope| {
        let lane = || {
            let mut load = Load::new(connect(&service), "rsa-1024-sign", 32, 1, false);
            // Otherwise the first to connect might finish before the last one begins.
            all.wait();
            while served.fetch_add(1, Ordering::Relaxed) < TOTAL {
                load.run(1);
            }
            load.tally.done
        };
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    assert!(shares.iter().all(|share| *share > TOTAL / LANES as u32 / 5), "{shares:?}");
}

#[test]
fn a_client_cannot_make_its_work_look_cheap() {
    let service = start(Config::default());
    let rival = Peer::start(&["cheat", service.socket().to_str().unwrap()]);
    let (own, others) = shares(&service, "rsa-2048-sign", 100, rival);
    assert!(part(own, &others) >= 0.4);
}

/// Shares are by user, so this needs the right to become another one.
#[test]
fn weights_divide_the_work() {
    if !root_or_skipped("play two users") {
        return;
    }
    let heavy = ClientConfig { uid: 0, weight: Some(3), lanes: None, in_flight: None, arena_bytes: None };
    let service = start(Config { socket_mode: 0o666, clients: vec![heavy], ..Config::default() });
    set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o711)).unwrap();
    let rival = greedy(&service, "rsa-2048-sign", 100, NOBODY);
    let (own, others) = shares(&service, "rsa-2048-sign", 100, rival);
    let share = part(own, &others);
    assert!((0.65..0.85).contains(&share), "3 to 1");
}
