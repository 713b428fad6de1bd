//! The list of the keys that a user may use, its revision, and certificates beside keys.

use crate::common::{Running, administer, connect, root_or_skipped, start};
use crate::peer::Peer;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, recv, send,
    socket_with,
};
use sidecore::client::{Admin, Error};
use sidecore::config::Config;
use sidecore::control::{Attach, RefusalCode, Reply, Request, decode, encode};
use sidecore::core::layout::ABI;
use sidecore::engine::crypto::Secret;
use sidecore::keys::{
    Acl, KeyCommand, Kind, MAX_CERTIFICATE, MAX_CERTIFICATES, Site, UsableKeys, Usage, read_certificates,
};
use sidecore_client::gateway::{Hello, VERSION};
use std::fs::{Permissions, set_permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const EC: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-p-256.pkcs8.der");
const RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
const RSA_8192: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-8192.pkcs8.der");
const CERTIFICATE: &str = include_str!("../../src/keys/test-files/p-256.certificate.pem");

fn import(admin: &mut Admin, name: &str, pkcs8: &[u8]) {
    let command = KeyCommand::Import { name: name.to_owned(), pkcs8: Secret::from(pkcs8), acl: Acl::default() };
    admin.keys(command).unwrap();
}

fn mine(admin: &mut Admin) -> UsableKeys {
    admin.my_keys(None).unwrap().unwrap()
}

fn named(name: &str) -> String {
    name.to_owned()
}

/// A connection that sends and receives packets as they are.
struct Raw(OwnedFd);

impl Raw {
    fn to(service: &Running) -> Self {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect_to(&socket, &SocketAddrUnix::new(service.socket()).unwrap()).unwrap();
        Self(socket)
    }

    fn say(&self, packet: &[u8]) -> Vec<u8> {
        send(&self.0, packet, SendFlags::NOSIGNAL).unwrap();
        let mut answer = vec![0; 16 * 1024];
        let (len, _) = recv(&self.0, &mut answer[..], RecvFlags::empty()).unwrap();
        answer.truncate(len);
        answer
    }

    fn ask(&self, request: &Request) -> Reply {
        let mut buffer = vec![0; 16 * 1024];
        let packet = encode(request, &mut buffer).unwrap();
        decode(&self.say(packet)).unwrap()
    }
}

#[test]
fn a_list_has_what_a_program_needs_and_its_revision_moves_with_each_change() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    let empty = mine(&mut admin);
    assert!(empty.keys.is_empty());
    import(&mut admin, "www", EC);
    let listed = mine(&mut admin);
    let key = &listed.keys[0];
    assert_eq!((key.name.as_str(), key.kind, key.site), ("www", Kind::P256, Site::Here));
    assert_eq!((key.usage.to_string().as_str(), key.certificates), ("sign,derive", 0));
    assert_eq!(key.public, admin.key_info("www").unwrap().public);
    let mut known = listed.revision;
    assert_ne!(known, empty.revision);
    assert!(known.is_some());
    assert_eq!(admin.my_keys(known).unwrap(), None);
    let certificate = read_certificates(CERTIFICATE.as_bytes()).unwrap().remove(0);
    let changes = [
        KeyCommand::SetAcl { name: named("www"), acl: Acl { uids: vec![7], gids: vec![] } },
        KeyCommand::SetUsage { name: named("www"), usage: Usage::SIGN },
        KeyCommand::SetRate { name: named("www"), rate: Some(100) },
        KeyCommand::AddCertificate { name: named("www"), certificate, more: false },
        KeyCommand::RemoveCertificates { name: named("www") },
        KeyCommand::Share { name: named("www"), also: true },
        KeyCommand::Share { name: named("www"), also: false },
        KeyCommand::Replace { name: named("www"), pkcs8: Secret::from(RSA) },
        KeyCommand::Generate { name: named("new"), kind: Kind::Ed25519, acl: Acl::default() },
        KeyCommand::Delete { name: named("new") },
    ];
    for change in changes {
        let what = format!("{change:?}");
        admin.keys(change).unwrap();
        let listed = admin.my_keys(known).unwrap().expect(&what);
        assert_eq!(admin.my_keys(listed.revision).unwrap(), None, "{what}");
        known = listed.revision;
    }
    // A key that was deleted and made anew is another one.
    import(&mut admin, "new", EC);
    assert_ne!(mine(&mut admin).revision, known);
    // Another service has other revisions, with the same keys.
    let other = start(Config::default());
    let mut of_other = administer(&other);
    assert_ne!(mine(&mut of_other).revision, empty.revision);
}

#[test]
fn a_long_list_comes_whole_in_pages_that_fit_a_message() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    let name = |number: usize| format!("{number:0>64}");
    for number in 0..30 {
        import(&mut admin, &name(number), if number % 2 == 0 { RSA_8192 } else { EC });
    }
    let keys = mine(&mut admin).keys;
    assert_eq!(keys.iter().map(|key| key.name.clone()).collect::<Vec<_>>(), (0..30).map(name).collect::<Vec<_>>());
    // A lane's connection is answered as well.
    let mut client = connect(&service);
    assert_eq!(client.key_info(&name(0)).unwrap().public, keys[0].public);
}

/// A user who has keys made and deletes them would otherwise keep root from its list.
#[test]
fn a_list_ends_while_keys_change_without_a_pause() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    let name = |number: usize| format!("{number:0>64}");
    for number in 0..30 {
        import(&mut admin, &name(number), RSA_8192);
    }
    let ended = AtomicBool::new(false);
    let mut other = administer(&service);
    let lists: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                import(&mut other, "changes", EC);
                other.keys(KeyCommand::Delete { name: named("changes") }).unwrap();
            }
        });
        let lists = (0..10).map(|_| admin.my_keys(None)).collect();
        ended.store(true, Ordering::Relaxed);
        lists
    });
    for listed in lists {
        let UsableKeys { revision, keys } = listed.unwrap().unwrap();
        let lasting = keys.iter().filter(|key| key.name != "changes");
        assert!(lasting.map(|key| key.name.clone()).eq((0..30).map(name)), "{revision:?}");
    }
    let listed = mine(&mut admin);
    assert_eq!(admin.my_keys(listed.revision).unwrap(), None, "a list at rest has a revision");
}

#[test]
fn whatever_a_cursor_says_only_what_is_permitted_comes_back() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    import(&mut admin, "m", EC);
    let raw = Raw::to(&service);
    let names = |after: &str| match raw.ask(&Request::MyKeys { after: after.to_owned(), known: None }) {
        Reply::MyKeys { keys, more, .. } => {
            assert!(!more);
            keys.into_iter().map(|key| key.name).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    for before in ["", "\0", "a", "M", "l\u{10ffff}", "../m", &"a".repeat(16_000)] {
        assert_eq!(names(before), ["m"], "{before:?}");
    }
    for behind in ["m", "m\0", "n", "\u{10ffff}", &"z".repeat(16_000)] {
        assert!(names(behind).is_empty(), "{behind:?}");
    }
    // Lengths that lie: of the cursor, and of a name.
    for broken in [&[10, 0xff, 0xff, 3, b'm'][..], &[10, 1, b'm', 2], &[11, 0xff, 0xff, 0xff, 0xff, 15, b'm', 0]] {
        let raw = Raw::to(&service);
        let Reply::Refused(refused) = decode(&raw.say(broken)).unwrap() else { panic!("{broken:?}") };
        assert_eq!(refused.code, RefusalCode::NoRequest);
        assert!(refused.contains("no message of this protocol"), "{refused}");
    }
    assert!(service.is_alive());
}

#[test]
fn a_request_of_a_later_version_is_refused_and_the_connection_goes_on() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    import(&mut admin, "www", EC);
    let raw = Raw::to(&service);
    for later in [&[0x60][..], &[100, 0, 1, 2], &[6, 0x60, 3, b'w', b'w', b'w'], &[0x7f; 100]] {
        let Reply::Refused(refused) = decode(&raw.say(later)).unwrap() else { panic!("{later:?}") };
        assert_eq!(refused.code, RefusalCode::UnknownRequest);
        assert!(refused.contains("of an older version"), "{refused}");
    }
    assert!(matches!(raw.ask(&Request::KeyInfo { name: named("www") }), Reply::KeyInfo(_)));
}

fn chain(of: &[&str]) -> Vec<u8> {
    of.concat().into_bytes()
}

fn store(admin: &mut Admin, name: &str, certificates: &[Vec<u8>]) -> Result<(), Error> {
    for (index, certificate) in certificates.iter().enumerate() {
        let (certificate, more) = (certificate.clone(), index + 1 < certificates.len());
        admin.keys(KeyCommand::AddCertificate { name: name.to_owned(), certificate, more })?;
    }
    Ok(())
}

#[test]
fn certificates_are_stored_whole_read_by_index_and_gone_with_their_key() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    import(&mut admin, "www", EC);
    import(&mut admin, "other", RSA);
    let two = read_certificates(&chain(&[CERTIFICATE, CERTIFICATE])).unwrap();
    let none = admin.certificate("www", 0).unwrap_err().to_string();
    assert_eq!(none, "key \"www\" has 0 certificates: store them with `sidecore keys cert www FILE`");
    store(&mut admin, "www", &two).unwrap();
    assert_eq!(mine(&mut admin).keys[1].certificates, 2);
    assert_eq!(admin.certificate("www", 1).unwrap(), two[1]);
    for index in [2, 3, 4, 127, 255] {
        assert!(admin.certificate("www", index).unwrap_err().to_string().contains("has 2 certificates"));
    }
    // A first part without its last one changes nothing, and is forgotten by a part for another key.
    let (certificate, more) = (two[0].clone(), true);
    admin.keys(KeyCommand::AddCertificate { name: named("www"), certificate, more }).unwrap();
    assert_eq!(mine(&mut admin).keys[1].certificates, 2);
    let said = store(&mut admin, "other", &two[..1]).unwrap_err().to_string();
    assert_eq!(said, "the first certificate is of another key: give that of this key first");
    store(&mut admin, "www", &two[..1]).unwrap();
    assert_eq!(mine(&mut admin).keys[1].certificates, 1);
    admin.keys(KeyCommand::Replace { name: named("www"), pkcs8: Secret::from(EC) }).unwrap();
    assert_eq!(mine(&mut admin).keys[1].certificates, 0);
    store(&mut admin, "www", &two).unwrap();
    admin.keys(KeyCommand::RemoveCertificates { name: named("www") }).unwrap();
    assert!(admin.certificate("www", 0).is_err());
}

#[test]
fn what_is_no_chain_of_the_key_is_refused_and_the_old_one_stays() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    import(&mut admin, "www", EC);
    let good = read_certificates(CERTIFICATE.as_bytes()).unwrap();
    store(&mut admin, "www", &good).unwrap();
    let leaf = good[0].clone();
    let with = |second: &[u8]| vec![leaf.clone(), second.to_vec()];
    let cases: [(Vec<Vec<u8>>, &str); 7] = [
        (vec![Vec::new()], "certificate 1 cannot be read"),
        (vec![vec![0; MAX_CERTIFICATE + 1]], "certificate 1 has 8193 bytes"),
        (vec![vec![0x30; MAX_CERTIFICATE]], "certificate 1 cannot be read"),
        (vec![[&leaf[..], b"tail"].concat()], "certificate 1 cannot be read"),
        (with(&leaf[1..]), "certificate 2 cannot be read"),
        (with(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), "certificate 2 cannot be read"),
        (vec![leaf.clone(); MAX_CERTIFICATES + 1], "at most 4 certificates"),
    ];
    for (chain, what) in cases {
        let said = store(&mut admin, "www", &chain).unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
        assert_eq!(admin.certificate("www", 0).unwrap(), leaf);
    }
    assert!(store(&mut admin, "none", &good).unwrap_err().to_string().contains("no key \"none\""));
    assert!(store(&mut admin, "www\0", &good).unwrap_err().to_string().contains("no key"));
    // A message holds no larger one: it ends the connection that sends it, and no other.
    let raw = Raw::to(&service);
    let mut packet = vec![6, 11, 3, b'w', b'w', b'w', 0x80, 0x80, 0x40];
    packet.extend(vec![0x30; 100_000]);
    let Reply::Refused(refused) = decode(&raw.say(&packet)).unwrap() else { panic!("no refusal") };
    assert!(refused.contains("no message of this protocol"), "{refused}");
    assert_eq!(admin.certificate("www", 0).unwrap(), leaf);
}

fn peer(service: &Running, uid: &str) -> Peer {
    let mut peer = Peer::start(&["owner", service.socket().to_str().unwrap(), uid, uid]);
    peer.expect("connected");
    peer
}

fn hears(peer: &mut Peer, what: &str) -> String {
    peer.say(what);
    peer.line()
}

#[test]
fn a_user_sees_its_own_keys_only_and_not_even_that_others_change() {
    if !root_or_skipped("play another user") {
        return;
    }
    let service = start(Config { socket_mode: 0o666, ..Config::default() });
    set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let mut root = administer(&service);
    import(&mut root, "api", EC);
    import(&mut root, "www", EC);
    let certificate = read_certificates(CERTIFICATE.as_bytes()).unwrap();
    store(&mut root, "www", &certificate).unwrap();
    let set = |root: &mut Admin, name: &str, uids: Vec<u32>| {
        root.keys(KeyCommand::SetAcl { name: named(name), acl: Acl { uids, gids: vec![] } }).unwrap();
    };
    set(&mut root, "www", vec![64_001]);
    let (mut one, mut two) = (peer(&service, "64001"), peer(&service, "64002"));
    assert_eq!((hears(&mut one, "mine"), hears(&mut two, "mine")), (named("www"), named("")));
    assert_eq!(hears(&mut one, "certificate www"), "done");
    assert!(hears(&mut two, "certificate www").contains("user 64002 may not use key \"www\""));
    assert!(hears(&mut one, "certificate api").contains("may not use"));
    assert!(hears(&mut one, "usage www").contains("only root and the service's own user"));
    assert!(hears(&mut one, "certify www").contains("only root and the service's own user"));
    root.keys(KeyCommand::Delete { name: named("api") }).unwrap();
    import(&mut root, "other", EC);
    assert_eq!(hears(&mut one, "mine"), "unchanged");
    set(&mut root, "other", vec![64_001, 64_002]);
    assert_eq!((hears(&mut one, "mine"), hears(&mut two, "mine")), (named("other www"), named("other")));
    set(&mut root, "www", vec![]);
    assert_eq!((hears(&mut one, "mine"), hears(&mut two, "mine")), (named("other"), named("unchanged")));
    assert!(hears(&mut one, "certificate www").contains("may not use"));
}

/// Clients from before the codes know the numbers from 0 to 4, and programs of another layout get one of theirs.
#[test]
fn a_refusal_begins_with_its_number_and_the_number_of_its_kind() {
    let service = start(Config::default());
    let attach = |abi| {
        let (name, slots, arena_bytes) = (named("test"), 64, 4096);
        Request::Attach(Attach { abi, slots, arena_bytes, name, adopt: None, reclaimable: false })
    };
    let mut buffer = [0; 64];
    for (request, number) in [
        (Request::Certificate { name: named("none"), index: 0 }, 1),
        (Request::Gateway(Hello { version: VERSION + 1, device: named("none") }), 5),
        (attach(ABI + 1), 5),
        (attach(ABI - 1), 5),
        (Request::CloseSession { handle: 7 }, 0),
    ] {
        let said = Raw::to(&service).say(encode(&request, &mut buffer).unwrap());
        assert_eq!(said[..2], [3, number], "{request:?}");
    }
}
