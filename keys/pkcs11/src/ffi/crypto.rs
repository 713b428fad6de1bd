//! Signatures and RSA encryption: each begins with a key and a mechanism. A question for a length, or too little room,
//! computes no signature and ends no operation.

use super::call;
use super::memory::{self, Room, bytes};
use crate::cipher::Cipher;
use crate::config::Setup;
use crate::mechanism::{self, Mechanism};
use crate::objects::Object;
use crate::rv::Rv;
use crate::session::Session;
use crate::sessions;
use crate::sign::Signing;
use cryptoki_sys::{
    CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CKR_BUFFER_TOO_SMALL, CKR_OPERATION_ACTIVE,
    CKR_OPERATION_NOT_INITIALIZED,
};

const NOT_BEGUN: Rv = Rv(CKR_OPERATION_NOT_INITIALIZED);

/// Begins an operation in its place. A null mechanism ends the present one.
///
/// # Safety
/// `how` is null or a valid mechanism.
unsafe fn begin<O>(
    session: CK_SESSION_HANDLE,
    how: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    place: impl Fn(&mut Session) -> &mut Option<O>,
    make: impl Fn(&Mechanism, &Object) -> Result<O, Rv>,
) -> Result<(), Rv> {
    // SAFETY: null or a mechanism with its parameters, by the contract of this function.
    let how = unsafe { memory::mechanism(how) }?;
    sessions::with(session, |session, setup| {
        let Some(how) = how else {
            *place(session) = None;
            return Ok(());
        };
        if place(session).is_some() {
            return Err(Rv(CKR_OPERATION_ACTIVE));
        }
        let object = session.key(setup, key)?;
        let operation = make(&how, &object)?;
        mechanism::offered(setup, how.kind)?;
        *place(session) = Some(operation);
        Ok(())
    })
}

/// # Safety
/// `how` is null or a mechanism with its parameters.
pub(super) unsafe extern "C" fn sign_init(
    session: CK_SESSION_HANDLE,
    how: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    let make = |how: &Mechanism, object: &Object| Signing::begin(how, object, false);
    // SAFETY: `pMechanism` and its parameters, by C_SignInit; null ends an operation.
    call(|| unsafe { begin(session, how, key, |session| &mut session.sign, make) })
}

/// # Safety
/// `how` is null or a mechanism with its parameters.
pub(super) unsafe extern "C" fn verify_init(
    session: CK_SESSION_HANDLE,
    how: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    let make = |how: &Mechanism, object: &Object| Signing::begin(how, object, true);
    // SAFETY: `pMechanism` and its parameters, by C_VerifyInit; null ends an operation.
    call(|| unsafe { begin(session, how, key, |session| &mut session.verify, make) })
}

/// # Safety
/// `how` is null or a mechanism with its parameters.
pub(super) unsafe extern "C" fn decrypt_init(
    session: CK_SESSION_HANDLE,
    how: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    let make = |how: &Mechanism, object: &Object| Cipher::begin(how, object, false);
    // SAFETY: `pMechanism` and its parameters, by C_DecryptInit; null ends an operation.
    call(|| unsafe { begin(session, how, key, |session| &mut session.decrypt, make) })
}

/// # Safety
/// `how` is null or a mechanism with its parameters.
pub(super) unsafe extern "C" fn encrypt_init(
    session: CK_SESSION_HANDLE,
    how: *mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
) -> CK_RV {
    let make = |how: &Mechanism, object: &Object| Cipher::begin(how, object, true);
    // SAFETY: `pMechanism` and its parameters, by C_EncryptInit; null ends an operation.
    call(|| unsafe { begin(session, how, key, |session| &mut session.encrypt, make) })
}

/// # Safety
/// `data` is null or has `len` bytes; `signature_len` is null or valid; `signature` is null or has room for
/// `*signature_len` bytes.
pub(super) unsafe extern "C" fn sign(
    session: CK_SESSION_HANDLE,
    data: *mut u8,
    len: CK_ULONG,
    signature: *mut u8,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    call(|| {
        // SAFETY: `pData` has `ulDataLen` bytes, and with a `pSignature`, `*pulSignatureLen` is its room, by C_Sign.
        let (data, room) = unsafe { (bytes(data, len)?, Room::new(signature, signature_len)?) };
        sessions::with(session, |session, setup| signed(&mut session.sign, setup, Some(data), &room))
    })
}

/// # Safety
/// `part` is null or has `len` bytes.
pub(super) unsafe extern "C" fn sign_update(session: CK_SESSION_HANDLE, part: *mut u8, len: CK_ULONG) -> CK_RV {
    call(|| {
        // SAFETY: `pPart` has `ulPartLen` bytes, by C_SignUpdate.
        let part = unsafe { bytes(part, len) }?;
        sessions::with(session, |session, _| updated(&mut session.sign, |signing| signing.update(part)))
    })
}

/// # Safety
/// `signature_len` is null or valid; `signature` is null or has room for `*signature_len` bytes.
pub(super) unsafe extern "C" fn sign_final(
    session: CK_SESSION_HANDLE,
    signature: *mut u8,
    signature_len: *mut CK_ULONG,
) -> CK_RV {
    call(|| {
        // SAFETY: with a `pSignature`, `*pulSignatureLen` is its room, by C_SignFinal.
        let room = unsafe { Room::new(signature, signature_len) }?;
        sessions::with(session, |session, setup| signed(&mut session.sign, setup, None, &room))
    })
}

/// Ends with a signature of `whole`, or of the parts.
fn signed(place: &mut Option<Signing>, setup: &Setup, whole: Option<&[u8]>, room: &Room) -> Result<(), Rv> {
    let signing = place.as_mut().ok_or(NOT_BEGUN)?;
    if whole.is_some() && signing.begun {
        return Err(Rv(CKR_OPERATION_ACTIVE));
    }
    if !room.takes(signing.len())? {
        return Ok(());
    }
    let mut signing = place.take().ok_or(NOT_BEGUN)?;
    if let Some(whole) = whole {
        signing.update(whole)?;
    }
    room.put(&signing.sign(setup)?)
}

/// Takes a part; an error ends the operation.
fn updated<O>(place: &mut Option<O>, update: impl FnOnce(&mut O) -> Result<(), Rv>) -> Result<(), Rv> {
    let taken = update(place.as_mut().ok_or(NOT_BEGUN)?);
    taken.inspect_err(|_| *place = None)
}

/// # Safety
/// `data` is null or has `len` bytes; `signature` is null or has `signature_len` bytes.
pub(super) unsafe extern "C" fn verify(
    session: CK_SESSION_HANDLE,
    data: *mut u8,
    len: CK_ULONG,
    signature: *mut u8,
    signature_len: CK_ULONG,
) -> CK_RV {
    call(|| {
        // SAFETY: `pData` has `ulDataLen` and `pSignature` has `ulSignatureLen` bytes, by C_Verify.
        let (data, signature) = unsafe { (bytes(data, len)?, bytes(signature, signature_len)?) };
        sessions::with(session, |session, setup| verified(&mut session.verify, setup, Some(data), signature))
    })
}

/// # Safety
/// `part` is null or has `len` bytes.
pub(super) unsafe extern "C" fn verify_update(session: CK_SESSION_HANDLE, part: *mut u8, len: CK_ULONG) -> CK_RV {
    call(|| {
        // SAFETY: `pPart` has `ulPartLen` bytes, by C_VerifyUpdate.
        let part = unsafe { bytes(part, len) }?;
        sessions::with(session, |session, _| updated(&mut session.verify, |signing| signing.update(part)))
    })
}

/// # Safety
/// `signature` is null or has `signature_len` bytes.
pub(super) unsafe extern "C" fn verify_final(
    session: CK_SESSION_HANDLE,
    signature: *mut u8,
    signature_len: CK_ULONG,
) -> CK_RV {
    call(|| {
        // SAFETY: `pSignature` has `ulSignatureLen` bytes, by C_VerifyFinal.
        let signature = unsafe { bytes(signature, signature_len) }?;
        sessions::with(session, |session, setup| verified(&mut session.verify, setup, None, signature))
    })
}

fn verified(place: &mut Option<Signing>, setup: &Setup, whole: Option<&[u8]>, signature: &[u8]) -> Result<(), Rv> {
    if whole.is_some() && place.as_ref().is_some_and(|signing| signing.begun) {
        return Err(Rv(CKR_OPERATION_ACTIVE));
    }
    let mut signing = place.take().ok_or(NOT_BEGUN)?;
    if let Some(whole) = whole {
        signing.update(whole)?;
    }
    signing.verify(setup, signature)
}

/// Ends with the result of `whole`, or of the parts.
fn ciphered(place: &mut Option<Cipher>, setup: &Setup, whole: Option<&[u8]>, room: &Room) -> Result<(), Rv> {
    let cipher = place.as_mut().ok_or(NOT_BEGUN)?;
    if whole.is_some() && cipher.begun {
        return Err(Rv(CKR_OPERATION_ACTIVE));
    }
    if room.asks() {
        return room.takes(cipher.len()).map(|_| ());
    }
    let put = cipher.whole(whole).and_then(|()| room.put(cipher.result(setup)?));
    // The result stays for a program that comes back with more room.
    if put != Err(Rv(CKR_BUFFER_TOO_SMALL)) {
        *place = None;
    }
    put
}

macro_rules! cipher {
    ($init:ident: $whole:ident, $update:ident, $end:ident) => {
        /// # Safety
        /// `data` is null or has `len` bytes; `result_len` is null or valid; `result` is null or has
        /// room for `*result_len` bytes.
        pub(super) unsafe extern "C" fn $whole(
            session: CK_SESSION_HANDLE,
            data: *mut u8,
            len: CK_ULONG,
            result: *mut u8,
            result_len: *mut CK_ULONG,
        ) -> CK_RV {
            call(|| {
                // SAFETY: the input has the bytes that the number beside it says, and with a place for the result, the
                // number at its pointer is the room there, by C_Encrypt and C_Decrypt.
                let (data, room) = unsafe { (bytes(data, len)?, Room::new(result, result_len)?) };
                sessions::with(session, |session, setup| ciphered(&mut session.$init, setup, Some(data), &room))
            })
        }

        /// # Safety
        /// `part` is null or has `len` bytes; `result_len` is null or valid; `result` is null or has
        /// room for `*result_len` bytes.
        pub(super) unsafe extern "C" fn $update(
            session: CK_SESSION_HANDLE,
            part: *mut u8,
            len: CK_ULONG,
            result: *mut u8,
            result_len: *mut CK_ULONG,
        ) -> CK_RV {
            call(|| {
                // SAFETY: as for the whole, by C_EncryptUpdate and C_DecryptUpdate.
                let (part, room) = unsafe { (bytes(part, len)?, Room::new(result, result_len)?) };
                sessions::with(session, |session, _| {
                    let place = &mut session.$init;
                    if !room.asks() {
                        updated(place, |cipher| cipher.update(part))?;
                    }
                    // All of the result comes at the end.
                    place.as_ref().ok_or(NOT_BEGUN).and_then(|_| room.put(&[]))
                })
            })
        }

        /// # Safety
        /// `result_len` is null or valid; `result` is null or has room for `*result_len` bytes.
        pub(super) unsafe extern "C" fn $end(
            session: CK_SESSION_HANDLE,
            result: *mut u8,
            result_len: *mut CK_ULONG,
        ) -> CK_RV {
            call(|| {
                // SAFETY: with a place for the result, the number at its pointer is the room there, by C_EncryptFinal and
                // C_DecryptFinal.
                let room = unsafe { Room::new(result, result_len) }?;
                sessions::with(session, |session, setup| ciphered(&mut session.$init, setup, None, &room))
            })
        }
    };
}

cipher!(encrypt: encrypt, encrypt_update, encrypt_final);
cipher!(decrypt: decrypt, decrypt_update, decrypt_final);
