//! The key object that an `RSA` or `EC_KEY` carries, as OpenSSL's extra data (`CRYPTO_EX_DATA`).
//!
//! OpenSSL frees and copies it with its carrier, also after the provider was unloaded: this library stays loaded, and
//! the object then says that its provider is gone.

use super::super::guard;
use super::super::libcrypto::{Libcrypto, functions_of_libcrypto};
use super::super::memory::MAX_LIBRARIES;
use super::super::object::{KeyObject, Object};
use super::super::provider::{Provider, tell};
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::Key;
use std::ffi::{CStr, c_int, c_long, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

type Free = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, c_int, c_long, *mut c_void);
type Duplicate =
    unsafe extern "C" fn(*mut c_void, *const c_void, *mut *mut c_void, c_int, c_long, *mut c_void) -> c_int;
type Get = unsafe extern "C" fn(*const c_void, c_int) -> *mut c_void;
type Set = unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int;

functions_of_libcrypto! {
    /// Functions for extra data of all classes.
    Functions {
        new_index = c"CRYPTO_get_ex_new_index":
            fn(c_int, c_long, *mut c_void, *const c_void, Duplicate, Free) -> c_int;
        get = c"CRYPTO_get_ex_data": fn(*const c_void, c_int) -> *mut c_void;
    }
}

/// What an object of one class carries, in one libcrypto.
pub(super) struct Attached {
    functions: Functions,
    /// Number of the class (`CRYPTO_EX_INDEX_…`).
    class: c_int,
    get: Get,
    set: Set,
    index: OnceLock<c_int>,
}

impl Attached {
    /// `None`: libcrypto lacks a function.
    ///
    /// # Safety
    /// `get` and `set` name functions of libcrypto for extra data of this class.
    pub(super) unsafe fn find(library: &Libcrypto, class: c_int, get: &CStr, set: &CStr) -> Option<Self> {
        // SAFETY: the functions for extra data have these types in all classes, as `RSA_get_ex_data` and `RSA_set_ex_data`.
        let (get, set) = unsafe {
            let (get, set) = (library.address(get)?, library.address(set)?);
            (std::mem::transmute::<*mut c_void, Get>(get), std::mem::transmute::<*mut c_void, Set>(set))
        };
        Some(Self { functions: Functions::find(library)?, class, get, set, index: OnceLock::new() })
    }

    /// Our index in this class. Two threads that ask first may both register one, and one of these stays unused: a lock
    /// around OpenSSL's call could be held in a forked child forever.
    fn index(&self) -> Option<c_int> {
        if let Some(index) = self.index.get() {
            return Some(*index);
        }
        // SAFETY: `free` and `duplicate` have the types of CRYPTO_get_ex_new_index(3), and this library stays loaded.
        let index = unsafe { (self.functions.new_index)(self.class, 0, self.number(), ptr::null(), duplicate, free) };
        (index >= 0).then(|| *self.index.get_or_init(|| index))
    }

    fn number(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Gives the carrier a copy of this object.
    ///
    /// # Safety
    /// `carrier` is a new object of this class, in this libcrypto.
    pub(super) unsafe fn attach(&self, carrier: *mut c_void, object: &KeyObject) -> Result<(), Failure> {
        let refused =
            || Failure::new(Reason::Internal, "libcrypto takes no data for its object: raise the limits on memory");
        let (index, copy) = (self.index().ok_or_else(refused)?, object.again(true)?.into_raw());
        // SAFETY: the carrier is of the class that the function and the index are for. It owns the copy from then on.
        if unsafe { (self.set)(carrier, index, copy) } > 0 {
            return Ok(());
        }
        // SAFETY: the carrier did not take it.
        drop(unsafe { Object::from_raw(copy) });
        Err(refused())
    }

    /// # Safety
    /// `carrier` is an object of this class, in this libcrypto, and lives for `'a`.
    unsafe fn of<'a>(&self, carrier: *const c_void) -> Option<&'a KeyObject> {
        let index = *self.index.get()?;
        // SAFETY: only `attach` and `duplicate` store something at our index: null or an object that the carrier owns.
        unsafe { (self.get)(carrier, index).cast::<KeyObject>().as_ref() }
    }

    /// Runs `work` with the key of this carrier. `None`: it failed, and the cause is in OpenSSL's error queue.
    ///
    /// # Safety
    /// `carrier` is an object of this class, in this libcrypto.
    pub(super) unsafe fn with_key<T>(
        &self,
        carrier: *const c_void,
        doing: &'static CStr,
        work: impl FnOnce(&Provider, &Arc<Key>) -> Result<T, Failure>,
    ) -> Option<T> {
        guard(None, || {
            // SAFETY: the carrier is of this class, and lives during this call.
            let object = unsafe { self.of(carrier) };
            let found = || {
                let object = object.ok_or_else(|| Failure::new(Reason::Key, "the object has lost its key"))?;
                let provider = object.provider();
                let provider = provider.ok_or_else(|| Failure::new(Reason::Internal, "the provider was unloaded"))?;
                Ok((provider, object.key()?.ok_or_else(|| Failure::new(Reason::Key, "the object has no key"))?))
            };
            match found() {
                Ok((provider, key)) => provider.tell_of(Some(&key), doing, work(&provider, &key)),
                Err(failure) => tell(object.and_then(KeyObject::provider), doing, Err(failure)),
            }
        })
    }
}

/// One place for each libcrypto.
pub(super) type Places<T> = [OnceLock<Option<T>>; MAX_LIBRARIES];

/// # Safety
/// Only OpenSSL may call it, with what was attached.
unsafe extern "C" fn free(
    _carrier: *mut c_void,
    object: *mut c_void,
    _data: *mut c_void,
    _index: c_int,
    _number: c_long,
    _attached: *mut c_void,
) {
    // SAFETY: null or what `attach` or `duplicate` stored; OpenSSL calls once, when the carrier ends.
    guard((), || drop(unsafe { Object::from_raw(object) }));
}

/// Copies the object for the copy of its carrier.
///
/// # Safety
/// Only OpenSSL may call it, by `openssl/crypto.h`.
unsafe extern "C" fn duplicate(
    to: *mut c_void,
    _from: *const c_void,
    object: *mut *mut c_void,
    index: c_int,
    _number: c_long,
    attached: *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: `index` registered `attached`, which is static; `object` has room for a pointer to an object of ours.
        unsafe {
            let attached = &*attached.cast::<Attached>();
            let before = (attached.functions.get)(to, index);
            if before == *object {
                return 1;
            }
            let copy = match (*object).cast::<KeyObject>().as_ref() {
                None => ptr::null_mut(),
                Some(from) => match tell(from.provider(), c"copy a key", from.again(true)) {
                    Some(copy) => copy.into_raw(),
                    None => return 0,
                },
            };
            // The copy takes the place of what its carrier had.
            drop(Object::from_raw(before));
            *object = copy;
        }
        1
    })
}
