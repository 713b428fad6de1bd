//! Use of limits in the counter file: it follows what the service would refuse next.

use crate::common::{Running, administer, connect, options, root_or_skipped, start};
use crate::peer::{Peer, until};
use sidecore::client::{Client, Options, Request};
use sidecore::config::{ClientConfig, Config, CreatorsConfig, DeviceConfig, KeysConfig, LimitsConfig};
use sidecore::core::session::{Class, Op};
use sidecore::engine::crypto::sample::sample;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_counters::{KeyCounter, Limit, LimitUse, Snapshot};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

const GROUP: u32 = 64_100;

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn seen(service: &Running, limit: Limit) -> Option<LimitUse> {
    Snapshot::read(service.counters()).unwrap().limit(limit).copied()
}

/// Waits until the file has this use of the limit.
fn expect(service: &Running, limit: Limit, used: u64, most: u64, uid: Option<u32>) {
    let expected = LimitUse { limit, used, most, uid };
    until(&format!("{expected:?}"), || seen(service, limit) == Some(expected));
}

#[test]
fn lanes_sessions_and_keys_are_counted_against_their_limits_as_they_come_and_go() {
    let limits = LimitsConfig { keys: 8, sessions_per_lane: 10, lanes_per_client: 4, ..LimitsConfig::default() };
    let service = start(Config { limits, ..Config::default() });
    expect(&service, Limit::Lanes, 0, 2048, None);
    expect(&service, Limit::Keys, 0, 8, None);
    let (mut first, second) = (connect(&service), connect(&service));
    for (limit, used, most) in [
        (Limit::LanesPerClient, 2, 4),
        (Limit::LanesPerUid, 2, 1024),
        (Limit::ClientsPerUid, 1, 256),
        (Limit::SessionsPerLane, 0, 10),
    ] {
        expect(&service, limit, used, most, Some(me()));
    }
    expect(&service, Limit::Lanes, 2, 2048, None);
    let bytes = seen(&service, Limit::LaneBytesPerUid).unwrap();
    assert!(bytes.used > 0 && seen(&service, Limit::ArenaBytesPerClient).unwrap().used < bytes.used);
    for _ in 0..3 {
        first.open_session(&sample(Class::NOOP, 0, 0).spec).unwrap();
    }
    first.open_session(&sample(Class::from_name("rsa-2048-sign").unwrap(), 32, 0).spec).unwrap();
    expect(&service, Limit::SessionsPerLane, 4, 10, Some(me()));
    until("bytes of sessions", || seen(&service, Limit::SessionBytesPerUid).is_some_and(|of| of.used > 0));
    drop(second);
    expect(&service, Limit::LanesPerClient, 1, 4, Some(me()));
    let mut admin = administer(&service);
    admin.set("limits.lanes_per_client=1").unwrap();
    expect(&service, Limit::LanesPerClient, 1, 1, Some(me()));
    for name in ["a", "b"] {
        let (name, kind, acl) = (name.to_owned(), Kind::Ed25519, Acl::default());
        admin.keys(KeyCommand::Generate { name, kind, acl }).unwrap();
    }
    expect(&service, Limit::Keys, 2, 8, None);
    admin.keys(KeyCommand::Delete { name: "a".to_owned() }).unwrap();
    expect(&service, Limit::Keys, 1, 8, None);
}

#[test]
fn a_keys_own_limit_is_beside_its_counts_until_it_has_none() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    let (name, kind, acl) = ("a".to_owned(), Kind::Ed25519, Acl::default());
    admin.keys(KeyCommand::Generate { name, kind, acl }).unwrap();
    let limit = || Snapshot::read(service.counters()).unwrap().keys[0].get(KeyCounter::Limit);
    for rate in [Some(50), None] {
        admin.keys(KeyCommand::SetRate { name: "a".to_owned(), rate }).unwrap();
        until("the limit is in the file", || limit() == u64::from(rate.unwrap_or(0)));
    }
}

#[test]
fn requests_in_flight_are_counted_against_their_limits() {
    let slow = DeviceConfig::emulated("slow", 400_000_000, 0.0);
    let limits = LimitsConfig { in_flight_per_client: 2, ..LimitsConfig::default() };
    let service = start(Config { devices: vec![slow], limits, ..Config::default() });
    let mut client = connect(&service);
    let session = client.open_session(&sample(Class::from_name("sha-256").unwrap(), 0, 0).spec).unwrap();
    let (input, output) = (client.alloc(64).unwrap(), client.alloc(64).unwrap());
    let (inputs, outputs) = ([input.extent()], [output.extent()]);
    let request = Request { session, op: Op::Digest, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: false };
    (0..8).for_each(|tag| client.submit(tag, &request).unwrap());
    client.ring();
    expect(&service, Limit::InFlightPerClient, 2, 2, Some(me()));
    expect(&service, Limit::InFlight, 2, 16384, None);
    for _ in 0..8 {
        client.wait().unwrap();
    }
    expect(&service, Limit::InFlight, 0, 16384, None);
}

/// One lane of a user that may have two is more than two lanes of a user that may have a thousand.
#[test]
fn the_user_nearest_to_its_own_limit_is_named() {
    if !root_or_skipped("play another user") {
        return;
    }
    let few = ClientConfig { uid: 64_001, weight: None, lanes: Some(2), in_flight: None, arena_bytes: None };
    let creators = CreatorsConfig { gids: vec![GROUP], per_user: 4 };
    let keys = KeysConfig { creators, ..KeysConfig::default() };
    let service = start(Config { socket_mode: 0o666, keys, clients: vec![few], ..Config::default() });
    set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let _mine: Vec<Client> =
        (0..2).map(|_| Client::connect(&Options { slots: 8, ..options(&service) }).unwrap()).collect();
    expect(&service, Limit::LanesPerClient, 2, 1024, Some(0));
    let socket = service.socket().to_str().unwrap();
    let mut hoard = Peer::start(&["hoard", socket, "lanes", "64001"]);
    let refused = hoard.line();
    assert!(refused.contains("limits.lanes_per_client"), "{refused}");
    expect(&service, Limit::LanesPerClient, 2, 2, Some(64_001));
    assert_eq!(seen(&service, Limit::KeysPerCreator), None);
    let mut creator = Peer::start(&["owner", socket, "64002", "64002,64100"]);
    creator.expect("connected");
    creator.say("generate a");
    assert_eq!(creator.line(), "done");
    expect(&service, Limit::KeysPerCreator, 1, 4, Some(64_002));
}
