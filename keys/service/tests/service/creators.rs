//! Users who have keys made for themselves, up to their quota.
//!
//! Only root can act as other users; without root these tests are reported as skipped.

use crate::common::{Running, administer, root_or_skipped, start};
use crate::peer::{Peer, until};
use sidecore::client::Admin;
use sidecore::config::{Config, CreatorsConfig, KeysConfig, LimitsConfig};
use sidecore::engine::crypto::Secret;
use sidecore::keys::{Acl, KeyCommand, Usage};
use sidecore::spec::KeyToken;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

const EC: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-p-256.pkcs8.der");
const GROUP: u32 = 64_100;
const MEMBERS: &str = "64001,64100";
const OTHER: &str = "64002,64100";

fn serve() -> Option<(Running, Admin)> {
    serve_with(2, LimitsConfig::default())
}

fn serve_with(per_user: u16, limits: LimitsConfig) -> Option<(Running, Admin)> {
    if !root_or_skipped("play another user") {
        return None;
    }
    let creators = CreatorsConfig { gids: vec![GROUP], per_user };
    let keys = KeysConfig { creators, ..KeysConfig::default() };
    let service = start(Config { socket_mode: 0o666, keys, limits, ..Config::default() });
    set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let root = administer(&service);
    Some((service, root))
}

fn peer(service: &Running, uid: &str, gids: &str) -> Peer {
    let mut peer = Peer::start(&["owner", service.socket().to_str().unwrap(), uid, gids]);
    peer.expect("connected");
    peer
}

fn read_token(text: &str) -> KeyToken {
    KeyToken(std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()))
}

fn hears(peer: &mut Peer, what: &str) -> String {
    peer.say(what);
    peer.line()
}

#[test]
fn a_creator_has_keys_of_its_own_up_to_its_quota_and_deletes_them() {
    let Some((service, mut root)) = serve() else { return };
    let (mut one, mut two) = (peer(&service, "64001", MEMBERS), peer(&service, "64002", OTHER));
    assert_eq!(hears(&mut one, "generate a"), "done");
    assert_eq!(hears(&mut one, "generate b"), "done");
    let said = hears(&mut one, "generate c");
    assert!(said.contains("user 64001 has 2 keys already (keys.creators.per_user)"), "{said}");
    assert_eq!(hears(&mut two, "generate c"), "done", "another user has a quota of its own");
    assert_eq!((hears(&mut one, "mine"), hears(&mut two, "mine")), ("a b".to_owned(), "c".to_owned()));
    let listed = root.my_keys(None).unwrap().unwrap().keys;
    assert_eq!(listed.iter().map(|key| key.owner).collect::<Vec<_>>(), [Some(64_001), Some(64_001), Some(64_002)]);
    // Neither another's key nor one of root.
    let (name, acl) = ("www".to_owned(), Acl { uids: vec![64_001], gids: vec![] });
    root.keys(KeyCommand::Import { name, pkcs8: Secret::from(EC), acl }).unwrap();
    for other in ["delete c", "delete www", "delete none", "acl a", "import new", "usage a", "list"] {
        let said = hears(&mut one, other);
        assert!(said.contains("only root and the service's own user"), "{other}: {said}");
    }
    assert!(hears(&mut two, "generate a").contains("already"), "a name is taken once");
    assert_eq!(hears(&mut one, "delete a"), "done");
    assert_eq!(hears(&mut one, "generate c2"), "done");
    root.keys(KeyCommand::Delete { name: "b".to_owned() }).unwrap();
    assert_eq!(hears(&mut one, "generate d"), "done", "a key that root deleted counts no more");
    assert_eq!(hears(&mut one, "mine"), "c2 d www");
}

#[test]
fn a_creator_keeps_a_key_that_was_made_for_its_program() {
    let Some((service, mut root)) = serve() else { return };
    let (mut one, mut two) = (peer(&service, "64001", MEMBERS), peer(&service, "64002", OTHER));
    let mut stranger = peer(&service, "64003", "64003");
    let (token, strange) = (hears(&mut one, "make"), hears(&mut stranger, "make"));
    // The token alone gives no right, neither to another creator nor to one who is none.
    assert!(hears(&mut two, &format!("keep {token} stolen")).contains("for a program of another user"));
    assert!(hears(&mut stranger, &format!("keep {strange} own")).contains("only root and the service's own user"));
    let none = format!("keep {} none", "0".repeat(32));
    assert!(hears(&mut one, &none).contains("the service has no such key"));
    assert!(hears(&mut one, &format!("keep {token} ../a")).contains("letters, digits"));
    assert_eq!(hears(&mut one, &format!("keep {token} a")), "done");
    assert!(hears(&mut one, &format!("keep {token} a")).contains("is stored as \"a\""));
    let command = KeyCommand::KeepMade { token: read_token(&token), name: "roots".to_owned() };
    let said = root.keys(command).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("is stored as \"a\""), "{said}");
    assert_eq!(hears(&mut one, "drop"), "done");
    assert_eq!((hears(&mut one, "mine"), hears(&mut two, "mine")), ("a".to_owned(), String::new()));
    assert_eq!(root.my_keys(None).unwrap().unwrap().keys[0].owner, Some(64_001));
    let mut root_keeps = || {
        let command = KeyCommand::KeepMade { token: read_token(&token), name: "b".to_owned() };
        root.keys(command).map(|_| ()).unwrap_err().to_string()
    };
    until("the program's key is gone", || root_keeps().contains("no such key"));
    // It counts as one that was generated.
    assert_eq!(hears(&mut one, "generate b"), "done");
    let token = hears(&mut one, "make");
    let said = hears(&mut one, &format!("keep {token} c"));
    assert!(said.contains("user 64001 has 2 keys already (keys.creators.per_user)"), "{said}");
    assert_eq!(hears(&mut one, "mine"), "a b");
}

#[test]
fn sessions_by_a_makers_token_are_the_stored_keys_once_it_is_kept() {
    type Term = fn(String) -> KeyCommand;
    let Some((service, mut root)) = serve() else { return };
    let terms: [(&str, Term, &str); 4] = [
        ("limited", |name| KeyCommand::SetRate { name, rate: Some(1) }, "limit"),
        ("restricted", |name| KeyCommand::SetUsage { name, usage: Usage::SIGN }, "done"),
        ("withdrawn", |name| KeyCommand::SetAcl { name, acl: Acl::default() }, "no session of this handle"),
        ("deleted", |name| KeyCommand::Delete { name }, "no session of this handle"),
    ];
    for (name, term, expected) in terms {
        // Each has its quota.
        let (mut maker, mut friend) = (peer(&service, "64001", MEMBERS), peer(&service, "64003", "64003"));
        let token = hears(&mut maker, "make");
        for process in [&mut maker, &mut friend] {
            assert_eq!(hears(process, &format!("open-made {token}")), "done");
            assert_eq!(hears(process, "sign"), "done");
        }
        assert_eq!(hears(&mut maker, &format!("keep {token} {name}")), "done");
        assert_eq!(hears(&mut maker, "sign"), "done", "the session of who may use the stored key goes on");
        let said = hears(&mut friend, "sign");
        assert!(said.contains("no session of this handle"), "who holds the token and is not on the list: {said}");
        for process in [&mut maker, &mut friend] {
            let said = hears(process, &format!("open-made {token}"));
            assert!(said.contains(&format!("is stored as {name:?}")), "{said}");
        }
        root.keys(term(name.to_owned())).unwrap();
        // The bucket of one second holds one.
        let said = (0..3).map(|_| hears(&mut maker, "sign")).last().unwrap();
        assert!(said.contains(expected), "{name}: {said}");
        if name != "deleted" {
            root.keys(KeyCommand::Delete { name: name.to_owned() }).unwrap();
        }
        let said = hears(&mut maker, "sign");
        assert!(said.contains("no session of this handle"), "{name}: {said}");
    }
}

#[test]
fn a_creator_stores_certificates_for_its_own_keys_alone() {
    let Some((service, mut root)) = serve() else { return };
    let (mut one, mut two) = (peer(&service, "64001", MEMBERS), peer(&service, "64002", OTHER));
    assert_eq!(hears(&mut one, "generate a"), "done");
    let (name, acl) = ("www".to_owned(), Acl { uids: vec![64_001], gids: vec![] });
    root.keys(KeyCommand::Import { name, pkcs8: Secret::from(EC), acl }).unwrap();
    for what in ["certify", "certify-last", "decertify"] {
        assert!(hears(&mut one, &format!("{what} www")).contains("only root and the service's own user"), "{what}");
        assert!(hears(&mut two, &format!("{what} a")).contains("only root and the service's own user"), "{what}");
    }
    assert_eq!(hears(&mut one, "certify a"), "done");
    let said = hears(&mut one, "certify-last a");
    assert!(said.contains("certificate"), "no certificate is stored unread: {said}");
    assert_eq!(hears(&mut one, "decertify a"), "done");
    let refused = (0..100).map(|_| hears(&mut one, "decertify a")).find(|said| said != "done").unwrap();
    assert!(refused.contains("too many changes of keys"), "{refused}");
}

#[test]
fn creators_leave_places_for_the_keys_of_root() {
    let Some((service, mut root)) = serve_with(16, LimitsConfig { keys: 9, ..LimitsConfig::default() }) else { return };
    let (mut one, mut two) = (peer(&service, "64001", MEMBERS), peer(&service, "64002", OTHER));
    for name in ["a", "b", "c", "d"] {
        assert_eq!(hears(&mut one, &format!("generate {name}1")), "done");
    }
    for name in ["a", "b", "c"] {
        assert_eq!(hears(&mut two, &format!("generate {name}2")), "done");
    }
    for one in [&mut one, &mut two] {
        let said = hears(one, "generate more");
        assert!(said.contains("the last 2 places for keys are for root"), "{said}");
    }
    for name in ["www", "mail"] {
        let acl = Acl::default();
        root.keys(KeyCommand::Import { name: name.to_owned(), pkcs8: Secret::from(EC), acl }).unwrap();
    }
}

#[test]
fn a_creator_that_makes_and_deletes_keys_without_a_pause_is_refused_alone() {
    let Some((service, mut root)) = serve() else { return };
    let (mut one, mut two) = (peer(&service, "64001", MEMBERS), peer(&service, "64002", OTHER));
    // 16 a minute, all in a row.
    let mut said = String::new();
    let made = (0..100).take_while(|number| {
        said = hears(&mut one, if number % 2 == 0 { "generate a" } else { "delete a" });
        said == "done"
    });
    assert!((16..40).contains(&made.count()), "{said}");
    assert!(said.contains("too many changes of keys, 16 a minute"), "{said}");
    assert_eq!(hears(&mut two, "generate b"), "done");
    let (name, acl) = ("www".to_owned(), Acl::default());
    root.keys(KeyCommand::Import { name, pkcs8: Secret::from(EC), acl }).unwrap();
}

#[test]
fn what_is_no_creators_is_refused() {
    let Some((service, _root)) = serve() else { return };
    let mut stranger = peer(&service, "64001", "64001");
    assert!(hears(&mut stranger, "generate a").contains("only root and the service's own user"));
    let mut member = peer(&service, "64001", MEMBERS);
    let cases = [
        ("generate-for 64002 a", "name the users of a key"),
        ("generate-slow a", "RSA keys of more than 4096 bits"),
        ("generate ../a", "letters, digits"),
        ("generate a\0", "letters, digits"),
    ];
    for (what, refusal) in cases {
        let said = hears(&mut member, what);
        assert!(said.contains(refusal), "{what}: {said}");
    }
    assert_eq!(hears(&mut member, "generate-for 64001 a"), "done");
}

#[test]
fn subordinate_users_of_a_creator_share_its_quota_and_its_changes() {
    if !root_or_skipped("play another user") {
        return;
    }
    let creators = CreatorsConfig { gids: vec![GROUP], per_user: 2 };
    let keys = KeysConfig { creators, ..KeysConfig::default() };
    let subordinate_users = Some("64001:100000:65536".parse().unwrap());
    let service = start(Config { socket_mode: 0o666, keys, subordinate_users, ..Config::default() });
    set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let mut one = peer(&service, "64001", MEMBERS);
    let mut containers = ["100000", "100001"].map(|uid| peer(&service, uid, "64001,64100"));
    assert_eq!(hears(&mut one, "generate a"), "done");
    assert_eq!(hears(&mut containers[0], "generate b"), "done");
    for (number, container) in containers.iter_mut().enumerate() {
        let said = hears(container, &format!("generate c{number}"));
        assert!(said.contains("user 64001 has 2 keys already (keys.creators.per_user)"), "{said}");
    }
    // The key is its maker's alone.
    assert!(hears(&mut containers[1], "delete b").contains("only root and the service's own user"));
    let mut changes = 4;
    let refused = loop {
        changes += 1;
        let said = hears(&mut containers[changes % 2], "generate c");
        if said.contains("too many changes") {
            break said;
        }
        assert!(changes < 20, "{said}");
    };
    assert!(refused.contains("user 64001 has asked for too many changes of keys, 16 a minute"), "{refused}");
    let other = hears(&mut peer(&service, "64002", OTHER), "generate d");
    assert_eq!(other, "done", "another creator");
}

#[test]
fn names_of_renewed_keys_are_no_creators() {
    let Some((service, _root)) = serve() else { return };
    let mut one = peer(&service, "64001", MEMBERS);
    for name in ["www.1795621440", "www.0000000000", "a.b.1795621440"] {
        let said = hears(&mut one, &format!("generate {name}"));
        assert!(said.contains("are for renewals of administrators' keys"), "{name}: {said}");
        let token = hears(&mut one, "make");
        let said = hears(&mut one, &format!("keep {token} {name}"));
        assert!(said.contains("are for renewals of administrators' keys"), "{name}: {said}");
    }
    assert_eq!(hears(&mut one, "generate www.179562144"), "done");
}
