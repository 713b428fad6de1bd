//! Programs that fork with the module in them.

use crate::common::Site;
use crate::ffi::{Module, in_child};
use cryptoki_sys::{
    CKM_ECDSA_SHA256, CKR_CRYPTOKI_ALREADY_INITIALIZED, CKR_OPERATION_ACTIVE, CKR_SESSION_HANDLE_INVALID,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const FORKS: usize = 20;

#[test]
fn children_of_a_signing_process_go_on_with_sessions_and_handles() {
    let site = Site::with(&["p256"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let key = module.private(session, "p256");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let signers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let session = module.open().unwrap();
                    let mut signed = 0;
                    while !stop.load(Ordering::Relaxed) {
                        module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
                        signed += 1;
                    }
                    signed
                })
            })
            .collect();
        let children: Vec<bool> = (0..FORKS)
            .map(|_| {
                in_child(|| {
                    // The session of the thread that forked, and a handle that was found before.
                    let signature = module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
                    let own = module.open().unwrap();
                    let public = module.public(own, "p256");
                    module.verify(own, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
                })
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert!(signers.into_iter().all(|signer| signer.join().unwrap() > 0));
        assert_eq!(children, [true; FORKS]);
    });
    module.finalize().unwrap();
}

#[test]
fn a_session_that_a_thread_of_the_parent_uses_is_none_in_the_child() {
    let site = Site::with(&["p256"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let key = module.private(session, "p256");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
            }
        });
        // Each child gets its answer, whatever the thread was doing.
        let answered = |_| {
            in_child(|| {
                let signed = module.sign(session, CKM_ECDSA_SHA256, key, b"message");
                let expected = [CKR_SESSION_HANDLE_INVALID, CKR_OPERATION_ACTIVE];
                assert!(signed.as_ref().err().is_none_or(|rv| expected.contains(rv)), "{signed:?}");
            })
        };
        let all_answered = (0..FORKS).all(answered);
        stop.store(true, Ordering::Relaxed);
        assert!(all_answered);
    });
}

#[test]
fn a_child_may_initialise_the_module_once_and_has_no_sessions_then() {
    let site = Site::with(&["p256"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    assert_eq!(module.begin(&site, ""), Err(CKR_CRYPTOKI_ALREADY_INITIALIZED));
    let child = in_child(|| {
        module.begin(&site, "").unwrap();
        assert_eq!(module.begin(&site, ""), Err(CKR_CRYPTOKI_ALREADY_INITIALIZED));
        assert_eq!(module.close(session), Err(CKR_SESSION_HANDLE_INVALID));
        let own = module.open().unwrap();
        assert_ne!(own, session);
        let key = module.private(own, "p256");
        module.sign(own, CKM_ECDSA_SHA256, key, b"message").unwrap();
        module.finalize().unwrap();
    });
    assert!(child);
    module.close(session).unwrap();
}
