//! Sessions and login. Any PIN logs in: the service knows the user by the kernel.

use super::call;
use super::memory::write;
use super::slot::slot;
use crate::rv::Rv;
use crate::{life, sessions};
use cryptoki_sys::{
    CK_FLAGS, CK_NOTIFY, CK_RV, CK_SESSION_HANDLE, CK_SESSION_INFO, CK_SLOT_ID, CK_ULONG, CK_USER_TYPE, CK_UTF8CHAR,
    CKF_DECRYPT, CKF_ENCRYPT, CKF_FIND_OBJECTS, CKF_RW_SESSION, CKF_SERIAL_SESSION, CKF_SIGN, CKF_VERIFY,
    CKR_ARGUMENTS_BAD, CKR_OPERATION_NOT_INITIALIZED, CKR_PIN_LOCKED, CKR_SESSION_PARALLEL_NOT_SUPPORTED,
    CKR_USER_ANOTHER_ALREADY_LOGGED_IN, CKR_USER_TYPE_INVALID, CKS_RO_PUBLIC_SESSION, CKS_RO_USER_FUNCTIONS,
    CKS_RW_PUBLIC_SESSION, CKS_RW_USER_FUNCTIONS, CKU_CONTEXT_SPECIFIC, CKU_SO, CKU_USER,
};
use std::ffi::c_void;

/// # Safety
/// `session` is null or valid for a write.
pub(super) unsafe extern "C" fn open_session(
    id: CK_SLOT_ID,
    flags: CK_FLAGS,
    _: *mut c_void,
    _: CK_NOTIFY,
    session: *mut CK_SESSION_HANDLE,
) -> CK_RV {
    call(|| {
        slot(id)?;
        if flags & CKF_SERIAL_SESSION == 0 {
            return Err(Rv(CKR_SESSION_PARALLEL_NOT_SUPPORTED));
        }
        if session.is_null() {
            return Err(Rv(CKR_ARGUMENTS_BAD));
        }
        let opened = sessions::open(flags & CKF_RW_SESSION != 0)?;
        // SAFETY: not null here, and `phSession` receives the handle, by C_OpenSession.
        unsafe { write(session, opened) }
    })
}

pub(super) extern "C" fn close_session(session: CK_SESSION_HANDLE) -> CK_RV {
    call(|| {
        life::setup()?;
        sessions::close(session)
    })
}

pub(super) extern "C" fn close_all_sessions(id: CK_SLOT_ID) -> CK_RV {
    call(|| {
        slot(id)?;
        sessions::close_all(life::process()?);
        Ok(())
    })
}

/// # Safety
/// `info` is null or valid for a write.
pub(super) unsafe extern "C" fn get_session_info(session: CK_SESSION_HANDLE, info: *mut CK_SESSION_INFO) -> CK_RV {
    call(|| {
        let writable = sessions::with(session, |session, _| Ok(session.writable))?;
        let (state, flags) = match (life::is_logged_in(), writable) {
            (true, true) => (CKS_RW_USER_FUNCTIONS, CKF_RW_SESSION),
            (true, false) => (CKS_RO_USER_FUNCTIONS, 0),
            (false, true) => (CKS_RW_PUBLIC_SESSION, CKF_RW_SESSION),
            (false, false) => (CKS_RO_PUBLIC_SESSION, 0),
        };
        let answer = CK_SESSION_INFO { slotID: 0, state, flags: flags | CKF_SERIAL_SESSION, ulDeviceError: 0 };
        // SAFETY: `pInfo` receives a `CK_SESSION_INFO`, by C_GetSessionInfo; `write` refuses null.
        unsafe { write(info, answer) }
    })
}

/// `texts`: a PIN, and perhaps a name of the user.
fn log_in(session: CK_SESSION_HANDLE, user: CK_USER_TYPE, texts: &[(*mut CK_UTF8CHAR, CK_ULONG)]) -> Result<(), Rv> {
    let is_missing = |(at, len): &(*mut CK_UTF8CHAR, CK_ULONG)| at.is_null() && *len > 0;
    sessions::with(session, |session, _| match user {
        _ if texts.iter().any(is_missing) => Err(Rv(CKR_ARGUMENTS_BAD)),
        CKU_USER => life::log_in(),
        // No key asks for a login of its own, so one that comes is for nothing.
        CKU_CONTEXT_SPECIFIC if session.is_operating() => Ok(()),
        CKU_CONTEXT_SPECIFIC => Err(Rv(CKR_OPERATION_NOT_INITIALIZED)),
        // The token has no security officer, as its flags say.
        CKU_SO if life::is_logged_in() => Err(Rv(CKR_USER_ANOTHER_ALREADY_LOGGED_IN)),
        CKU_SO => Err(Rv(CKR_PIN_LOCKED)),
        _ => Err(Rv(CKR_USER_TYPE_INVALID)),
    })
}

pub(super) extern "C" fn login(
    session: CK_SESSION_HANDLE,
    user: CK_USER_TYPE,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
) -> CK_RV {
    call(|| log_in(session, user, &[(pin, pin_len)]))
}

pub(super) extern "C" fn login_user(
    session: CK_SESSION_HANDLE,
    user: CK_USER_TYPE,
    pin: *mut CK_UTF8CHAR,
    pin_len: CK_ULONG,
    name: *mut CK_UTF8CHAR,
    name_len: CK_ULONG,
) -> CK_RV {
    call(|| log_in(session, user, &[(pin, pin_len), (name, name_len)]))
}

pub(super) extern "C" fn logout(session: CK_SESSION_HANDLE) -> CK_RV {
    call(|| sessions::with(session, |_, _| life::log_out()))
}

pub(super) extern "C" fn session_cancel(session: CK_SESSION_HANDLE, flags: CK_FLAGS) -> CK_RV {
    call(|| {
        sessions::with(session, |session, _| {
            let is = |flag| flags & flag != 0;
            session.sign.take_if(|_| is(CKF_SIGN));
            session.verify.take_if(|_| is(CKF_VERIFY));
            session.decrypt.take_if(|_| is(CKF_DECRYPT));
            session.encrypt.take_if(|_| is(CKF_ENCRYPT));
            session.found.take_if(|_| is(CKF_FIND_OBJECTS));
            Ok(())
        })
    })
}
