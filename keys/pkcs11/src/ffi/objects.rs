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

pub(super) extern "C" fn create_object(
    session: CK_SESSION_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    object: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call(|| {
        // SAFETY: the program's template.
        let given = unsafe { template(attributes, count) }?;
        let made = sessions::with(session, |session, setup| {
            if object.is_null() {
                return Err(Rv(CKR_ARGUMENTS_BAD));
            }
            generate::create(session, setup, &Template(&given))
        })?;
        // SAFETY: the program's place for the answer.
        unsafe { write(object, made) }
    })
}

pub(super) extern "C" fn copy_object(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
    copy: *mut CK_OBJECT_HANDLE,
) -> CK_RV {
    call(|| {
        // SAFETY: the program's template.
        let given = unsafe { template(attributes, count) }?;
        let made = sessions::with(session, |session, setup| {
            if copy.is_null() {
                return Err(Rv(CKR_ARGUMENTS_BAD));
            }
            let object = session.object(setup, object)?;
            generate::copy(session, setup, &object, &Template(&given))
        })?;
        // SAFETY: the program's place for the answer.
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

pub(super) extern "C" fn get_object_size(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    size: *mut CK_ULONG,
) -> CK_RV {
    call(|| {
        sessions::with(session, |session, setup| session.object(setup, object).map(|_| ()))?;
        // SAFETY: the program's place for the answer.
        unsafe { write(size, CK_UNAVAILABLE_INFORMATION) }
    })
}

pub(super) extern "C" fn get_attribute_value(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    call(|| {
        sessions::with(session, |session, setup| {
            let object = session.object(setup, object)?;
            // SAFETY: the program's template.
            unsafe { answer(attributes, count, |kind| object.attribute(setup, kind)) }
        })
    })
}

pub(super) extern "C" fn set_attribute_value(
    session: CK_SESSION_HANDLE,
    object: CK_OBJECT_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    call(|| {
        // SAFETY: the program's template.
        let given = unsafe { template(attributes, count) }?;
        sessions::with(session, |session, setup| {
            generate::change(setup, &*session.object(setup, object)?, &Template(&given))
        })
    })
}

pub(super) extern "C" fn find_objects_init(
    session: CK_SESSION_HANDLE,
    attributes: *mut CK_ATTRIBUTE,
    count: CK_ULONG,
) -> CK_RV {
    call(|| {
        // SAFETY: the program's template.
        let wanted = unsafe { template(attributes, count) }?;
        sessions::with(session, |session, setup| session.find(setup, &wanted))
    })
}

pub(super) extern "C" fn find_objects(
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
                // SAFETY: the program's array has `most` places.
                unsafe { write(objects.add(place), found.pop().unwrap_or_default()) }?;
            }
            // SAFETY: the program's place for the answer.
            unsafe { write(count, number as CK_ULONG) }
        })
    })
}

pub(super) extern "C" fn find_objects_final(session: CK_SESSION_HANDLE) -> CK_RV {
    call(|| {
        sessions::with(session, |session, _| session.found.take().map(drop).ok_or(Rv(CKR_OPERATION_NOT_INITIALIZED)))
    })
}

pub(super) extern "C" fn generate_key_pair(
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
        // SAFETY: the program's mechanism and templates.
        let (how, of_public, of_private) =
            unsafe { (mechanism(how)?, template(of_public, public_count)?, template(of_private, private_count)?) };
        let how = how.ok_or(Rv(CKR_ARGUMENTS_BAD))?;
        let made = sessions::with(session, |session, setup| {
            if public.is_null() || private.is_null() {
                return Err(Rv(CKR_ARGUMENTS_BAD));
            }
            generate::pair(session, setup, &how, &Template(&of_public), &Template(&of_private))
        })?;
        // SAFETY: the program's places for the answers.
        unsafe { write(public, made.0).and(write(private, made.1)) }
    })
}
