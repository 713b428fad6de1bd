//! Rights on a stored key: other users, their groups and their children, while rights change.
//!
//! Only root can act as other users; without root these tests are reported as skipped.

use crate::common::{Running, administer, root_or_skipped};
use crate::peer::Peer;
use sidecore::client::Admin;
use sidecore::config::Config;
use sidecore::engine::crypto::Secret;
use sidecore::keys::{Acl, KeyCommand};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

const RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
const USER: &str = "64001";
const OTHER: &str = "64002";
const GROUP: u32 = 64_100;
const GROUPS: &str = "64001,64100";

/// A service that is open to all users, with the key `www` for those of `acl`; `None`: not root.
fn serve(acl: Acl) -> Option<(Running, Admin)> {
    if !root_or_skipped("play another user") {
        return None;
    }
    let service = crate::common::start(Config { socket_mode: 0o666, ..Config::default() });
    set_permissions(service.socket().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    let mut root = administer(&service);
    let command = KeyCommand::Import { name: "www".to_owned(), pkcs8: Secret::from(RSA), acl };
    root.keys(command).unwrap();
    Some((service, root))
}

fn peer(service: &Running, uid: &str, gids: &str) -> Peer {
    let mut peer = Peer::start(&["owner", service.socket().to_str().unwrap(), uid, gids]);
    peer.expect("connected");
    peer
}

fn hears(peer: &mut Peer, what: &str) -> String {
    peer.say(what);
    peer.line()
}

fn user(uid: &str) -> Acl {
    Acl { uids: vec![uid.parse().unwrap()], gids: vec![] }
}

fn group(gid: u32) -> Acl {
    Acl { uids: vec![], gids: vec![gid] }
}

fn set_acl(root: &mut Admin, acl: Acl) {
    root.keys(KeyCommand::SetAcl { name: "www".to_owned(), acl }).unwrap();
}

#[test]
fn a_key_is_for_its_users_and_groups_only() {
    for acl in [user(USER), group(GROUP), group(USER.parse().unwrap())] {
        let Some((service, _root)) = serve(acl) else { return };
        let mut permitted = peer(&service, USER, GROUPS);
        for what in ["info www", "open www", "sign"] {
            assert_eq!(hears(&mut permitted, what), "done", "{what}");
        }
        let mut other = peer(&service, OTHER, OTHER);
        for what in ["info www", "open www"] {
            let said = hears(&mut other, what);
            assert!(said.contains("user 64002 may not use key \"www\""), "{what}: {said}");
        }
    }
}

#[test]
fn users_neither_see_nor_change_the_keys() {
    let Some((service, mut root)) = serve(user(USER)) else { return };
    let mut permitted = peer(&service, USER, USER);
    for what in ["list", "delete www", "acl www", "import new", "import www"] {
        let said = hears(&mut permitted, what);
        assert!(said.contains("only root and the service's own user"), "{what}: {said}");
    }
    let keys = root.keys(KeyCommand::List { after: String::new() }).unwrap();
    assert_eq!((keys.len(), &keys[0].acl), (1, &user(USER)));
}

#[test]
fn a_right_that_is_taken_away_ends_the_sessions_of_those_who_lost_it() {
    let Some((service, mut root)) = serve(Acl { uids: vec![64_001, 64_002], gids: vec![] }) else { return };
    let (mut one, mut two) = (peer(&service, USER, USER), peer(&service, OTHER, OTHER));
    for peer in [&mut one, &mut two] {
        assert_eq!(hears(peer, "open www"), "done");
        assert_eq!(hears(peer, "sign"), "done");
    }
    set_acl(&mut root, user(OTHER));
    assert!(hears(&mut one, "sign").contains("no session"));
    assert!(hears(&mut one, "open www").contains("may not use"));
    assert_eq!(hears(&mut two, "sign"), "done");
    set_acl(&mut root, user(USER));
    assert!(hears(&mut one, "sign").contains("no session"), "an old handle stays closed");
    assert_eq!(hears(&mut one, "open www"), "done");
    assert_eq!(hears(&mut one, "sign"), "done");
}

#[test]
fn a_child_that_becomes_another_user_or_leaves_a_group_keeps_no_key_that_it_may_not_use() {
    let Some((service, mut root)) = serve(user(USER)) else { return };
    let mut parent = peer(&service, USER, GROUPS);
    assert_eq!(hears(&mut parent, "open www"), "done");
    // The control: a child of the same user and groups has its parent's session.
    assert_eq!(hears(&mut parent, &format!("child {USER} {GROUPS}")), "done");
    assert!(hears(&mut parent, &format!("child {OTHER} {GROUPS}")).contains("no session"));
    set_acl(&mut root, group(GROUP));
    assert_eq!(hears(&mut parent, "sign"), "done", "permitted by its group now");
    assert_eq!(hears(&mut parent, &format!("child {USER} {GROUPS}")), "done");
    assert!(hears(&mut parent, &format!("child {USER} {USER}")).contains("no session"));
    assert_eq!(hears(&mut parent, "sign"), "done");
}
