//! The library's contexts of operations on keys, or of making keys.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};

use aws_lc_sys as sys;

use super::owned;

pub(super) struct Context(NonNull<sys::EVP_PKEY_CTX>);

impl Context {
    pub(super) fn of_algorithm(id: c_int) -> Option<Self> {
        // SAFETY: the context returned is owned.
        owned(unsafe { sys::EVP_PKEY_CTX_new_id(id, null_mut()) }).map(Self)
    }

    /// For this key; the context takes a reference of its own.
    ///
    /// # Safety
    /// The key is live.
    pub(super) unsafe fn of_key(key: *mut sys::EVP_PKEY) -> Option<Self> {
        // SAFETY: the caller promises that the key is live; the context returned is owned.
        owned(unsafe { sys::EVP_PKEY_CTX_new(key, null_mut()) }).map(Self)
    }

    pub(super) fn as_ptr(&self) -> *mut sys::EVP_PKEY_CTX {
        self.0.as_ptr()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was owned and is freed once.
        unsafe { sys::EVP_PKEY_CTX_free(self.0.as_ptr()) };
    }
}
