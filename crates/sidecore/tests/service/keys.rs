//! Keys that the service keeps: made, imported, used, deleted.

use crate::common::{connect, start};
use sidecore::client::{Client, Error};
use sidecore::config::Config;
use sidecore::core::session::{Op, Refusal};
use sidecore::engine::crypto::{Hash, KeyMaterial, SaltLength, Scheme, Secret, SessionSpec, SignaturePadding};
use sidecore::keys::{Acl, KeyCommand, KeyEntry, Kind};

const RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.pkcs8.der");

fn import(client: &mut Client, name: &str, pkcs8: &[u8]) -> Result<KeyEntry, Error> {
    let command = KeyCommand::Import { name: name.to_owned(), pkcs8: Secret::from(pkcs8), acl: Acl::default() };
    client.keys(command).map(|mut entries| entries.remove(0))
}

fn generate(client: &mut Client, name: &str, kind: Kind) -> Result<KeyEntry, Error> {
    let command = KeyCommand::Generate { name: name.to_owned(), kind, acl: Acl::default() };
    client.keys(command).map(|mut entries| entries.remove(0))
}

fn delete(client: &mut Client, name: &str) -> Result<(), Error> {
    client.keys(KeyCommand::Delete { name: name.to_owned() }).map(|_| ())
}

fn list(client: &mut Client) -> Vec<String> {
    let entries = client.keys(KeyCommand::List { after: String::new() }).unwrap();
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
        Kind::Rsa2048 | Kind::Rsa3072 | Kind::Rsa4096 => pkcs1(),
        Kind::P256 | Kind::P384 => Scheme::Ecdsa { hash: Hash::Sha256 },
        Kind::Ed25519 => Scheme::Ed25519,
        Kind::X25519 => Scheme::X25519,
        Kind::MlKem768 => Scheme::MlKem768,
        Kind::MlDsa65 => Scheme::MlDsa65,
    }
}

#[test]
fn a_key_of_each_kind_is_made_and_serves_its_scheme() {
    let service = start(Config::default());
    let mut client = connect(&service);
    for kind in Kind::ALL {
        let entry = generate(&mut client, kind.name(), kind).unwrap();
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
                // Verified with the public key that the service tells: another session, of the client's own key.
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
    assert_eq!(list(&mut client), names);
}

#[test]
fn an_imported_key_signs_as_its_owner_would() {
    let service = start(Config::default());
    let mut client = connect(&service);
    let entry = import(&mut client, "www", RSA).unwrap();
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
    import(&mut one, "www", RSA).unwrap();
    import(&mut one, "other", RSA).unwrap();
    let open = |client: &mut Client, name| client.open_session(&stored(pkcs1(), name)).unwrap();
    let (first, second, other) = (open(&mut one, "www"), open(&mut two, "www"), open(&mut two, "other"));
    two.call(second, Op::Sign, 0, b"m", 256).unwrap();
    delete(&mut one, "www").unwrap();
    for (client, session) in [(&mut one, first), (&mut two, second)] {
        let refused = client.call(session, Op::Sign, 0, b"m", 256).unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::NoSession)), "{refused}");
        assert!(client.open_session(&stored(pkcs1(), "www")).unwrap_err().to_string().contains("no key \"www\""));
    }
    two.call(other, Op::Sign, 0, b"m", 256).unwrap();
    // The same name again is another key: the old handles stay closed.
    generate(&mut one, "www", Kind::P256).unwrap();
    assert!(matches!(two.call(second, Op::Sign, 0, b"m", 256), Err(Error::Refused(Refusal::NoSession))));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let service = start(Config::default());
    let mut client = connect(&service);
    import(&mut client, "www", RSA).unwrap();
    let said = |result: Result<KeyEntry, Error>, what: &str| {
        let said = result.unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
    };
    said(import(&mut client, "www", RSA), "already");
    said(import(&mut client, "../www", RSA), "letters, digits");
    said(import(&mut client, "x", b"no key"), "PKCS#8");
    said(import(&mut client, "x", include_bytes!("../../src/engine/crypto/keys/test-rsa-1024.pkcs8.der")), "rsa-2048");
    said(generate(&mut client, "www", Kind::P256), "already");
    let mut open = |scheme, name: &str| client.open_session(&stored(scheme, name)).unwrap_err().to_string();
    assert!(open(Scheme::Ed25519, "www").contains("a key of kind rsa-2048 does not do Ed25519"));
    assert!(open(pkcs1(), "nobody").contains("no key \"nobody\""));
    let salt = SignaturePadding::Pss { mgf1: Hash::Sha256, salt: SaltLength::Bytes(300) };
    assert!(open(Scheme::RsaSignature { padding: salt, hash: Hash::Sha256 }, "www").contains("modulus"));
    assert!(delete(&mut client, "nobody").unwrap_err().to_string().contains("no key"));
}
