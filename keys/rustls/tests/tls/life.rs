//! Services that end and start, replaced keys, and withdrawn rights.

use crate::site::{Ends, Site};
use rustix::process::geteuid;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use rustls::version::{TLS12, TLS13};
use sidecore::keys::{Acl, KeyCommand};
use sidecore_rustls::{Options, StoredKey, stored, with_chain};
use sidecore_testing::skipped;
use std::thread;
use std::time::Duration;

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
    until(|| ends(&site).talk().is_ok());
}

/// Until a thread has found the service that is there again.
fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn no_signature_waits_for_a_service_that_is_away_unless_the_program_wants_it() {
    let mut site = Site::with(&["p256"]);
    // A signature that waits does so for longer than any test.
    let options = Options { restart_wait: Duration::from_secs(24 * 3600), ..site.options() };
    let key = StoredKey::find(&options, "p256").unwrap();
    let chain = vec![site.certificate("p256")];
    let [at_once, waiting] = [key.clone(), key.waiting()].map(|key| key.with_chain(chain.clone()).unwrap());
    let ends = |certified| Ends::new(certified, &chain[0], &TLS13);
    ends(&at_once).talk().unwrap();
    site.service = None;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let error = failed(ends(&at_once));
                    assert!(error.contains("systemctl start sidecore"), "{error}");
                }
            });
        }
    });
    thread::scope(|scope| {
        let patient = scope.spawn(|| ends(&waiting).talk());
        site.start();
        patient.join().unwrap().unwrap();
    });
    until(|| ends(&at_once).talk().is_ok());
    ends(&at_once).talk().unwrap();
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
