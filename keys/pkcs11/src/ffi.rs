//! The functions that programs call, and their tables. Raw pointers appear only here: each function takes those that
//! PKCS#11 gives it, valid for the lengths beside them or null. A function that reads or writes through one is unsafe, and
//! its comments have the argument's name in the standard, whose text on that function is the guarantee.

mod crypto;
mod general;
mod memory;
mod objects;
mod refused;
mod session;
mod slot;

use crate::rv::Rv;
use cryptoki_sys::{
    CK_FLAGS, CK_FUNCTION_LIST, CK_FUNCTION_LIST_3_0, CK_INTERFACE, CK_RV, CK_ULONG, CK_UTF8CHAR, CK_VERSION,
    CKF_INTERFACE_FORK_SAFE, CKR_ARGUMENTS_BAD, CKR_FUNCTION_FAILED, CKR_GENERAL_ERROR, CKR_OK,
};
use sidecore_client::keyops::large_stack::guard;
use std::ffi::c_void;

/// Runs a function for the program: a panic and a small stack end nothing.
fn call(work: impl FnOnce() -> Result<(), Rv>) -> CK_RV {
    guard(CKR_GENERAL_ERROR, || work().err().map_or(CKR_OK, |Rv(rv)| rv))
}

macro_rules! functions {
    ($list:ident, $major:literal $minor:literal $(, $more:ident: $function:path)*) => {
        $list {
            version: CK_VERSION { major: $major, minor: $minor },
            C_Initialize: Some(general::initialize),
            C_Finalize: Some(general::finalize),
            C_GetInfo: Some(general::get_info),
            C_GetFunctionList: Some(C_GetFunctionList),
            C_GetSlotList: Some(slot::get_slot_list),
            C_GetSlotInfo: Some(slot::get_slot_info),
            C_GetTokenInfo: Some(slot::get_token_info),
            C_GetMechanismList: Some(slot::get_mechanism_list),
            C_GetMechanismInfo: Some(slot::get_mechanism_info),
            C_InitToken: Some(refused::init_token),
            C_InitPIN: Some(refused::init_pin),
            C_SetPIN: Some(refused::set_pin),
            C_OpenSession: Some(session::open_session),
            C_CloseSession: Some(session::close_session),
            C_CloseAllSessions: Some(session::close_all_sessions),
            C_GetSessionInfo: Some(session::get_session_info),
            C_GetOperationState: Some(refused::get_operation_state),
            C_SetOperationState: Some(refused::set_operation_state),
            C_Login: Some(session::login),
            C_Logout: Some(session::logout),
            C_CreateObject: Some(objects::create_object),
            C_CopyObject: Some(objects::copy_object),
            C_DestroyObject: Some(objects::destroy_object),
            C_GetObjectSize: Some(objects::get_object_size),
            C_GetAttributeValue: Some(objects::get_attribute_value),
            C_SetAttributeValue: Some(objects::set_attribute_value),
            C_FindObjectsInit: Some(objects::find_objects_init),
            C_FindObjects: Some(objects::find_objects),
            C_FindObjectsFinal: Some(objects::find_objects_final),
            C_EncryptInit: Some(crypto::encrypt_init),
            C_Encrypt: Some(crypto::encrypt),
            C_EncryptUpdate: Some(crypto::encrypt_update),
            C_EncryptFinal: Some(crypto::encrypt_final),
            C_DecryptInit: Some(crypto::decrypt_init),
            C_Decrypt: Some(crypto::decrypt),
            C_DecryptUpdate: Some(crypto::decrypt_update),
            C_DecryptFinal: Some(crypto::decrypt_final),
            C_DigestInit: Some(refused::digest_init),
            C_Digest: Some(refused::digest),
            C_DigestUpdate: Some(refused::digest_update),
            C_DigestKey: Some(refused::digest_key),
            C_DigestFinal: Some(refused::digest_final),
            C_SignInit: Some(crypto::sign_init),
            C_Sign: Some(crypto::sign),
            C_SignUpdate: Some(crypto::sign_update),
            C_SignFinal: Some(crypto::sign_final),
            C_SignRecoverInit: Some(refused::init_with_key),
            C_SignRecover: Some(refused::transform),
            C_VerifyInit: Some(crypto::verify_init),
            C_Verify: Some(crypto::verify),
            C_VerifyUpdate: Some(crypto::verify_update),
            C_VerifyFinal: Some(crypto::verify_final),
            C_VerifyRecoverInit: Some(refused::init_with_key),
            C_VerifyRecover: Some(refused::transform),
            C_DigestEncryptUpdate: Some(refused::transform),
            C_DecryptDigestUpdate: Some(refused::transform),
            C_SignEncryptUpdate: Some(refused::transform),
            C_DecryptVerifyUpdate: Some(refused::transform),
            C_GenerateKey: Some(refused::generate_key),
            C_GenerateKeyPair: Some(objects::generate_key_pair),
            C_WrapKey: Some(refused::wrap_key),
            C_UnwrapKey: Some(refused::unwrap_key),
            C_DeriveKey: Some(refused::derive_key),
            C_SeedRandom: Some(general::seed_random),
            C_GenerateRandom: Some(general::generate_random),
            C_GetFunctionStatus: Some(refused::parallel),
            C_CancelFunction: Some(refused::parallel),
            C_WaitForSlotEvent: Some(slot::wait_for_slot_event),
            $($more: Some($function),)*
        }
    };
}

static LIST: CK_FUNCTION_LIST = functions!(CK_FUNCTION_LIST, 2 40);

static LIST_3_0: CK_FUNCTION_LIST_3_0 = functions!(
    CK_FUNCTION_LIST_3_0, 3 0,
    C_GetInterfaceList: C_GetInterfaceList,
    C_GetInterface: C_GetInterface,
    C_LoginUser: session::login_user,
    C_SessionCancel: session::session_cancel,
    C_MessageEncryptInit: refused::init_with_key,
    C_EncryptMessage: refused::encrypt_message,
    C_EncryptMessageBegin: refused::message_begin,
    C_EncryptMessageNext: refused::message_next,
    C_MessageEncryptFinal: refused::message_final,
    C_MessageDecryptInit: refused::init_with_key,
    C_DecryptMessage: refused::encrypt_message,
    C_DecryptMessageBegin: refused::message_begin,
    C_DecryptMessageNext: refused::message_next,
    C_MessageDecryptFinal: refused::message_final,
    C_MessageSignInit: refused::init_with_key,
    C_SignMessage: refused::sign_message,
    C_SignMessageBegin: refused::sign_begin,
    C_SignMessageNext: refused::sign_message,
    C_MessageSignFinal: refused::message_final,
    C_MessageVerifyInit: refused::init_with_key,
    C_VerifyMessage: refused::verify_message,
    C_VerifyMessageBegin: refused::sign_begin,
    C_VerifyMessageNext: refused::verify_message,
    C_MessageVerifyFinal: refused::message_final
);

struct Interfaces([CK_INTERFACE; 2]);

// SAFETY: the pointers are to static memory that nothing writes.
unsafe impl Sync for Interfaces {}

const fn interface(list: *const c_void) -> CK_INTERFACE {
    // Handles, sessions and keys go on in a forked child.
    let flags = CKF_INTERFACE_FORK_SAFE;
    CK_INTERFACE { pInterfaceName: c"PKCS 11".as_ptr().cast_mut().cast(), pFunctionList: list.cast_mut(), flags }
}

/// The newest first, for programs without a wanted version.
static INTERFACES: Interfaces =
    Interfaces([interface((&raw const LIST_3_0).cast()), interface((&raw const LIST).cast())]);

/// Entry point: the functions of PKCS#11 2.40.
///
/// # Safety
/// `list` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetFunctionList(list: *mut *mut CK_FUNCTION_LIST) -> CK_RV {
    if list.is_null() {
        return CKR_ARGUMENTS_BAD;
    }
    // SAFETY: not null here, and `ppFunctionList` receives the pointer, by C_GetFunctionList.
    unsafe { list.write_unaligned((&raw const LIST).cast_mut()) };
    CKR_OK
}

/// Entry point: all tables of functions.
///
/// # Safety
/// `count` is null or valid; `list` is null or has room for `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetInterfaceList(list: *mut CK_INTERFACE, count: *mut CK_ULONG) -> CK_RV {
    // SAFETY: with a `pInterfacesList`, `*pulCount` is its room in entries, by C_GetInterfaceList.
    call(|| unsafe { memory::Array::new(list, count)?.put(INTERFACES.0.into_iter()) })
}

/// Entry point: the table of this name and version.
///
/// # Safety
/// Each pointer is null or valid; the name ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn C_GetInterface(
    name: *mut CK_UTF8CHAR,
    version: *mut CK_VERSION,
    interface: *mut *mut CK_INTERFACE,
    flags: CK_FLAGS,
) -> CK_RV {
    call(|| {
        if interface.is_null() {
            return Err(Rv(CKR_ARGUMENTS_BAD));
        }
        // SAFETY: `pInterfaceName` is null or ends with a zero, and `pVersion` is null or a version, by C_GetInterface.
        let (name, version) = unsafe { (memory::text(name)?, memory::read(version)) };
        let is_wanted = |(_, version_here): &(&CK_INTERFACE, (u8, u8))| {
            version.is_none_or(|wanted: CK_VERSION| (wanted.major, wanted.minor) == *version_here)
        };
        let known = name.is_none_or(|name| name == "PKCS 11") && flags & !CKF_INTERFACE_FORK_SAFE == 0;
        let found = INTERFACES.0.iter().zip([(3, 0), (2, 40)]).find(is_wanted).filter(|_| known);
        let (found, _) = found.ok_or(Rv(CKR_FUNCTION_FAILED))?;
        // SAFETY: not null here, and `ppInterface` receives the pointer, by C_GetInterface.
        unsafe { interface.write_unaligned((&raw const *found).cast_mut()) };
        Ok(())
    })
}
