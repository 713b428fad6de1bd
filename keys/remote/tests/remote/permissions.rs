//! Permissions on keys: the near service, the far service and NATS each decide.

use super::site::{STRANGER, Site, User, named, pkcs1};
use sidecore::client::Error;
use sidecore::core::session::Op;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_testing::nats::Server;
use sidecore_testing::skipped;
use std::fs;

/// The near machine may ask for one key. All other needs of the roles are permitted.
const ACCOUNTS: &str = r#"
authorization {
  users = [
    { user: near, password: a, permissions: {
        publish: ["farm.keys.gateway.near", "farm.keys.ask.near.*.www"], subscribe: ["farm.keys.up.near.*"] } }
    { user: one, password: b, permissions: {
        publish: ["farm.keys.up.*.one"], subscribe: ["farm.keys.gateway.*", "farm.keys.ask.*.one.>"] } }
  ]
}
"#;

#[test]
fn a_key_server_offers_what_its_user_may_use_and_says_what_it_may_not() {
    let Some(nats) = Server::start() else { return };
    if !rustix::process::geteuid().is_root() {
        return skipped("becoming another user takes root");
    }
    let (near, far) = (Site::near(), Site::far());
    let public = far.make("www", Kind::P256);
    near.knows("www", &public);
    let _gateway = near.gateway(&nats.url());
    let key_server = far.key_server_of(STRANGER, &nats.url(), "one", &["www"]);
    let said = key_server.says("the key www is not offered");
    assert!(said.contains("may not use"), "{said}");
    let scheme = sidecore::spec::Scheme::EcdsaRaw;
    let mut user = User::new(&near, "www", scheme);
    assert!(matches!(user.call(Op::SignDigest, &[7; 32]), Err(error) if named(&error)));
    let may = |uids: &[u32]| {
        let acl = Acl { uids: uids.to_vec(), gids: Vec::new() };
        far.admin().keys(KeyCommand::SetAcl { name: "www".to_owned(), acl }).unwrap();
    };
    may(&[STRANGER]);
    user.call_soon(Op::SignDigest, &[7; 32]);
    // The permission ends while the key is in use.
    may(&[]);
    user.refused_soon(Op::SignDigest, &[7; 32]);
}

#[test]
fn a_user_who_may_not_list_keys_is_told_to_name_them() {
    let Some(nats) = Server::start() else { return };
    if !rustix::process::geteuid().is_root() {
        return skipped("becoming another user takes root");
    }
    let far = Site::far();
    far.key_server_without(STRANGER, &nats.url()).says("or name the keys with --allow");
}

#[test]
fn nats_refuses_what_a_gateway_may_not_ask_for_and_all_else_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("accounts.conf");
    fs::write(&file, ACCOUNTS).unwrap();
    let Some(nats) = Server::start_with(&["-c", file.to_str().unwrap()]) else { return };
    let with = |user: &str| nats.url().replace("//", &format!("//{user}@"));
    let (near, far) = (Site::near(), Site::far());
    for name in ["www", "secret"] {
        near.knows(name, &far.make(name, Kind::Rsa2048));
    }
    let gateway = near.gateway(&with("near:a"));
    let _key_server = far.key_server(&with("one:b"), "one");
    let mut user = User::new(&near, "www", pkcs1());
    user.call_soon(Op::Sign, b"message");
    let mut other = User::new(&near, "secret", pkcs1());
    let refused: Error = other.denied_soon(Op::Sign, b"message");
    assert!(refused.to_string().contains("NATS does not let"), "{refused}");
    let said = gateway.says("NATS says");
    assert!(said.contains("farm.keys.ask.near.one.secret"), "{said}");
    user.call_soon(Op::Sign, b"message");
    other.denied_soon(Op::Sign, b"message");
}

#[test]
fn a_gateway_learns_of_no_key_that_is_for_another_one() {
    let Some(nats) = Server::start() else { return };
    let (near, far) = (Site::near(), Site::far());
    for name in ["www", "secret"] {
        near.knows(name, &far.make(name, Kind::P256));
    }
    let gateway = near.gateway(&nats.url());
    let _key_server = far.key_server_with(&nats.url(), "one", &["--allow", "near:www", "other:secret"]);
    gateway.says("the key server one offers 1 keys");
    let scheme = sidecore::spec::Scheme::EcdsaRaw;
    User::new(&near, "www", scheme.clone()).call_soon(Op::SignDigest, &[7; 32]);
    User::new(&near, "secret", scheme).refused_soon(Op::SignDigest, &[7; 32]);
}
