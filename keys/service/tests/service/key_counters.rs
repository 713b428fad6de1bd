//! Counters of each stored key, with any device for its requests.

use crate::common::{Running, administer, connect, start};
use crate::devices::{devices_when, worker};
use crate::losses::{frozen, patience};
use sidecore::client::{Admin, Client, Error, Request, Session};
use sidecore::config::{Config, DeviceConfig};
use sidecore::core::session::{Op, Refusal};
use sidecore::core::stage::Stage;
use sidecore::core::wire::Status;
use sidecore::engine::crypto::{Cipher, Hash, KeyMaterial, Scheme, Secret, SessionSpec, SignaturePadding};
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_counters::{DeviceCounter, KeyCounter, KeyStats, Snapshot};

fn service(device: DeviceConfig) -> Running {
    start(Config { sample_every: 1, ..patience(vec![device]) })
}

fn generate(admin: &mut Admin, name: &str) {
    let acl = Acl::default();
    admin.keys(KeyCommand::Generate { name: name.to_owned(), kind: Kind::Rsa2048, acl }).unwrap();
}

fn delete(admin: &mut Admin, name: &str) {
    admin.keys(KeyCommand::Delete { name: name.to_owned() }).unwrap();
}

fn open(client: &mut Client, name: &str) -> Session {
    let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };
    client.open_session(&SessionSpec { scheme, key: KeyMaterial::Stored(name.to_owned()) }).unwrap()
}

fn keys(service: &Running) -> Vec<KeyStats> {
    Snapshot::read(service.counters()).unwrap().keys
}

fn counts(key: &KeyStats) -> [u64; KeyCounter::COUNT] {
    KeyCounter::ALL.map(|counter| key.get(counter))
}

#[test]
fn requests_are_counted_by_the_key_that_they_use() {
    for device in [DeviceConfig::inline("d"), worker("d"), DeviceConfig::emulated("d", 10_000, 0.1)] {
        let service = service(device);
        let mut client = connect(&service);
        generate(&mut administer(&service), "idle");
        generate(&mut administer(&service), "busy");
        let session = open(&mut client, "busy");
        let signature = client.call(session, Op::Sign, 0, b"message", 256).unwrap();
        client.call(session, Op::Sign, 0, b"another", 256).unwrap();
        client.call(session, Op::Verify, 256, &[&signature[..], b"message"].concat(), 0).unwrap();
        let forged = client.call(session, Op::Verify, 256, &[&signature[..], b"another"].concat(), 0);
        assert!(matches!(forged, Err(Error::Refused(Refusal::Authentication))), "{forged:?}");
        let unsupported = client.call(session, Op::Digest, 0, b"message", 32);
        assert!(matches!(unsupported, Err(Error::Refused(Refusal::Unsupported))));
        // A key that the client brought has no counters here.
        let material = KeyMaterial::Symmetric(Secret::from(&[7; 32][..]));
        let own = SessionSpec { scheme: Scheme::Cipher(Cipher::Aes256Gcm), key: material };
        let own = client.open_session(&own).unwrap();
        client.call(own, Op::Encrypt, 0, &[1; 28], 32).unwrap();
        let [idle, busy] = &keys(&service)[..] else { panic!("{:?}", keys(&service)) };
        assert_eq!((&*idle.name, counts(idle)), ("idle", [0; KeyCounter::COUNT]));
        // Submitted, done, refused, failed, in flight; signatures, decryptions, derivations, public operations; limited; limit.
        assert_eq!((&*busy.name, counts(busy)), ("busy", [5, 3, 2, 0, 0, 2, 0, 0, 2, 0, 0]));
        let times: Vec<u64> = busy.stages.iter().map(|stage| stage.summary().count).collect();
        assert_eq!(times, [4, 4, 4], "an operation that it cannot do has no stages");
        assert!(busy.stages[Stage::Host as usize].sum() >= busy.stages[Stage::Device as usize].sum());
    }
}

#[test]
fn a_new_key_at_the_place_of_a_deleted_one_begins_at_zero() {
    let service = service(DeviceConfig::inline("d"));
    let mut client = connect(&service);
    generate(&mut administer(&service), "first");
    let session = open(&mut client, "first");
    client.call(session, Op::Sign, 0, b"message", 256).unwrap();
    delete(&mut administer(&service), "first");
    assert!(keys(&service).is_empty());
    let refused = client.call(session, Op::Sign, 0, b"message", 256);
    assert!(matches!(refused, Err(Error::Refused(Refusal::NoSession))));
    generate(&mut administer(&service), "second");
    let [second] = &keys(&service)[..] else { panic!("{:?}", keys(&service)) };
    assert_eq!((second.index, &*second.name, counts(second)), (0, "second", [0; KeyCounter::COUNT]));
}

#[test]
fn requests_in_flight_are_a_level_and_those_of_dead_devices_failed() {
    let service = service(frozen("dies"));
    let mut client = connect(&service);
    generate(&mut administer(&service), "k");
    let session = open(&mut client, "k");
    let (input, output) = (client.alloc(10_000).unwrap(), client.alloc(256).unwrap());
    let (inputs, outputs) = ([input.extent()], [output.extent()]);
    let request = Request { session, op: Op::Sign, head_len: 0, inputs: &inputs, outputs: &outputs, urgent: false };
    (0..2).for_each(|tag| client.submit(tag, &request).unwrap());
    client.ring();
    devices_when(&service, |all| all[0].get(DeviceCounter::InFlight) == 2);
    let level = keys(&service)[0].get(KeyCounter::InFlight);
    assert_eq!(level, 2);
    administer(&service).set("device.dies=kill").unwrap();
    for _ in 0..2 {
        let received = client.wait().unwrap();
        assert!(!matches!(received.status, Status::Done { .. }), "{received:?}");
    }
    let key = &keys(&service)[0];
    assert_eq!((key.get(KeyCounter::InFlight), key.get(KeyCounter::Done)), (0, 0));
    assert_eq!(key.get(KeyCounter::Failed) + key.get(KeyCounter::Refused), 2);
    assert_eq!(Snapshot::read(service.counters()).unwrap().devices[0].get(DeviceCounter::InFlight), 0);
}
