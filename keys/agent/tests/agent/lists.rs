//! Which keys are offered, and which of them sign.

use crate::raw::{FAILURE, blob, list, sign, signature};
use crate::site::{KEYS, Site};
use sidecore::keys::{Acl, KeyCommand, Kind, Usage};
use std::path::Path;

const ED25519: &[u8] = include_bytes!("../../../service/src/engine/crypto/keys/test-ed25519.pkcs8.der");

#[test]
fn rsa_signs_with_sha2_and_without_it_not_at_all() {
    let site = Site::with(&[("rsa", Kind::Rsa2048)]);
    let agent = site.agent(&[]);
    let key = blob(&agent.socket, "rsa");
    for (flags, name) in [(2, "rsa-sha2-256"), (4, "rsa-sha2-512")] {
        let (algorithm, signature) = signature(&sign(&agent.socket, &key, flags));
        assert_eq!((algorithm.as_str(), signature.len()), (name, 256));
    }
    for flags in [0, 1, 1 << 31] {
        assert_eq!(sign(&agent.socket, &key, flags), FAILURE, "{flags}");
    }
    assert!(agent.said().contains("rsa-sha2-256"), "{}", agent.said());
}

#[test]
fn keys_that_do_not_sign_are_not_offered() {
    let site = Site::with(&KEYS);
    for (name, kind) in [("x", Kind::X25519), ("kem", Kind::MlKem768), ("dsa", Kind::MlDsa65)] {
        site.make(name, kind, Acl::default());
    }
    site.make("decrypts", Kind::Rsa2048, Acl::default());
    site.keys(KeyCommand::SetUsage { name: "decrypts".to_owned(), usage: Usage::DECRYPT });
    let agent = site.agent(&[]);
    let names: Vec<String> = list(&agent.socket).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["ed25519", "p256", "p384", "rsa"]);
    // Of a key that signed so far.
    let key = blob(&agent.socket, "rsa");
    signature(&sign(&agent.socket, &key, 2));
    site.keys(KeyCommand::SetUsage { name: "rsa".to_owned(), usage: Usage::DECRYPT });
    assert_eq!(sign(&agent.socket, &key, 2), FAILURE);
    assert_eq!(list(&agent.socket).len(), 3);
}

#[test]
fn a_key_that_was_replaced_or_deleted_since_the_list_signs_no_more() {
    let site = Site::with(&[("a", Kind::Ed25519), ("b", Kind::Ed25519)]);
    let agent = site.agent(&[]);
    for used in [false, true] {
        let old = blob(&agent.socket, "a");
        if used {
            signature(&sign(&agent.socket, &old, 0));
        }
        // Of this name again, with another private part.
        if used {
            site.keys(KeyCommand::Replace { name: "a".to_owned(), pkcs8: ED25519.into() });
        } else {
            site.keys(KeyCommand::Delete { name: "a".to_owned() });
            site.make("a", Kind::Ed25519, Acl::default());
        }
        assert_eq!(sign(&agent.socket, &old, 0), FAILURE);
        let new = blob(&agent.socket, "a");
        assert_ne!(new, old);
        assert_eq!(signature(&sign(&agent.socket, &new, 0)).0, "ssh-ed25519");
    }
    let key = blob(&agent.socket, "b");
    site.keys(KeyCommand::Delete { name: "b".to_owned() });
    assert_eq!(sign(&agent.socket, &key, 0), FAILURE);
}

#[test]
fn a_key_that_moved_to_another_name_signs_on() {
    let site = Site::new();
    let import = |name: &str| {
        site.keys(KeyCommand::Import { name: name.to_owned(), pkcs8: ED25519.into(), acl: Acl::default() });
    };
    import("a");
    let agent = site.agent(&[]);
    let key = blob(&agent.socket, "a");
    import("b");
    assert_eq!(list(&agent.socket).len(), 1, "a key with two names is offered once");
    site.keys(KeyCommand::Delete { name: "a".to_owned() });
    signature(&sign(&agent.socket, &key, 0));
    assert_eq!(list(&agent.socket), [(key, "b".to_owned())]);
}

#[test]
fn keys_for_ssh_are_offered_alone_where_there_are_some_and_names_have_precedence() {
    let site = Site::with(&[("a", Kind::Ed25519), ("b", Kind::P256), ("c", Kind::MlDsa65)]);
    let offered = |agent: &Path| -> Vec<String> { list(agent).into_iter().map(|(_, name)| name).collect() };
    let (all, named) = (site.agent(&[]), site.agent_at("named", &["--keys", "b"]));
    assert_eq!(offered(&all.socket), ["a", "b"], "as a version did that knew no usage ssh");
    let unmarked = blob(&all.socket, "b");
    site.keys(KeyCommand::SetUsage { name: "a".to_owned(), usage: "ssh".parse().unwrap() });
    assert_eq!((offered(&all.socket), offered(&named.socket)), (vec!["a".to_owned()], vec!["b".to_owned()]));
    assert_eq!(sign(&all.socket, &unmarked, 0), FAILURE);
    assert!(all.said().contains("the key b: other keys have the usage ssh"), "{}", all.said());
    signature(&sign(&named.socket, &unmarked, 0));
    // Without the mark all is as before.
    site.keys(KeyCommand::SetUsage { name: "a".to_owned(), usage: Usage::SIGN });
    signature(&sign(&all.socket, &unmarked, 0));
    assert_eq!(offered(&all.socket), ["a", "b"]);
}

#[test]
fn names_choose_keys_and_their_order() {
    let site = Site::with(&[("a", Kind::Ed25519), ("b", Kind::P256), ("c", Kind::Ed25519)]);
    let hidden = blob(&site.agent_at("all", &[]).socket, "b");
    let agent = site.agent(&["--keys", "c,none,a"]);
    let names: Vec<String> = list(&agent.socket).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["c", "a"]);
    assert_eq!(sign(&agent.socket, &hidden, 0), FAILURE);
}

#[test]
fn keys_of_several_services_are_offered_and_one_that_is_away_hides_no_other() {
    let (one, mut other) = (Site::with(&[("a", Kind::Ed25519)]), Site::with(&[("b", Kind::Ed25519)]));
    let second = other.path("service");
    let agent = one.agent(&["--service", second.to_str().unwrap()]);
    let names = || -> Vec<String> { list(&agent.socket).into_iter().map(|(_, name)| name).collect() };
    assert_eq!(names(), ["a", "b"]);
    let (first, second) = (blob(&agent.socket, "a"), blob(&agent.socket, "b"));
    signature(&sign(&agent.socket, &first, 0));
    signature(&sign(&agent.socket, &second, 0));
    other.stop_service();
    assert_eq!(names(), ["a"]);
    signature(&sign(&agent.socket, &first, 0));
    assert_eq!(sign(&agent.socket, &second, 0), FAILURE);
}
