//! The module's life, its sessions, and services that come and go.

use crate::common::{NOBODY, Site, is_root};
use crate::ffi::{Module, call, mechanism};
use cryptoki_sys::{
    CK_C_INITIALIZE_ARGS, CK_FALSE, CK_SESSION_INFO, CK_SLOT_INFO, CK_TOKEN_INFO, CK_TRUE, CKA_DECRYPT, CKA_SIGN,
    CKF_DONT_BLOCK, CKF_OS_LOCKING_OK, CKF_SO_PIN_LOCKED, CKF_TOKEN_PRESENT, CKM_ECDSA_SHA256, CKM_EDDSA, CKM_RSA_PKCS,
    CKM_SHA256_RSA_PKCS, CKO_PRIVATE_KEY, CKR_ARGUMENTS_BAD, CKR_CANT_LOCK, CKR_CRYPTOKI_NOT_INITIALIZED,
    CKR_DEVICE_ERROR, CKR_FUNCTION_NOT_SUPPORTED, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID,
    CKR_MUTEX_BAD, CKR_NO_EVENT, CKR_OPERATION_NOT_INITIALIZED, CKR_PIN_LOCKED, CKR_SESSION_COUNT,
    CKR_SESSION_HANDLE_INVALID, CKR_SLOT_ID_INVALID, CKR_USER_ALREADY_LOGGED_IN, CKR_USER_ANOTHER_ALREADY_LOGGED_IN,
    CKR_USER_NOT_LOGGED_IN, CKR_USER_TYPE_INVALID, CKS_RW_PUBLIC_SESSION, CKS_RW_USER_FUNCTIONS, CKU_CONTEXT_SPECIFIC,
    CKU_SO, CKU_USER,
};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use sidecore::keys::{Acl, KeyCommand, Kind, Usage};
use sidecore_testing::skipped;
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
fn the_end_while_eight_threads_sign_harms_none_of_them() {
    let site = Site::with(&["p256"]);
    let module = Module::load(&site);
    for _ in 0..10 {
        module.begin(&site, "").unwrap();
        let first = module.open().unwrap();
        let (key, public) = (module.private(first, "p256"), module.public(first, "p256"));
        let ready = Barrier::new(9);
        let last: Vec<_> = thread::scope(|scope| {
            let signer = || {
                let session = module.open().unwrap();
                let mut last = module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
                ready.wait();
                let failed = loop {
                    match module.sign(session, CKM_ECDSA_SHA256, key, b"message") {
                        Ok(signature) => last = signature,
                        Err(rv) => break rv,
                    }
                };
                assert!([CKR_CRYPTOKI_NOT_INITIALIZED, CKR_SESSION_HANDLE_INVALID].contains(&failed), "{failed:#x}");
                last
            };
            let signers: Vec<_> = (0..8).map(|_| scope.spawn(signer)).collect();
            ready.wait();
            module.finalize().unwrap();
            signers.into_iter().map(|signer| signer.join().unwrap()).collect()
        });
        module.begin(&site, "").unwrap();
        let session = module.open().unwrap();
        for signature in last {
            module.verify(session, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
        }
        module.finalize().unwrap();
    }
}

#[test]
fn sixty_four_threads_with_256_sessions_each_sign_what_verifies() {
    let site = Site::with(&["p256", "ed25519"]);
    let module = Module::of(&site);
    let first = module.open().unwrap();
    let keys = ["p256", "ed25519"].map(|name| (module.private(first, name), module.public(first, name)));
    module.close(first).unwrap();
    let ready = Barrier::new(64);
    let work = |thread: usize| {
        let sessions: Vec<_> = (0..256).map(|_| module.open().unwrap()).collect();
        // All 16,384 are open now.
        ready.wait();
        for (place, session) in sessions.iter().enumerate() {
            let is_signed = (place + thread).is_multiple_of(16);
            let (kind, (key, public)) =
                if thread.is_multiple_of(2) { (CKM_ECDSA_SHA256, keys[0]) } else { (CKM_EDDSA, keys[1]) };
            let message = format!("message {place} of {thread}");
            if is_signed {
                let signature = module.sign(*session, kind, key, message.as_bytes()).unwrap();
                module.verify(*session, kind, public, [message.as_bytes(), &signature]).unwrap();
            }
            module.close(*session).unwrap();
        }
        sessions
    };
    let mut all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..64).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 64 * 256, "no handle is used twice");
}

#[test]
fn a_module_that_is_unloaded_and_loaded_again_goes_on() {
    let site = Site::with(&["p256"]);
    let mut handles = Vec::new();
    for _ in 0..3 {
        let module = Module::of(&site);
        let session = module.open().unwrap();
        let (key, public) = (module.private(session, "p256"), module.public(session, "p256"));
        let signature = module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
        module.verify(session, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
        handles.push(session);
        module.finalize().unwrap();
        // OpenSSH does so between its uses.
        module.unload();
    }
    handles.dedup();
    assert_eq!(handles.len(), 3, "the library stayed in memory with its numbers");
    // Threads may be in it when it is unloaded.
    let (module, other) = (Module::of(&site), Module::load(&site));
    thread::scope(|scope| {
        let signer = scope.spawn(|| {
            let session = module.open().unwrap();
            let key = module.private(session, "p256");
            (0..200).for_each(|_| drop(module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap()));
        });
        other.unload();
        signer.join().unwrap();
    });
    module.finalize().unwrap();
}

extern "C" fn no_mutex(_: *mut std::ffi::c_void) -> u64 {
    CKR_MUTEX_BAD
}

extern "C" fn no_new_mutex(_: *mut *mut std::ffi::c_void) -> u64 {
    CKR_MUTEX_BAD
}

#[test]
fn locks_of_the_program_are_taken_all_together_and_never_called() {
    let site = Site::with(&["p256"]);
    let module = Module::load(&site);
    let mut text = format!("socket={} log=none\0", site.path("socket").display()).into_bytes();
    for given in 0..16_u8 {
        for flags in [0, CKF_OS_LOCKING_OK] {
            let has = |bit: u8| given & 1 << bit != 0;
            let mut args = CK_C_INITIALIZE_ARGS {
                CreateMutex: has(0).then_some(no_new_mutex as _),
                DestroyMutex: has(1).then_some(no_mutex as _),
                LockMutex: has(2).then_some(no_mutex as _),
                UnlockMutex: has(3).then_some(no_mutex as _),
                flags,
                pReserved: text.as_mut_ptr().cast(),
            };
            let begun = call!(module, C_Initialize((&raw mut args).cast()));
            let expected = match (given, flags) {
                (0, _) | (15, CKF_OS_LOCKING_OK) => Ok(()),
                // A program that wants only its own locks to be used.
                (15, _) => Err(CKR_CANT_LOCK),
                _ => Err(CKR_ARGUMENTS_BAD),
            };
            assert_eq!(begun, expected, "{given:b}");
            if begun.is_ok() {
                let session = module.open().unwrap();
                let key = module.private(session, "p256");
                module.sign(session, CKM_ECDSA_SHA256, key, b"message").unwrap();
                module.finalize().unwrap();
            }
        }
    }
}

#[test]
fn login_takes_any_pin_and_belongs_to_the_process() {
    let site = Site::with(&["p256"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let login = |user| call!(module, C_Login(session, user, ptr::null_mut(), 0));
    let state = || {
        let mut info = CK_SESSION_INFO::default();
        call!(module, C_GetSessionInfo(session, &raw mut info)).map(|()| info.state)
    };
    assert_eq!(state(), Ok(CKS_RW_PUBLIC_SESSION));
    assert_eq!((login(CKU_USER), login(CKU_USER)), (Ok(()), Err(CKR_USER_ALREADY_LOGGED_IN)));
    assert_eq!(login(CKU_SO), Err(CKR_USER_ANOTHER_ALREADY_LOGGED_IN));
    assert_eq!(login(CKU_CONTEXT_SPECIFIC), Err(CKR_OPERATION_NOT_INITIALIZED), "there is nothing to permit");
    let key = module.private(session, "p256");
    call!(module, C_SignInit(session, &mut mechanism(CKM_ECDSA_SHA256), key)).unwrap();
    assert_eq!((login(CKU_CONTEXT_SPECIFIC), login(99)), (Ok(()), Err(CKR_USER_TYPE_INVALID)));
    for user in [CKU_USER, CKU_SO, CKU_CONTEXT_SPECIFIC] {
        let missing = call!(module, C_Login(session, user, ptr::null_mut(), 5));
        assert_eq!(missing, Err(CKR_ARGUMENTS_BAD), "a PIN of five bytes that is nowhere");
    }
    assert_eq!(state(), Ok(CKS_RW_USER_FUNCTIONS));
    call!(module, C_Logout(session)).unwrap();
    assert_eq!(call!(module, C_Logout(session)), Err(CKR_USER_NOT_LOGGED_IN));
    let mut token = CK_TOKEN_INFO::default();
    call!(module, C_GetTokenInfo(0, &raw mut token)).unwrap();
    assert_eq!((login(CKU_SO), token.flags & CKF_SO_PIN_LOCKED), (Err(CKR_PIN_LOCKED), CKF_SO_PIN_LOCKED));
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
fn a_right_that_was_withdrawn_is_refused_in_an_open_session() {
    if !is_root() {
        return skipped("only root can become another user");
    }
    let site = Site::with(&["p256"]);
    site.open_to_all();
    let acl = |uids: &[u32]| Acl { uids: uids.to_vec(), gids: Vec::new() };
    let set =
        |uids| site.admin().keys(KeyCommand::SetAcl { name: "p256".to_owned(), acl: acl(uids) }).map(drop).unwrap();
    let module = Module::of(&site);
    set(&[NOBODY]);
    let turn = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The kernel's users are those of threads.
            set_thread_res_uid(None, Uid::from_raw(NOBODY), None).unwrap();
            let session = module.open().unwrap();
            let (key, public) = (module.private(session, "p256"), module.public(session, "p256"));
            let sign = || module.sign(session, CKM_ECDSA_SHA256, key, b"message");
            let signature = sign().unwrap();
            module.verify(session, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
            turn.wait();
            turn.wait();
            assert_eq!(sign(), Err(CKR_KEY_FUNCTION_NOT_PERMITTED));
            turn.wait();
            turn.wait();
            let signature = sign().unwrap();
            module.verify(session, CKM_ECDSA_SHA256, public, [b"message", &signature]).unwrap();
        });
        turn.wait();
        set(&[]);
        turn.wait();
        turn.wait();
        set(&[NOBODY]);
        turn.wait();
    });
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
