//! Services that end and start, replaced keys, and withdrawn rights.

use crate::site::{Ends, Site};
use rustix::process::geteuid;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use rustls::version::{TLS12, TLS13};
use sidecore::keys::{Acl, KeyCommand};
use sidecore_rustls::{stored, with_chain};
use sidecore_testing::skipped;
use std::thread;

/// A user without a name.
const USER: u32 = 64_123;

fn named(name: &str) -> String {
    name.to_owned()
}

fn failed(ends: Ends) -> String {
    let error = ends.talk().unwrap_err();
    assert!(matches!(error, rustls::Error::Other(_)), "{error}");
    error.to_string()
}

#[test]
fn a_server_goes_on_when_the_service_starts_again() {
    let mut site = Site::with(&["p256"]);
    let certified = stored(&site.options(), "p256").unwrap();
    let ends = |site: &Site| Ends::new(&certified, &site.certificate("p256"), &TLS13);
    ends(&site).talk().unwrap();
    site.service = None;
    site.start();
    ends(&site).talk().unwrap();
    site.service = None;
    let error = failed(ends(&site));
    assert!(error.contains("no service at") && error.contains("systemctl start sidecore"), "{error}");
    let error = stored(&site.options(), "p256").unwrap_err().to_string();
    assert!(error.contains("systemctl start sidecore"), "{error}");
    site.start();
    ends(&site).talk().unwrap();
}

#[test]
fn a_key_that_was_replaced_signs_nothing_for_the_old_certificate() {
    let site = Site::with(&["p256"]);
    let old = stored(&site.options(), "p256").unwrap();
    Ends::new(&old, &site.certificate("p256"), &TLS12).talk().unwrap();
    let old_certificate = site.certificate("p256");
    let pkcs8 = site.make("p256", "second");
    site.keys(KeyCommand::Replace { name: named("p256"), pkcs8 });
    for version in [&TLS12, &TLS13] {
        let error = failed(Ends::new(&old, &old_certificate, version));
        assert!(error.contains("was replaced") && error.contains("load it again"), "{error}");
    }
    let error = with_chain(&site.options(), "p256", vec![old_certificate]).unwrap_err().to_string();
    assert!(error.contains("put the key's own first"), "{error}");
    site.certify("p256", &site.certificate("second"));
    let new = stored(&site.options(), "p256").unwrap();
    Ends::new(&new, &site.certificate("second"), &TLS13).talk().unwrap();
    site.keys(KeyCommand::Delete { name: named("p256") });
    let error = failed(Ends::new(&new, &site.certificate("second"), &TLS13));
    assert!(error.contains("no key of this name") && error.contains("sidecore keys list"), "{error}");
}

#[test]
fn a_key_that_may_no_longer_sign_says_so() {
    let site = Site::with(&["rsa2048"]);
    let certified = stored(&site.options(), "rsa2048").unwrap();
    let ends = || Ends::new(&certified, &site.certificate("rsa2048"), &TLS12);
    ends().talk().unwrap();
    site.keys(KeyCommand::SetUsage { name: named("rsa2048"), usage: "decrypt".parse().unwrap() });
    let error = failed(ends());
    assert!(error.contains("sidecore keys usage rsa2048 sign,decrypt"), "{error}");
    site.keys(KeyCommand::SetUsage { name: named("rsa2048"), usage: "sign".parse().unwrap() });
    ends().talk().unwrap();
}

#[test]
fn a_user_without_the_right_any_more_makes_no_handshake() {
    if !geteuid().is_root() {
        return skipped("only root can become another user");
    }
    let site = Site::with(&["p256"]);
    let users = |uids: Vec<u32>| {
        site.keys(KeyCommand::SetAcl { name: named("p256"), acl: Acl { uids, gids: Vec::new() } });
    };
    let as_user = |work: &(dyn Fn() + Sync)| {
        thread::scope(|scope| {
            let work = || {
                let (uid, gid) = (rustix::process::Uid::from_raw(USER), rustix::process::Gid::from_raw(USER));
                // These change this thread only.
                set_thread_groups(&[]).unwrap();
                set_thread_res_gid(gid, gid, gid).unwrap();
                set_thread_res_uid(uid, uid, uid).unwrap();
                work();
            };
            scope.spawn(work).join().unwrap();
        });
    };
    as_user(&|| {
        let error = stored(&site.options(), "p256").unwrap_err().to_string();
        assert!(error.contains("may not use") && error.contains("sidecore keys acl"), "{error}");
    });
    users(vec![USER]);
    let certificate = site.certificate("p256");
    as_user(&|| {
        let certified = stored(&site.options(), "p256").unwrap();
        Ends::new(&certified, &certificate, &TLS13).talk().unwrap();
    });
    let certified = stored(&site.options(), "p256").unwrap();
    as_user(&|| Ends::new(&certified, &certificate, &TLS13).talk().unwrap());
    users(Vec::new());
    as_user(&|| {
        let error = failed(Ends::new(&certified, &certificate, &TLS13));
        assert!(error.contains("may not use") && error.contains("sidecore keys acl"), "{error}");
    });
    // The list holds for users, and root may always.
    Ends::new(&certified, &certificate, &TLS13).talk().unwrap();
}
