//! The module's life, its sessions, and services that come and go.

use crate::common::Site;
use crate::ffi::{Module, call, mechanism};
use cryptoki_sys::{
    CK_FALSE, CK_SESSION_INFO, CK_SLOT_INFO, CK_TRUE, CKA_DECRYPT, CKA_SIGN, CKF_DONT_BLOCK, CKF_TOKEN_PRESENT,
    CKM_ECDSA_SHA256, CKM_EDDSA, CKM_RSA_PKCS, CKM_SHA256_RSA_PKCS, CKO_PRIVATE_KEY, CKR_ARGUMENTS_BAD,
    CKR_CRYPTOKI_NOT_INITIALIZED, CKR_DEVICE_ERROR, CKR_FUNCTION_NOT_SUPPORTED, CKR_KEY_FUNCTION_NOT_PERMITTED,
    CKR_KEY_HANDLE_INVALID, CKR_NO_EVENT, CKR_SESSION_COUNT, CKR_SESSION_HANDLE_INVALID, CKR_SLOT_ID_INVALID,
    CKR_USER_ALREADY_LOGGED_IN, CKR_USER_NOT_LOGGED_IN, CKR_USER_TYPE_INVALID, CKS_RW_PUBLIC_SESSION,
    CKS_RW_USER_FUNCTIONS, CKU_CONTEXT_SPECIFIC, CKU_SO, CKU_USER,
};
use sidecore::keys::{KeyCommand, Kind, Usage};
use std::collections::HashSet;
use std::ptr;
use std::sync::Barrier;
use std::thread;

#[test]
fn nothing_works_before_the_begin_or_after_the_end() {
    let site = Site::with(&[]);
    let module = Module::load(&site);
    let dead = Err(CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_eq!(module.open().map(|_| ()), dead);
    assert_eq!(module.finalize(), dead);
    for wrong in ["socket", "color=red", "timeout_ms=0"] {
        assert_eq!(module.initialize(wrong), Err(CKR_ARGUMENTS_BAD), "{wrong}");
    }
    module.begin(&site, "").unwrap();
    let session = module.open().unwrap();
    assert_eq!(call!(module, C_Finalize(ptr::dangling_mut())), Err(CKR_ARGUMENTS_BAD));
    module.finalize().unwrap();
    assert_eq!(module.open().map(|_| ()), dead);
    assert_eq!(call!(module, C_DigestInit(session, ptr::null_mut())), dead);
    module.begin(&site, "").unwrap();
    assert_eq!(module.close(session), Err(CKR_SESSION_HANDLE_INVALID), "of the life before");
    assert_eq!(call!(module, C_DigestInit(session, ptr::null_mut())), Err(CKR_FUNCTION_NOT_SUPPORTED));
}

#[test]
fn sessions_have_a_limit_and_closing_makes_room() {
    const MOST: usize = 16_384;
    let module = Module::of(&Site::with(&[]));
    let sessions: Vec<_> = (0..MOST).map(|_| module.open().unwrap()).collect();
    assert_eq!(module.open(), Err(CKR_SESSION_COUNT));
    assert_eq!(sessions.iter().collect::<HashSet<_>>().len(), MOST);
    module.close(sessions[7]).unwrap();
    assert_eq!(module.close(sessions[7]), Err(CKR_SESSION_HANDLE_INVALID));
    let other = module.open().unwrap();
    assert!(!sessions.contains(&other), "no handle is used twice");
    assert_eq!(module.open(), Err(CKR_SESSION_COUNT));
    call!(module, C_CloseAllSessions(0)).unwrap();
    assert_eq!(module.close(other), Err(CKR_SESSION_HANDLE_INVALID));
    module.open().unwrap();
}

#[test]
fn the_end_while_others_sign_harms_none_of_them() {
    let site = Site::with(&["p256"]);
    let module = Module::load(&site);
    for _ in 0..10 {
        module.begin(&site, "").unwrap();
        let first = module.open().unwrap();
        let key = module.private(first, "p256");
        let ready = Barrier::new(5);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let session = module.open().unwrap();
                    module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
                    ready.wait();
                    let failed = loop {
                        if let Err(rv) = module.sign(session, CKM_ECDSA_SHA256, key, b"message") {
                            break rv;
                        }
                    };
                    assert!(
                        [CKR_CRYPTOKI_NOT_INITIALIZED, CKR_SESSION_HANDLE_INVALID].contains(&failed),
                        "{failed:#x}"
                    );
                });
            }
            ready.wait();
            module.finalize().unwrap();
        });
    }
}

#[test]
fn login_takes_any_pin_and_belongs_to_the_process() {
    let module = Module::of(&Site::with(&[]));
    let session = module.open().unwrap();
    let login = |user| call!(module, C_Login(session, user, ptr::null_mut(), 0));
    let state = || {
        let mut info = CK_SESSION_INFO::default();
        call!(module, C_GetSessionInfo(session, &raw mut info)).map(|()| info.state)
    };
    assert_eq!(state(), Ok(CKS_RW_PUBLIC_SESSION));
    assert_eq!((login(CKU_USER), login(CKU_USER)), (Ok(()), Err(CKR_USER_ALREADY_LOGGED_IN)));
    assert_eq!((login(CKU_SO), login(CKU_CONTEXT_SPECIFIC)), (Err(CKR_USER_TYPE_INVALID), Ok(())));
    assert_eq!(state(), Ok(CKS_RW_USER_FUNCTIONS));
    call!(module, C_Logout(session)).unwrap();
    assert_eq!(call!(module, C_Logout(session)), Err(CKR_USER_NOT_LOGGED_IN));
    login(CKU_USER).unwrap();
    module.close(session).unwrap();
    let session = module.open().unwrap();
    assert_eq!(call!(module, C_Logout(session)), Err(CKR_USER_NOT_LOGGED_IN), "ended with the last session");
}

#[test]
fn a_service_that_starts_again_is_used_again() {
    let mut site = Site::with(&["p256"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let key = module.private(session, "p256");
    module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
    site.service = None;
    assert_eq!(module.sign(session, CKM_ECDSA_SHA256, key, b"message"), Err(CKR_DEVICE_ERROR));
    thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(module.private(session, "p256"), key, "known from before");
    site.start();
    // The keys of this service were in memory, so it has another one.
    site.generate("p256", Kind::P256);
    assert_eq!(module.sign(session, CKM_ECDSA_SHA256, key, b"message"), Err(CKR_KEY_HANDLE_INVALID));
    thread::sleep(std::time::Duration::from_millis(300));
    let other = module.private(session, "p256");
    assert_ne!(other, key);
    module.sign(session, CKM_ECDSA_SHA256, other, b"message").unwrap();
}

#[test]
fn without_a_service_the_token_is_there_and_a_search_fails() {
    let mut site = Site::with(&[]);
    site.service = None;
    let module = Module::of(&site);
    let session = module.open().unwrap();
    assert_eq!(module.find(session, CKO_PRIVATE_KEY, ""), Err(CKR_DEVICE_ERROR));
    let mut info = CK_SLOT_INFO::default();
    call!(module, C_GetSlotInfo(0, &raw mut info)).unwrap();
    assert_eq!(info.flags, CKF_TOKEN_PRESENT);
    assert_eq!(call!(module, C_GetSlotInfo(1, &raw mut info)), Err(CKR_SLOT_ID_INVALID));
    assert_eq!(call!(module, C_WaitForSlotEvent(CKF_DONT_BLOCK, ptr::null_mut(), ptr::null_mut())), Err(CKR_NO_EVENT));
}

#[test]
fn a_key_replaced_or_deleted_after_the_search_signs_nothing() {
    let site = Site::with(&["p256", "ed25519"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let (key, other) = (module.private(session, "p256"), module.private(session, "ed25519"));
    let delete = |name: &str| site.admin().keys(KeyCommand::Delete { name: name.to_owned() }).unwrap();
    delete("p256");
    site.generate("p256", Kind::P256);
    assert_eq!(module.sign(session, CKM_ECDSA_SHA256, key, b"message"), Err(CKR_KEY_HANDLE_INVALID));
    module.sign(session, CKM_EDDSA, other, b"message").unwrap();
    delete("ed25519");
    assert_eq!(module.sign(session, CKM_EDDSA, other, b"message"), Err(CKR_KEY_HANDLE_INVALID));
}

#[test]
fn a_usage_that_was_withdrawn_is_refused_before_and_after_the_next_search() {
    let site = Site::with(&["rsa2048"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let key = module.private(session, "rsa2048");
    module.sign(session, CKM_SHA256_RSA_PKCS, key, b"message").unwrap();
    let usage = Usage::DECRYPT;
    site.admin().keys(KeyCommand::SetUsage { name: "rsa2048".to_owned(), usage }).unwrap();
    let refused = Err(CKR_KEY_FUNCTION_NOT_PERMITTED);
    assert_eq!(module.sign(session, CKM_SHA256_RSA_PKCS, key, b"message"), refused);
    thread::sleep(std::time::Duration::from_millis(300));
    let key = module.private(session, "rsa2048");
    let sign_init = call!(module, C_SignInit(session, &mut mechanism(CKM_RSA_PKCS), key));
    assert_eq!(sign_init, Err(CKR_KEY_FUNCTION_NOT_PERMITTED));
    assert_eq!(module.value(session, key, CKA_SIGN), Ok(vec![CK_FALSE]));
    assert_eq!(module.value(session, key, CKA_DECRYPT), Ok(vec![CK_TRUE]));
}
