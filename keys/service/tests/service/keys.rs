//! Keys that the service keeps: made, imported, used, deleted.

use crate::common::{administer, connect, start};
use sidecore::client::{Admin, Client, Error};
use sidecore::config::{Config, KeysConfig, LimitsConfig};
use sidecore::control::RefusalCode;
use sidecore::core::session::{Op, Refusal};
use sidecore::engine::crypto::{Hash, KeyMaterial, SaltLength, Scheme, Secret, SessionSpec, SignaturePadding};
use sidecore::keys::{Acl, KeyCommand, KeyEntry, Kind};
use sidecore::service::Service;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
const OTHER_RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-openssl-rsa-2048-2.pkcs8.der");

fn import(admin: &mut Admin, name: &str, pkcs8: &[u8]) -> Result<KeyEntry, Error> {
    let command = KeyCommand::Import { name: name.to_owned(), pkcs8: Secret::from(pkcs8), acl: Acl::default() };
    admin.keys(command).map(|mut entries| entries.remove(0))
}

const RSA_6144: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-6144.pkcs8.der");
const RSA_8192: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-8192.pkcs8.der");

fn generate(admin: &mut Admin, name: &str, kind: Kind) -> Result<KeyEntry, Error> {
    let command = KeyCommand::Generate { name: name.to_owned(), kind, acl: Acl::default() };
    admin.keys(command).map(|mut entries| entries.remove(0))
}

fn delete(admin: &mut Admin, name: &str) -> Result<(), Error> {
    admin.keys(KeyCommand::Delete { name: name.to_owned() }).map(|_| ())
}

fn list(admin: &mut Admin) -> Vec<String> {
    let entries = admin.keys(KeyCommand::List { after: String::new() }).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

fn stored(scheme: Scheme, name: &str) -> SessionSpec {
    SessionSpec { scheme, key: KeyMaterial::Stored(name.to_owned()) }
}

fn pkcs1() -> Scheme {
    Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 }
}

fn scheme_of(kind: Kind) -> Scheme {
    match kind {
        Kind::Rsa2048 | Kind::Rsa3072 | Kind::Rsa4096 | Kind::Rsa6144 | Kind::Rsa8192 => pkcs1(),
        Kind::P256 | Kind::P384 | Kind::P521 => Scheme::Ecdsa { hash: Hash::Sha256 },
        Kind::Ed25519 => Scheme::Ed25519,
        Kind::X25519 => Scheme::X25519,
        Kind::MlKem768 => Scheme::MlKem768,
        Kind::MlDsa65 => Scheme::MlDsa65,
    }
}

#[test]
fn a_key_of_each_kind_is_made_and_serves_its_scheme() {
    let service = start(Config::default());
    let (mut client, mut admin) = (connect(&service), administer(&service));
    for kind in Kind::ALL {
        let entry = match kind {
            // To make one takes minutes.
            Kind::Rsa6144 => import(&mut admin, kind.name(), RSA_6144).unwrap(),
            Kind::Rsa8192 => import(&mut admin, kind.name(), RSA_8192).unwrap(),
            _ => generate(&mut admin, kind.name(), kind).unwrap(),
        };
        assert_eq!((entry.kind, entry.name.as_str()), (kind, kind.name()));
        let info = client.key_info(kind.name()).unwrap();
        assert_eq!(info.kind, kind);
        let session = client.open_session(&stored(scheme_of(kind), kind.name())).unwrap();
        match kind {
            Kind::X25519 => {
                let secret = client.call(session, Op::Derive, 0, &[9; 32], 32).unwrap();
                assert_eq!(secret.len(), 32);
            }
            Kind::MlKem768 => {
                let sent = client.call(session, Op::Encapsulate, 0, &[], 1088 + 32).unwrap();
                let (ciphertext, secret) = sent.split_at(1088);
                assert_eq!(client.call(session, Op::Decapsulate, 0, ciphertext, 32).unwrap(), secret);
            }
            _ => {
                // Verified with the service's public key, in another session with the client's own key.
                let signature = client.call(session, Op::Sign, 0, b"message", 4096).unwrap();
                let public = SessionSpec { scheme: scheme_of(kind), key: KeyMaterial::Public(info.public) };
                let verifier = client.open_session(&public).unwrap();
                let signed = [&signature[..], b"message"].concat();
                client.call(verifier, Op::Verify, signature.len() as u32, &signed, 0).unwrap();
            }
        }
    }
    let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    names.sort_unstable();
    assert_eq!(list(&mut admin), names);
}

#[test]
fn an_imported_key_signs_as_its_owner_would() {
    let service = start(Config::default());
    let (mut client, mut admin) = (connect(&service), administer(&service));
    let entry = import(&mut admin, "www", RSA).unwrap();
    assert_eq!((entry.kind, entry.at_rest), (Kind::Rsa2048, false));
    let mut sign = |key| {
        let session = client.open_session(&SessionSpec { scheme: pkcs1(), key }).unwrap();
        client.call(session, Op::Sign, 0, b"message", 256).unwrap()
    };
    assert_eq!(sign(KeyMaterial::Stored("www".to_owned())), sign(KeyMaterial::Private(RSA.into())));
}

#[test]
fn a_deleted_key_is_gone_from_all_lanes_at_once() {
    let service = start(Config::default());
    let (mut one, mut two) = (connect(&service), connect(&service));
    let mut admin = administer(&service);
    import(&mut admin, "www", RSA).unwrap();
    import(&mut admin, "other", RSA).unwrap();
    let open = |client: &mut Client, name| client.open_session(&stored(pkcs1(), name)).unwrap();
    let (first, second, other) = (open(&mut one, "www"), open(&mut two, "www"), open(&mut two, "other"));
    two.call(second, Op::Sign, 0, b"m", 256).unwrap();
    delete(&mut admin, "www").unwrap();
    for (client, session) in [(&mut one, first), (&mut two, second)] {
        let refused = client.call(session, Op::Sign, 0, b"m", 256).unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::NoSession)), "{refused}");
        assert!(client.open_session(&stored(pkcs1(), "www")).unwrap_err().to_string().contains("no key \"www\""));
    }
    two.call(other, Op::Sign, 0, b"m", 256).unwrap();
    // The same name again is another key: the old handles stay closed.
    generate(&mut admin, "www", Kind::P256).unwrap();
    assert!(matches!(two.call(second, Op::Sign, 0, b"m", 256), Err(Error::Refused(Refusal::NoSession))));
}

#[test]
fn a_replaced_key_signs_for_no_lane_any_more() {
    let service = start(Config::default());
    let (mut one, mut two) = (connect(&service), connect(&service));
    let mut admin = administer(&service);
    import(&mut admin, "www", RSA).unwrap();
    generate(&mut admin, "other", Kind::Rsa2048).unwrap();
    let open = |client: &mut Client, name| client.open_session(&stored(pkcs1(), name)).unwrap();
    let (first, second, other) = (open(&mut one, "www"), open(&mut two, "www"), open(&mut two, "other"));
    let old = two.call(second, Op::Sign, 0, b"m", 256).unwrap();
    let public = admin.key_info("www").unwrap().public;
    admin.keys(KeyCommand::Replace { name: "www".to_owned(), pkcs8: Secret::from(OTHER_RSA) }).unwrap();
    assert_ne!(admin.key_info("www").unwrap().public, public);
    for (client, session) in [(&mut one, first), (&mut two, second)] {
        let refused = client.call(session, Op::Sign, 0, b"m", 256).unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::NoSession)), "{refused}");
    }
    two.call(other, Op::Sign, 0, b"m", 256).unwrap();
    let again = open(&mut two, "www");
    assert_ne!(two.call(again, Op::Sign, 0, b"m", 256).unwrap(), old);
    // The old key stays if the new one is malformed, or if the name does not exist.
    let broken = KeyCommand::Replace { name: "www".to_owned(), pkcs8: Secret::from(&RSA[1..]) };
    assert!(matches!(admin.keys(broken), Err(Error::Service(_))));
    let nobody = KeyCommand::Replace { name: "nobody".to_owned(), pkcs8: Secret::from(RSA) };
    assert!(matches!(admin.keys(nobody), Err(Error::Service(refused)) if refused.code == RefusalCode::NoKey));
    two.call(again, Op::Sign, 0, b"m", 256).unwrap();
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let service = start(Config::default());
    let (mut client, mut admin) = (connect(&service), administer(&service));
    import(&mut admin, "www", RSA).unwrap();
    let said = |result: Result<KeyEntry, Error>, what: &str| {
        let said = result.unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
    };
    said(import(&mut admin, "www", RSA), "already");
    said(import(&mut admin, "../www", RSA), "letters, digits");
    said(import(&mut admin, "x", b"no key"), "PKCS#8");
    said(import(&mut admin, "x", include_bytes!("../../src/engine/crypto/keys/test-rsa-1024.pkcs8.der")), "rsa-2048");
    said(generate(&mut admin, "www", Kind::P256), "already");
    let mut open = |scheme, name: &str| client.open_session(&stored(scheme, name)).unwrap_err().to_string();
    assert!(open(Scheme::Ed25519, "www").contains("a key of kind rsa-2048 does not do Ed25519"));
    assert!(open(pkcs1(), "nobody").contains("no key \"nobody\""));
    let salt = SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Bytes(300) };
    assert!(open(Scheme::RsaSignature { padding: salt, hash: Hash::Sha256 }, "www").contains("modulus"));
    assert!(delete(&mut admin, "nobody").unwrap_err().to_string().contains("no key"));
}

fn at_rest(scratch: &Path) -> Config {
    let passphrase = scratch.join("passphrase");
    if !passphrase.exists() {
        fs::write(&passphrase, "open sesame\n").unwrap();
        fs::set_permissions(&passphrase, Permissions::from_mode(0o600)).unwrap();
    }
    let keys = KeysConfig {
        directory: Some(scratch.join("keys")),
        passphrase_file: Some(passphrase),
        ..KeysConfig::default()
    };
    Config { keys, ..Config::default() }
}

#[test]
fn keys_at_rest_survive_the_service_and_changes_of_them_do() {
    let scratch = tempfile::tempdir().unwrap();
    let acl = Acl { uids: vec![1000], gids: vec![33, 34] };
    let public = {
        let service = start(at_rest(scratch.path()));
        let (mut client, mut admin) = (connect(&service), administer(&service));
        assert!(import(&mut admin, "www", RSA).unwrap().at_rest);
        import(&mut admin, "old", RSA).unwrap();
        generate(&mut admin, "new", Kind::Ed25519).unwrap();
        delete(&mut admin, "old").unwrap();
        admin.keys(KeyCommand::SetAcl { name: "new".to_owned(), acl: acl.clone() }).unwrap();
        client.key_info("new").unwrap().public
    };
    let service = start(at_rest(scratch.path()));
    let (mut client, mut admin) = (connect(&service), administer(&service));
    assert_eq!(list(&mut admin), ["new", "www"]);
    assert_eq!(admin.keys(KeyCommand::List { after: String::new() }).unwrap()[0].acl, acl);
    assert_eq!(client.key_info("new").unwrap().public, public);
    let session = client.open_session(&stored(pkcs1(), "www")).unwrap();
    client.call(session, Op::Sign, 0, b"message", 256).unwrap();
}

#[test]
fn a_service_that_cannot_open_its_keys_says_why_and_takes_no_socket() {
    let scratch = tempfile::tempdir().unwrap();
    drop(start(at_rest(scratch.path())));
    let refused = |what: &str| {
        let socket = scratch.path().join("socket");
        let said =
            Service::start(Config { socket: socket.clone(), ..at_rest(scratch.path()) }).unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
        assert!(!socket.exists());
    };
    fs::write(scratch.path().join("passphrase"), "open simsim").unwrap();
    refused("the passphrase is not the one");
    fs::write(scratch.path().join("passphrase"), "open sesame").unwrap();
    fs::write(scratch.path().join("keys/notes"), "").unwrap();
    refused("none of the service's files");
    fs::remove_file(scratch.path().join("keys/notes")).unwrap();
    let mut without = at_rest(scratch.path());
    without.keys.passphrase_file = None;
    assert!(Service::start(without).unwrap_err().to_string().contains("--passphrase-file"));
    let running = start(at_rest(scratch.path()));
    refused("another service");
    drop(running);
    drop(start(at_rest(scratch.path())));
}

#[test]
fn more_keys_than_the_limit_are_refused_and_none_is_dropped() {
    let scratch = tempfile::tempdir().unwrap();
    let limited = |keys| {
        let limits = LimitsConfig { keys, ..LimitsConfig::default() };
        Config { limits, ..at_rest(scratch.path()) }
    };
    {
        let service = start(limited(2));
        let mut admin = administer(&service);
        generate(&mut admin, "a", Kind::P256).unwrap();
        generate(&mut admin, "b", Kind::P256).unwrap();
        assert!(generate(&mut admin, "c", Kind::P256).unwrap_err().to_string().contains("limits.keys"));
        delete(&mut admin, "a").unwrap();
        generate(&mut admin, "c", Kind::P256).unwrap();
    }
    let socket = scratch.path().join("socket");
    let said = Service::start(Config { socket, ..limited(1) }).unwrap_err().to_string();
    assert!(said.contains("limits.keys"), "{said}");
    assert_eq!(list(&mut administer(&start(limited(2)))), ["b", "c"]);
}
