//! Programs that call anything in any order: the module answers as a small model does, and nothing else happens.

use crate::common::Site;
use crate::ffi::{Module, call, mechanism};
use cryptoki_sys::{
    CK_ATTRIBUTE, CK_MECHANISM_TYPE, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CKA_LABEL,
    CKF_SERIAL_SESSION, CKM_ECDSA, CKM_ECDSA_SHA256, CKM_EDDSA, CKM_RSA_PKCS, CKR_ARGUMENTS_BAD,
    CKR_ATTRIBUTE_VALUE_INVALID, CKR_BUFFER_TOO_SMALL, CKR_DATA_LEN_RANGE, CKR_KEY_HANDLE_INVALID,
    CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_INVALID, CKR_OBJECT_HANDLE_INVALID, CKR_OPERATION_ACTIVE,
    CKR_OPERATION_NOT_INITIALIZED, CKR_SESSION_HANDLE_INVALID, CKR_SESSION_PARALLEL_NOT_SUPPORTED,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Open,
    Close(usize),
    Find(usize),
    FindNext(usize, u64),
    FindEnd(usize),
    SignBegin(usize, u64, usize),
    Sign(usize, usize, u64),
    Update(usize, usize),
    SignEnd(usize, u64),
    Attribute(usize, u64, u64),
    CancelAll(usize),
}

const KINDS: [CK_MECHANISM_TYPE; 5] = [CKM_EDDSA, CKM_ECDSA, CKM_ECDSA_SHA256, CKM_RSA_PKCS, 0x8000_0000];

fn step() -> impl Strategy<Value = Step> {
    let session = 0..4_usize;
    let room = prop_oneof![Just(0), Just(63), Just(64), Just(4096_u64)];
    prop_oneof![
        2 => Just(Step::Open),
        1 => session.clone().prop_map(Step::Close),
        1 => session.clone().prop_map(Step::Find),
        1 => (session.clone(), 0..5_u64).prop_map(|(session, most)| Step::FindNext(session, most)),
        1 => session.clone().prop_map(Step::FindEnd),
        4 => (session.clone(), 0..5_u64, 0..4_usize).prop_map(|(session, kind, key)| Step::SignBegin(session, kind, key)),
        3 => (session.clone(), 0..600_usize, room.clone()).prop_map(|(session, len, room)| Step::Sign(session, len, room)),
        2 => (session.clone(), 0..600_usize).prop_map(|(session, len)| Step::Update(session, len)),
        2 => (session.clone(), room).prop_map(|(session, room)| Step::SignEnd(session, room)),
        1 => (session.clone(), any::<u64>(), any::<u64>()).prop_map(|(session, key, kind)| Step::Attribute(session, key, kind)),
        1 => session.prop_map(Step::CancelAll),
    ]
}

/// State of a session by the model.
#[derive(Default)]
struct Known {
    finding: bool,
    /// Bytes so far, and the limit; parts were given.
    signing: Option<(usize, usize, bool)>,
}

struct Model {
    /// Handles by place; a place without an open session has one that is closed or never was.
    handles: [CK_SESSION_HANDLE; 4],
    open: BTreeMap<CK_SESSION_HANDLE, Known>,
    keys: [CK_OBJECT_HANDLE; 4],
}

impl Model {
    /// Expected result of the begin of a signature.
    fn begin(&mut self, session: CK_SESSION_HANDLE, kind: u64, key: usize) -> Result<(), CK_RV> {
        let known = self.open.get_mut(&session).ok_or(CKR_SESSION_HANDLE_INVALID)?;
        if known.signing.is_some() {
            return Err(CKR_OPERATION_ACTIVE);
        }
        // Keys: Ed25519, P-256, the public part of P-256, none.
        let limit = match (key, kind) {
            (3, _) => return Err(CKR_KEY_HANDLE_INVALID),
            (2, _) => return Err(CKR_KEY_TYPE_INCONSISTENT),
            (_, 4) => return Err(CKR_MECHANISM_INVALID),
            (0, 0) | (1, 2) => usize::MAX,
            (1, 1) => 512,
            _ => return Err(CKR_KEY_TYPE_INCONSISTENT),
        };
        known.signing = Some((0, limit, false));
        Ok(())
    }

    /// Expected result of a part.
    fn update(&mut self, session: CK_SESSION_HANDLE, len: usize) -> Result<(), CK_RV> {
        let known = self.open.get_mut(&session).ok_or(CKR_SESSION_HANDLE_INVALID)?;
        let (bytes, limit, _) = known.signing.ok_or(CKR_OPERATION_NOT_INITIALIZED)?;
        known.signing = (len <= limit - bytes).then_some((bytes + len, limit, true));
        known.signing.map(|_| ()).ok_or(CKR_DATA_LEN_RANGE)
    }

    /// Expected result of the end, with the whole message or after parts.
    fn end(&mut self, session: CK_SESSION_HANDLE, whole: Option<usize>, room: u64) -> Result<(), CK_RV> {
        let known = self.open.get_mut(&session).ok_or(CKR_SESSION_HANDLE_INVALID)?;
        let (bytes, limit, begun) = known.signing.ok_or(CKR_OPERATION_NOT_INITIALIZED)?;
        if whole.is_some() && begun {
            return Err(CKR_OPERATION_ACTIVE);
        }
        if room < 64 {
            return if room == 0 { Ok(()) } else { Err(CKR_BUFFER_TOO_SMALL) };
        }
        known.signing = None;
        // ECDSA takes a digest, and none is empty.
        let least = usize::from(limit == 512);
        if (least..=limit).contains(&(bytes + whole.unwrap_or(0))) { Ok(()) } else { Err(CKR_DATA_LEN_RANGE) }
    }
}

fn take(module: &Module, model: &mut Model, step: &Step) {
    match *step {
        Step::Open => open(module, model),
        Step::Close(place) => {
            let session = model.handles[place];
            let expected = model.open.remove(&session).map(|_| ()).ok_or(CKR_SESSION_HANDLE_INVALID);
            assert_eq!(module.close(session), expected);
        }
        Step::Find(place) => find(module, model, place),
        Step::FindNext(place, most) => find_next(module, model, place, most),
        Step::FindEnd(place) => find_end(module, model, place),
        Step::Attribute(place, key, kind) => {
            let session = model.handles[place];
            let is_open = model.open.contains_key(&session);
            let expected = if is_open { CKR_OBJECT_HANDLE_INVALID } else { CKR_SESSION_HANDLE_INVALID };
            assert_eq!(module.value(session, key, kind), Err(expected));
        }
        _ => sign(module, model, step),
    }
}

fn open(module: &Module, model: &mut Model) {
    let opened = module.open().unwrap();
    let place = model.handles.iter().position(|handle| !model.open.contains_key(handle)).unwrap_or(0);
    let before = std::mem::replace(&mut model.handles[place], opened);
    assert!(!model.open.contains_key(&opened));
    if model.open.remove(&before).is_some() {
        module.close(before).unwrap();
    }
    model.open.insert(opened, Known::default());
}

fn find(module: &Module, model: &mut Model, place: usize) {
    let session = model.handles[place];
    let found = call!(module, C_FindObjectsInit(session, std::ptr::null_mut(), 0));
    let expected = model.open.get_mut(&session).map_or(GONE, |known| {
        if std::mem::replace(&mut known.finding, true) { Err(CKR_OPERATION_ACTIVE) } else { Ok(()) }
    });
    assert_eq!(found, expected);
}

fn find_next(module: &Module, model: &Model, place: usize, most: u64) {
    let (session, mut objects, mut count) = (model.handles[place], [0; 8], 0);
    let found = call!(module, C_FindObjects(session, objects.as_mut_ptr(), most, &raw mut count));
    let is = |known: &Known| if known.finding { Ok(()) } else { Err(CKR_OPERATION_NOT_INITIALIZED) };
    assert_eq!(found, model.open.get(&session).map_or(GONE, is));
    assert!(count <= most && objects[most as usize..].iter().all(|object| *object == 0));
}

fn find_end(module: &Module, model: &mut Model, place: usize) {
    let session = model.handles[place];
    let ended = call!(module, C_FindObjectsFinal(session));
    let expected = model.open.get_mut(&session).map_or(GONE, |known| {
        if std::mem::take(&mut known.finding) { Ok(()) } else { Err(CKR_OPERATION_NOT_INITIALIZED) }
    });
    assert_eq!(ended, expected);
}

const GONE: Result<(), CK_RV> = Err(CKR_SESSION_HANDLE_INVALID);

/// A step of a signature.
fn sign(module: &Module, model: &mut Model, step: &Step) {
    let (mut data, mut signature) = ([7; 600], [0; 4096]);
    let at = |room: u64, signature: &mut [u8]| if room == 0 { std::ptr::null_mut() } else { signature.as_mut_ptr() };
    match *step {
        Step::SignBegin(place, kind, key) => {
            let (session, object) = (model.handles[place], model.keys[key]);
            let begun = call!(module, C_SignInit(session, &mut mechanism(KINDS[kind as usize]), object));
            assert_eq!(begun, model.begin(session, kind, key), "{step:?}");
        }
        Step::Sign(place, len, room) => {
            let (session, mut room_len) = (model.handles[place], room);
            let out = at(room, &mut signature);
            let signed = call!(module, C_Sign(session, data.as_mut_ptr(), len as CK_ULONG, out, &raw mut room_len));
            assert_eq!(signed, model.end(session, Some(len), room), "{step:?}");
            assert!(signature[room.min(64) as usize..].iter().all(|byte| *byte == 0), "beyond the room");
        }
        Step::Update(place, len) => {
            let session = model.handles[place];
            let taken = call!(module, C_SignUpdate(session, data.as_mut_ptr(), len as CK_ULONG));
            assert_eq!(taken, model.update(session, len), "{step:?}");
        }
        Step::SignEnd(place, room) => {
            let (session, mut room_len) = (model.handles[place], room);
            let out = at(room, &mut signature);
            let signed = call!(module, C_SignFinal(session, out, &raw mut room_len));
            assert_eq!(signed, model.end(session, None, room), "{step:?}");
        }
        Step::CancelAll(place) => {
            let session = model.handles[place];
            let cancelled = call!(module, C_SignInit(session, std::ptr::null_mut(), 0));
            let known = model.open.get_mut(&session);
            assert_eq!(cancelled.is_ok(), known.is_some());
            known.map(|known| known.signing = None).unwrap_or_default();
        }
        _ => unreachable!("the other steps are not of a signature"),
    }
}

#[test]
fn any_calls_in_any_order_are_answered_as_the_model_says() {
    let site = Site::with(&["ed25519", "p256"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let private = ["ed25519", "p256"].map(|name| module.private(session, name));
    let keys = [private[0], private[1], module.public(session, "p256"), u64::MAX];
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let run = runner.run(&vec(step(), 1..60), |steps| {
        call!(module, C_CloseAllSessions(0)).unwrap();
        // Handles that never were: none, places beyond the table, numbers of the future.
        let mut model = Model { handles: [0, u64::MAX, 0x1_ffff, 1 << 40], open: BTreeMap::new(), keys };
        for step in &steps {
            take(&module, &mut model, step);
        }
        Ok(())
    });
    run.unwrap();
}

#[test]
fn null_pointers_and_lengths_without_bytes_are_refused() {
    let site = Site::with(&["ed25519"]);
    let module = Module::of(&site);
    let session = module.open().unwrap();
    let key = module.private(session, "ed25519");
    let null = std::ptr::null_mut();
    let bad = Err(CKR_ARGUMENTS_BAD);
    assert_eq!(call!(module, C_GetInfo(std::ptr::null_mut())), bad);
    assert_eq!(call!(module, C_OpenSession(0, CKF_SERIAL_SESSION, null, None, std::ptr::null_mut())), bad);
    let parallel = call!(module, C_OpenSession(0, 0, null, None, &mut 0));
    assert_eq!(parallel, Err(CKR_SESSION_PARALLEL_NOT_SUPPORTED));
    assert_eq!(call!(module, C_FindObjectsInit(session, std::ptr::null_mut(), 1)), bad);
    assert_eq!(call!(module, C_GenerateRandom(session, std::ptr::null_mut(), 1)), bad);
    call!(module, C_SignInit(session, &mut mechanism(CKM_EDDSA), key)).unwrap();
    for len in [1, CK_ULONG::MAX] {
        assert_eq!(call!(module, C_SignUpdate(session, std::ptr::null_mut(), len)), bad);
    }
    assert_eq!(call!(module, C_SignUpdate(session, [0].as_mut_ptr(), CK_ULONG::MAX)), bad);
    assert_eq!(call!(module, C_SignFinal(session, std::ptr::null_mut(), std::ptr::null_mut())), bad);
    let mut long = CK_ATTRIBUTE { type_: CKA_LABEL, pValue: [0_u8].as_mut_ptr().cast(), ulValueLen: CK_ULONG::MAX };
    let found = call!(module, C_FindObjectsInit(session, &raw mut long, 1));
    assert_eq!(found, Err(CKR_ATTRIBUTE_VALUE_INVALID));
}
