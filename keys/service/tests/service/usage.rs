//! Keys that are restricted to some of their operations: before a session, in an open one, and after a restart.

use crate::common::{administer, connect, start};
use sidecore::client::{Admin, Client, Error, Session};
use sidecore::config::{Config, KeysConfig};
use sidecore::control::{RefusalCode, Request, encode};
use sidecore::core::session::{Op, Refusal};
use sidecore::engine::crypto::{
    DecryptionPadding, EncryptionPadding, Hash, KeyMaterial, Scheme, Secret, SessionSpec, SignaturePadding,
};
use sidecore::keys::{Acl, KeyCommand, Kind, MAX_ID, Terms, Usage};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
const SPKI: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.spki.der");
const OTHER_RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-openssl-rsa-2048-2.pkcs8.der");

fn import(admin: &mut Admin, name: &str) {
    let command = KeyCommand::Import { name: name.to_owned(), pkcs8: Secret::from(RSA), acl: Acl::default() };
    admin.keys(command).unwrap();
}

fn restrict(admin: &mut Admin, name: &str, usage: &str) -> Result<(), Error> {
    admin.keys(KeyCommand::SetUsage { name: name.to_owned(), usage: usage.parse().unwrap() }).map(drop)
}

fn signs() -> Scheme {
    Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 }
}

fn decrypts() -> Scheme {
    Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 }
}

fn open(client: &mut Client, scheme: Scheme, name: &str) -> Result<Session, Error> {
    client.open_session(&SessionSpec { scheme, key: KeyMaterial::Stored(name.to_owned()) })
}

fn refused(result: Result<Session, Error>) -> String {
    match result {
        Err(Error::Service(refused)) => {
            assert_eq!(refused.code, RefusalCode::NotAllowed);
            refused.text
        }
        other => panic!("{other:?}"),
    }
}

fn ciphertext(client: &mut Client) -> Vec<u8> {
    let padding = EncryptionPadding::Padded(DecryptionPadding::Pkcs1);
    let spec = SessionSpec { scheme: Scheme::RsaEncryption { padding }, key: KeyMaterial::Public(SPKI.to_vec()) };
    let session = client.open_session(&spec).unwrap();
    client.call(session, Op::Encrypt, 0, b"premaster", 256).unwrap()
}

#[test]
fn a_key_that_signs_decrypts_nothing_not_even_in_a_session_that_is_open() {
    let service = start(Config::default());
    let (mut one, mut two) = (connect(&service), connect(&service));
    let mut admin = administer(&service);
    import(&mut admin, "www");
    let sent = ciphertext(&mut one);
    let (first, second) = (open(&mut one, decrypts(), "www").unwrap(), open(&mut two, decrypts(), "www").unwrap());
    let signature = open(&mut two, signs(), "www").unwrap();
    assert_eq!(one.call(first, Op::Decrypt, 0, &sent, 256).unwrap(), b"premaster");
    restrict(&mut admin, "www", "sign").unwrap();
    for (client, session) in [(&mut one, first), (&mut two, second)] {
        let said = client.call(session, Op::Decrypt, 0, &sent, 256).unwrap_err();
        assert!(matches!(said, Error::Refused(Refusal::NoSession)), "{said}");
        let said = refused(open(client, decrypts(), "www"));
        assert_eq!(
            said,
            "key \"www\" is for sign only, not for decrypt: permit it with `sidecore keys usage www sign,decrypt`"
        );
    }
    for scheme in [Hash::Sha1, Hash::Sha256].map(|hash| DecryptionPadding::Oaep { hash, mgf1: hash, label: vec![] }) {
        refused(open(&mut one, Scheme::RsaDecryption { padding: scheme }, "www"));
    }
    // The permitted session goes on, and takes no other operation.
    two.call(signature, Op::Sign, 0, b"m", 256).unwrap();
    for op in [Op::Decrypt, Op::Derive, Op::Decapsulate, Op::Encrypt] {
        let said = two.call(signature, op, 0, &sent, 256).unwrap_err();
        assert!(matches!(said, Error::Refused(Refusal::Unsupported)), "{said}");
    }
    // The public operation tells nothing that the public key does not.
    let padding = EncryptionPadding::Padded(DecryptionPadding::Pkcs1);
    open(&mut one, Scheme::RsaEncryption { padding }, "www").unwrap();
    restrict(&mut admin, "www", "sign,decrypt").unwrap();
    let again = open(&mut one, decrypts(), "www").unwrap();
    assert_eq!(one.call(again, Op::Decrypt, 0, &sent, 256).unwrap(), b"premaster");
    assert!(one.call(first, Op::Decrypt, 0, &sent, 256).is_err(), "an old handle stays closed");
}

#[test]
fn a_key_that_decrypts_or_agrees_signs_nothing() {
    let service = start(Config::default());
    let (mut client, mut admin) = (connect(&service), administer(&service));
    import(&mut admin, "mail");
    let (name, kind) = ("ec".to_owned(), Kind::P256);
    admin.keys(KeyCommand::Generate { name, kind, acl: Acl::default() }).unwrap();
    restrict(&mut admin, "mail", "decrypt").unwrap();
    restrict(&mut admin, "ec", "derive").unwrap();
    assert!(refused(open(&mut client, signs(), "mail")).contains("for decrypt only, not for sign"));
    assert!(refused(open(&mut client, Scheme::EcdsaRaw, "ec")).contains("for derive only, not for sign"));
    open(&mut client, decrypts(), "mail").unwrap();
    open(&mut client, Scheme::Ecdh, "ec").unwrap();
}

#[test]
fn what_is_no_usage_of_a_key_is_refused_and_changes_nothing() {
    let service = start(Config::default());
    let (mut client, mut admin) = (connect(&service), administer(&service));
    import(&mut admin, "www");
    let (name, kind) = ("ed".to_owned(), Kind::Ed25519);
    admin.keys(KeyCommand::Generate { name, kind, acl: Acl::default() }).unwrap();
    let said = restrict(&mut admin, "ed", "sign,decrypt").unwrap_err().to_string();
    assert_eq!(said, "a key of kind ed25519 is never for decrypt: use sign,ssh");
    assert!(restrict(&mut admin, "none", "sign").unwrap_err().to_string().contains("no key \"none\""));
    let none = KeyCommand::SetUsage { name: "www".to_owned(), usage: Usage::NONE };
    assert!(admin.keys(none).unwrap_err().to_string().contains("use sign, decrypt, derive or ssh"));
    // Bits of a later version, from a client that writes them.
    let mut packet = [0; 64];
    let request = Request::Keys(KeyCommand::SetUsage { name: "www".to_owned(), usage: Usage::ALL });
    let len = encode(&request, &mut packet).unwrap().len();
    packet[len - 1] = 0x7f;
    let later = sidecore::control::decode::<Request>(&packet[..len]).unwrap();
    let Request::Keys(later) = later else { panic!("{later:?}") };
    assert!(admin.keys(later).unwrap_err().to_string().contains("use sign, decrypt, derive or ssh"));
    open(&mut client, decrypts(), "www").unwrap();
}

/// A service with keys at rest in this directory.
fn at_rest(scratch: &Path) -> Config {
    let passphrase = scratch.join("passphrase");
    fs::write(&passphrase, "open sesame\n").unwrap();
    fs::set_permissions(&passphrase, Permissions::from_mode(0o600)).unwrap();
    let directory = Some(scratch.join("keys"));
    let keys = KeysConfig { directory, passphrase_file: Some(passphrase), ..KeysConfig::default() };
    Config { keys, ..Config::default() }
}

#[test]
fn a_key_has_its_usage_and_its_identifier_from_the_first_moment_on_and_at_rest() {
    let scratch = tempfile::tempdir().unwrap();
    let identifiers = |admin: &mut Admin| admin.identifiers().unwrap().into_iter().collect::<Vec<_>>();
    let all = vec![("b".to_owned(), vec![0; MAX_ID]), ("www".to_owned(), b"id".to_vec())];
    {
        let service = start(at_rest(scratch.path()));
        let mut admin = administer(&service);
        let mut generate = |name: &str, kind, usage, id: &[u8]| {
            let (name, acl) = (name.to_owned(), Acl::default());
            let terms = Terms { usage, id: id.to_vec() };
            admin.keys(KeyCommand::GenerateWith { name, kind, acl, terms }).map_err(|error| error.to_string())
        };
        generate("www", Kind::Rsa2048, Usage::DECRYPT, b"id").unwrap();
        generate("a", Kind::P256, Usage::ALL, b"").unwrap();
        generate("b", Kind::P256, Usage::SIGN, &[0; MAX_ID]).unwrap();
        for (kind, usage, id) in [
            (Kind::P256, Usage::DECRYPT, &[][..]),
            (Kind::P256, Usage::NONE, &[]),
            (Kind::P256, Usage::ALL, &[0; MAX_ID + 1]),
        ] {
            generate("wrong", kind, usage, id).unwrap_err();
        }
        assert_eq!(identifiers(&mut admin), all);
    }
    let service = start(at_rest(scratch.path()));
    let (mut client, mut admin) = (connect(&service), administer(&service));
    assert_eq!(identifiers(&mut admin), all);
    refused(open(&mut client, signs(), "www"));
    open(&mut client, decrypts(), "www").unwrap();
    admin.keys(KeyCommand::Replace { name: "www".to_owned(), pkcs8: Secret::from(OTHER_RSA) }).unwrap();
    assert_eq!(identifiers(&mut admin), all, "programs know the key by it");
}

#[test]
fn a_restriction_survives_a_restart_and_a_replacement() {
    let scratch = tempfile::tempdir().unwrap();
    {
        let service = start(at_rest(scratch.path()));
        let mut admin = administer(&service);
        import(&mut admin, "www");
        restrict(&mut admin, "www", "sign").unwrap();
        admin.keys(KeyCommand::SetAcl { name: "www".to_owned(), acl: Acl { uids: vec![7], gids: vec![] } }).unwrap();
    }
    let service = start(at_rest(scratch.path()));
    let (mut client, mut admin) = (connect(&service), administer(&service));
    refused(open(&mut client, decrypts(), "www"));
    admin.keys(KeyCommand::Replace { name: "www".to_owned(), pkcs8: Secret::from(OTHER_RSA) }).unwrap();
    refused(open(&mut client, decrypts(), "www"));
    open(&mut client, signs(), "www").unwrap();
    let key = admin.my_keys(None).unwrap().unwrap().keys.remove(0);
    assert_eq!((key.name.as_str(), key.usage), ("www", Usage::SIGN));
}
