//! Keys with a limit of private operations a second, over all clients and any device.

use crate::common::{Running, administer, connect, start};
use crate::devices::worker;
use crate::losses::patience;
use sidecore::client::{Admin, Client, Error, Request, Session};
use sidecore::config::{Config, DeviceConfig};
use sidecore::core::session::{Op, Refusal};
use sidecore::core::wire::Status;
use sidecore::engine::crypto::{KeyMaterial, Scheme, SessionSpec};
use sidecore::keys::{Acl, KeyCommand, Kind, MAX_RATE};
use sidecore_counters::{KeyCounter, Snapshot};

const ONE: Option<u32> = Some(1);

fn generate(admin: &mut Admin, name: &str) {
    let (name, kind, acl) = (name.to_owned(), Kind::Ed25519, Acl::default());
    admin.keys(KeyCommand::Generate { name, kind, acl }).unwrap();
}

fn set(admin: &mut Admin, name: &str, rate: Option<u32>) -> Result<(), Error> {
    admin.keys(KeyCommand::SetRate { name: name.to_owned(), rate }).map(drop)
}

fn open(client: &mut Client, name: &str) -> Session {
    let key = KeyMaterial::Stored(name.to_owned());
    client.open_session(&SessionSpec { scheme: Scheme::Ed25519, key }).unwrap()
}

fn limited(service: &Running, name: &str) -> [u64; 3] {
    let keys = Snapshot::read(service.counters()).unwrap().keys;
    let key = keys.into_iter().find(|key| key.name == name).unwrap();
    [KeyCounter::Done, KeyCounter::Refused, KeyCounter::Limited].map(|counter| key.get(counter))
}

/// Submits signatures of one message, all before the first completion. Returns those done.
fn burst(client: &mut Client, session: Session, count: u32) -> usize {
    let (input, output) = (client.alloc(16).unwrap(), client.alloc(64).unwrap());
    let (inputs, outputs) = ([input.extent()], [output.extent()]);
    let request = Request { session, op: Op::Sign, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: false };
    (0..count).for_each(|tag| client.submit(tag, &request).unwrap());
    client.ring();
    let statuses: Vec<Status> = (0..count).map(|_| client.wait().unwrap().status).collect();
    for status in &statuses {
        assert!(matches!(status, Status::Done { .. } | Status::Refused(Refusal::KeyLimit)), "{status:?}");
    }
    statuses.iter().filter(|status| matches!(status, Status::Done { .. })).count()
}

/// Signs until the limit refuses, which names the remedy. Returns the number of signatures: one, or more on a slow
/// machine.
fn until_refused(client: &mut Client, session: Session) -> u64 {
    for done in 0..20 {
        match client.call(session, Op::Sign, 0, b"m", 64) {
            Ok(_) => {}
            Err(Error::Refused(refusal)) => {
                assert_eq!(refusal, Refusal::KeyLimit);
                assert!(refusal.message().contains("sidecore keys limit NAME N/s"));
                return done;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no limit")
}

#[test]
fn a_limit_holds_for_all_clients_together_and_for_open_sessions() {
    let service = start(Config::default());
    let (mut one, mut two, mut admin) = (connect(&service), connect(&service), administer(&service));
    generate(&mut admin, "www");
    generate(&mut admin, "other");
    let (first, second, other) = (open(&mut one, "www"), open(&mut two, "www"), open(&mut two, "other"));
    let signature = one.call(first, Op::Sign, 0, b"m", 64).unwrap();
    set(&mut admin, "www", ONE).unwrap();
    let mut done = 1 + until_refused(&mut two, second);
    done += until_refused(&mut one, first);
    // Verification takes the public part only, and another key has no limit.
    let signed = [&signature[..], b"m"].concat();
    (0..10).for_each(|_| drop(one.call(first, Op::Verify, 64, &signed, 0).unwrap()));
    (0..10).for_each(|_| drop(two.call(other, Op::Sign, 0, b"m", 64).unwrap()));
    // A session that is opened anew has the same limit.
    let again = open(&mut one, "www");
    done += until_refused(&mut one, again);
    assert_eq!(limited(&service, "www"), [done + 10, 3, 3]);
    assert_eq!(limited(&service, "other"), [10, 0, 0]);
    set(&mut admin, "www", None).unwrap();
    (0..10).for_each(|_| drop(one.call(first, Op::Sign, 0, b"m", 64).unwrap()));
}

#[test]
fn each_request_of_a_burst_counts_on_any_device() {
    for device in [DeviceConfig::inline("d"), worker("d"), DeviceConfig::emulated("d", 10_000, 0.1)] {
        let service = start(patience(vec![device]));
        let (mut client, mut admin) = (connect(&service), administer(&service));
        generate(&mut admin, "www");
        let session = open(&mut client, "www");
        assert_eq!(burst(&mut client, session, 40), 40);
        // Tokens of some seconds may come back on a slow machine.
        set(&mut admin, "www", ONE).unwrap();
        let done = burst(&mut client, session, 100);
        assert!((1..=5).contains(&done), "{done}");
        let [all, refused, by_limit] = limited(&service, "www");
        assert_eq!((all, refused, by_limit), (40 + done as u64, 100 - done as u64, 100 - done as u64));
    }
}

#[test]
fn what_is_no_limit_is_refused() {
    let service = start(Config::default());
    let (mut client, mut admin) = (connect(&service), administer(&service));
    generate(&mut admin, "www");
    for wrong in [0, MAX_RATE + 1, u32::MAX] {
        let said = set(&mut admin, "www", Some(wrong)).unwrap_err().to_string();
        assert_eq!(said, "a key's limit is 1 to 1000000 requests a second");
    }
    assert!(set(&mut admin, "none", ONE).unwrap_err().to_string().contains("no key \"none\""));
    let session = open(&mut client, "www");
    assert_eq!(burst(&mut client, session, 50), 50);
    set(&mut admin, "www", Some(MAX_RATE)).unwrap();
    assert_eq!(burst(&mut client, session, 50), 50);
    assert_eq!(admin.my_keys(None).unwrap().unwrap().keys[0].rate, Some(MAX_RATE));
}
