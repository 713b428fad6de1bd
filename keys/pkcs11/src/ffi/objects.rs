//! Objects: search, attributes, creation.

use super::call;
use super::memory::{answer, mechanism, template, write};
use crate::generate;
use crate::objects::own;
use crate::rv::Rv;
use crate::sessions;
use crate::template::Template;
use cryptoki_sys::{
    CK_ATTRIBUTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CK_UNAVAILABLE_INFORMATION,
    CKR_ACTION_PROHIBITED, CKR_ARGUMENTS_BAD, CKR_OPERATION_NOT_INITIALIZED,
};

/// # Safety
/// `attributes` is null or has `count` of them, each with a value that is null or has its `ulValueLen` bytes;
/// `object` is null or valid for a write.
pub(super) unsafe extern "C" fn create_object(
    session: CK_SESSION_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    object: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call(|| {
        // SAFETY: `pTemplate` has `ulCount` attributes with the values that they state, by C_CreateObject.
        let given = unsafe { template(attributes, count) }?;
        let made = sessions::with(session, |session, setup| {
            if object.is_null() {
                return Err(Rv(CKR_ARGUMENTS_BAD));
            }
            generate::create(session, setup, &Template(&given))
        })?;
        // SAFETY: not null, as was checked, and `phObject` receives the handle, by C_CreateObject.
        unsafe { write(object, made) }
    })
}

/// # Safety
/// `attributes` is null or has `count` of them, each with a value that is null or has its `ulValueLen` bytes; `copy`
/// is null or valid for a write.
pub(super) unsafe extern "C" fn copy_object(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    copy: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call(|| {
        // SAFETY: `pTemplate` has `ulCount` attributes with the values that they state, by C_CopyObject.
        let given = unsafe { template(attributes, count) }?;
        let made = sessions::with(session, |session, setup| {
            if copy.is_null() {
                return Err(Rv(CKR_ARGUMENTS_BAD));
            }
            let object = session.object(setup, object)?;
            generate::copy(session, setup, &object, &Template(&given))
        })?;
        // SAFETY: not null, as was checked, and `phNewObject` receives the handle, by C_CopyObject.
        unsafe { write(copy, made) }
    })
}

pub(super) extern "C" fn destroy_object(session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE) -> CK_RV {
    call(|| {
        sessions::with(session, |session, setup| {
            if session.object(setup, object)?.token {
                return Err(Rv(CKR_ACTION_PROHIBITED));
            }
            own::destroy(object)
        })
    })
}

/// # Safety
/// `size` is null or valid for a write.
pub(super) unsafe extern "C" fn get_object_size(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    size: *mut CK_ULONG,
) -> CK_RV {
    call(|| {
        sessions::with(session, |session, setup| session.object(setup, object).map(|_| ()))?;
        // SAFETY: `pulSize` receives the size, by C_GetObjectSize; `write` refuses null.
        unsafe { write(size, CK_UNAVAILABLE_INFORMATION) }
    })
}

/// # Safety
/// `attributes` is null or has `count` of them, each with a place that is null or has room for `ulValueLen` bytes.
pub(super) unsafe extern "C" fn get_attribute_value(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    call(|| {
        sessions::with(session, |session, setup| {
            let object = session.object(setup, object)?;
            // SAFETY: `pTemplate` has `ulCount` attributes, each with room for its `ulValueLen` bytes or null, by
            // C_GetAttributeValue.
            unsafe { answer(attributes, count, |kind| object.attribute(setup, kind)) }
        })
    })
}

/// # Safety
/// `attributes` is null or has `count` of them, each with a value that is null or has its `ulValueLen` bytes.
pub(super) unsafe extern "C" fn set_attribute_value(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    call(|| {
        // SAFETY: `pTemplate` has `ulCount` attributes with the values that they state, by C_SetAttributeValue.
        let given = unsafe { template(attributes, count) }?;
        sessions::with(session, |session, setup| {
            generate::change(setup, &*session.object(setup, object)?, &Template(&given))
        })
    })
}

/// # Safety
/// `attributes` is null or has `count` of them, each with a value that is null or has its `ulValueLen` bytes.
pub(super) unsafe extern "C" fn find_objects_init(
    session: CK_SESSION_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    call(|| {
        // SAFETY: `pTemplate` has `ulCount` attributes with the values that they state, by C_FindObjectsInit.
        let wanted = unsafe { template(attributes, count) }?;
        sessions::with(session, |session, setup| session.find(setup, &wanted))
    })
}

/// # Safety
/// `objects` is null or has room for `most` handles; `count` is null or valid for a write.
pub(super) unsafe extern "C" fn find_objects(
    session: CK_SESSION_HANDLE,
    objects: *mut CK_OBJECT_HANDLE,
    most: CK_ULONG,
    count: *mut CK_ULONG,
) -> CK_RV {
    call(|| {
        sessions::with(session, |session, _| {
            let found = session.found.as_mut().ok_or(Rv(CKR_OPERATION_NOT_INITIALIZED))?;
            if count.is_null() || (objects.is_null() && most > 0) {
                return Err(Rv(CKR_ARGUMENTS_BAD));
            }
            let number = found.len().min(usize::try_from(most).unwrap_or(usize::MAX));
            for place in 0..number {
                // SAFETY: `phObject` has room for `ulMaxObjectCount` handles, by C_FindObjects, and `place` is below that.
                unsafe { write(objects.add(place), found.pop().unwrap_or_default()) }?;
            }
            // SAFETY: not null, as was checked, and `pulObjectCount` receives the number, by C_FindObjects.
            unsafe { write(count, number as CK_ULONG) }
        })
    })
}

pub(super) extern "C" fn find_objects_final(session: CK_SESSION_HANDLE) -> CK_RV {
    call(|| {
        sessions::with(session, |session, _| session.found.take().map(drop).ok_or(Rv(CKR_OPERATION_NOT_INITIALIZED)))
    })
}

/// # Safety
/// `how` is null or a mechanism with its parameters. `of_public` and `of_private` are null or have as many attributes
/// as is said, each with a value that is null or has its `ulValueLen` bytes. `public` and `private` are null or valid
/// for a write.
pub(super) unsafe extern "C" fn generate_key_pair(
    session: CK_SESSION_HANDLE,
    how: *mut CK_MECHANISM,
    of_public: *mut CK_ATTRIBUTE,
    public_count: CK_ULONG,
    of_private: *mut CK_ATTRIBUTE,
    private_count: CK_ULONG,
    public: *mut CK_OBJECT_HANDLE,
    private: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call(|| {
        // SAFETY: `pMechanism` and its parameters, and both templates with as many attributes as the counts beside them say,
        // by C_GenerateKeyPair.
        let (how, of_public, of_private) =
            unsafe { (mechanism(how)?, template(of_public, public_count)?, template(of_private, private_count)?) };
        let how = how.ok_or(Rv(CKR_ARGUMENTS_BAD))?;
        let made = sessions::with(session, |session, setup| {
            if public.is_null() || private.is_null() {
                return Err(Rv(CKR_ARGUMENTS_BAD));
            }
            generate::pair(session, setup, &how, &Template(&of_public), &Template(&of_private))
        })?;
        // SAFETY: not null, as was checked, and `phPublicKey` and `phPrivateKey` receive the handles, by C_GenerateKeyPair.
        unsafe { write(public, made.0).and(write(private, made.1)) }
    })
}
