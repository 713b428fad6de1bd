//! Functions that the module does not have. Digests: programs make their own, and would send each message here.

use super::call;
use crate::life;
use crate::rv::Rv;
use cryptoki_sys::{
    CK_ATTRIBUTE, CK_FLAGS, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_SLOT_ID, CK_ULONG,
    CKR_FUNCTION_NOT_PARALLEL, CKR_FUNCTION_NOT_SUPPORTED,
};
use std::ffi::c_void;

macro_rules! refused {
    ($($name:ident($($argument:ty),*);)*) => {
        $(
            pub(super) extern "C" fn $name($(_: $argument),*) -> CK_RV {
                refuse(CKR_FUNCTION_NOT_SUPPORTED)
            }
        )*
    };
}

type Session = CK_SESSION_HANDLE;
type Object = CK_OBJECT_HANDLE;
type Bytes = *mut u8;
type Len = CK_ULONG;
type LenOut = *mut CK_ULONG;
type How = *mut CK_MECHANISM;
type Attributes = *mut CK_ATTRIBUTE;

refused! {
    init_token(CK_SLOT_ID, Bytes, Len, Bytes);
    init_pin(Session, Bytes, Len);
    set_pin(Session, Bytes, Len, Bytes, Len);
    get_operation_state(Session, Bytes, LenOut);
    set_operation_state(Session, Bytes, Len, Object, Object);
    digest_init(Session, How);
    digest(Session, Bytes, Len, Bytes, LenOut);
    digest_update(Session, Bytes, Len);
    digest_key(Session, Object);
    digest_final(Session, Bytes, LenOut);
    init_with_key(Session, How, Object);
    transform(Session, Bytes, Len, Bytes, LenOut);
    generate_key(Session, How, Attributes, Len, *mut Object);
    wrap_key(Session, How, Object, Object, Bytes, LenOut);
    unwrap_key(Session, How, Object, Bytes, Len, Attributes, Len, *mut Object);
    derive_key(Session, How, Object, Attributes, Len, *mut Object);
    encrypt_message(Session, *mut c_void, Len, Bytes, Len, Bytes, Len, Bytes, LenOut);
    message_begin(Session, *mut c_void, Len, Bytes, Len);
    message_next(Session, *mut c_void, Len, Bytes, Len, Bytes, LenOut, CK_FLAGS);
    message_final(Session);
    sign_message(Session, *mut c_void, Len, Bytes, Len, Bytes, LenOut);
    sign_begin(Session, *mut c_void, Len);
    verify_message(Session, *mut c_void, Len, Bytes, Len, Bytes, Len);
}

/// Functions of PKCS#11 before 2.0, whose sessions worked in parallel.
pub(super) extern "C" fn parallel(_: Session) -> CK_RV {
    refuse(CKR_FUNCTION_NOT_PARALLEL)
}

fn refuse(rv: CK_RV) -> CK_RV {
    call(|| {
        life::setup()?;
        Err(Rv(rv))
    })
}
