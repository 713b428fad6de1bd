//! Keys that the service makes for programs and keeps for them.

use crate::common::{Running, administer, connect, start};
use crate::peer::{Held, Peer, kill, until};
use sidecore::client::{Client, Error, MadeKey, Session};
use sidecore::config::{Config, LimitsConfig};
use sidecore::core::session::Op;
use sidecore::keys::Kind;
use sidecore::spec::{Hash, KeyMaterial, KeyToken, Scheme, Secret, SessionSpec, SignaturePadding};
use std::time::{Duration, Instant};

const MESSAGE: &[u8] = b"message";

fn scheme(kind: Kind) -> Scheme {
    match kind {
        Kind::Ed25519 => Scheme::Ed25519,
        Kind::MlDsa65 => Scheme::MlDsa65,
        Kind::P256 | Kind::P384 | Kind::P521 => Scheme::Ecdsa { hash: Hash::Sha256 },
        _ => Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 },
    }
}

fn make(service: &Running, kind: Kind) -> Result<MadeKey, Error> {
    administer(service).make_key(kind)
}

fn open(client: &mut Client, kind: Kind, key: KeyMaterial) -> Result<Session, Error> {
    client.open_session(&SessionSpec { scheme: scheme(kind), key })
}

#[test]
fn a_key_serves_all_lanes_of_its_program_and_goes_with_it() {
    let service = start(Config::default());
    let (mut one, mut other) = (connect(&service), connect(&service));
    for kind in [Kind::Rsa2048, Kind::P256, Kind::P384, Kind::P521, Kind::Ed25519, Kind::MlDsa65] {
        let key = make(&service, kind).unwrap();
        let (material, public) = (key.material(), key.public().to_vec());
        let first = open(&mut one, kind, material.clone()).unwrap();
        let second = open(&mut other, kind, material.clone()).unwrap();
        let verifies = open(&mut other, kind, KeyMaterial::Public(public)).unwrap();
        drop(key);
        until("the key is gone", || open(&mut other, kind, material.clone()).is_err());
        let gone = open(&mut other, kind, material).unwrap_err().to_string();
        assert!(gone.contains("no such key"), "{gone}");
        // Open sessions stay with their owners.
        let signed = [
            one.call(first, Op::Sign, 0, MESSAGE, 4000).unwrap(),
            other.call(second, Op::Sign, 0, MESSAGE, 4000).unwrap(),
        ];
        for signature in signed {
            let checked = [&signature, MESSAGE].concat();
            other.call(verifies, Op::Verify, signature.len() as u32, &checked, 0).unwrap();
        }
    }
}

#[test]
fn a_key_is_for_those_who_have_its_token() {
    let service = start(Config::default());
    let (mut client, _key) = (connect(&service), make(&service, Kind::Ed25519).unwrap());
    for guess in [[0; 16], [255; 16]] {
        assert!(open(&mut client, Kind::Ed25519, KeyMaterial::Made(KeyToken(guess))).is_err());
    }
}

#[test]
fn a_key_does_what_its_kind_does() {
    let service = start(Config::default());
    let (mut client, key) = (connect(&service), make(&service, Kind::Ed25519).unwrap());
    let refused = open(&mut client, Kind::P256, key.material()).unwrap_err().to_string();
    assert!(refused.contains("does not do ECDSA"), "{refused}");
}

#[test]
fn keys_of_a_program_are_limited() {
    let service = start(Config::default());
    let refused = |why: &str, result: Result<MadeKey, Error>| {
        let said = result.map(|_| ()).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    };
    let mut keys: Vec<MadeKey> = (0..256).map(|_| make(&service, Kind::Ed25519).unwrap()).collect();
    refused("256 keys made", make(&service, Kind::Ed25519));
    // Other connections are unaffected.
    let mut client = connect(&service);
    open(&mut client, Kind::Ed25519, keys[0].material()).unwrap();
    keys.pop();
    until("there is room again", || make(&service, Kind::Ed25519).is_ok());
    let limits = LimitsConfig { session_bytes_per_client: 16 << 10, ..LimitsConfig::default() };
    let service = start(Config { limits, ..Config::default() });
    let _two = [make(&service, Kind::P256).unwrap(), make(&service, Kind::P256).unwrap()];
    refused("limits.session_bytes_per_client", make(&service, Kind::P256));
}

#[test]
fn the_public_part_of_a_raw_key_is_that_of_the_standards() {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    let service = start(Config::default());
    let mut admin = administer(&service);
    let mut public_part =
        |kind, raw| admin.public_part(kind, Secret::new(raw), Instant::now() + Duration::from_secs(60));
    // The first vectors of RFC 8032 and RFC 7748.
    for (kind, private, public) in [
        (
            Kind::Ed25519,
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        ),
        (
            Kind::X25519,
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
        ),
    ] {
        let spki = public_part(kind, bytes(private)).unwrap();
        assert!(spki.ends_with(&bytes(public)), "{kind:?}");
    }
    assert_eq!(public_part(Kind::MlDsa65, vec![7; 32]).unwrap().len(), 1974);
    for (kind, raw) in [(Kind::Ed25519, vec![7; 31]), (Kind::MlDsa65, vec![7; 33]), (Kind::Rsa2048, vec![7; 32])] {
        let refused = public_part(kind, raw).unwrap_err().to_string();
        assert!(refused.contains("no raw private key"), "{refused}");
    }
}

#[test]
fn a_key_lives_as_long_as_a_forked_child_holds_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let service = Peer::serve(&socket, "");
    let before = Held::by(service.pid());
    let mut family = Peer::start(&["fork", "made", socket.to_str().unwrap()]);
    let parent = family.line().parse().unwrap();
    kill(parent);
    until("the parent's end is noticed", || Held::by(service.pid()).lanes == 0);
    family.say("sign");
    family.expect("signed");
    until("the child's key is gone", || Held::by(service.pid()) == before);
    service.finish();
}

#[test]
fn keys_that_take_minutes_are_not_made_for_programs() {
    let service = start(Config::default());
    for kind in [Kind::Rsa6144, Kind::Rsa8192] {
        let told = make(&service, kind).unwrap_err().to_string();
        assert!(told.contains("keys generate"), "{told}");
    }
}
