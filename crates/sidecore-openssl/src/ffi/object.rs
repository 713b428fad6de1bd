//! Key objects: what OpenSSL holds of a key.

use super::abi::{Callback, object};
use super::params::List;
use super::provider::Provider;
use sidecore_client::face::key::{Curve, Family, Key};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A key object: empty until it is imported or loaded.
pub(crate) struct KeyObject {
    pub(crate) provider: Arc<Provider>,
    pub(crate) family: Family,
    pub(crate) key: Option<Arc<Key>>,
    /// Parameters without a key.
    pub(crate) parameters: Option<Curve>,
}

impl KeyObject {
    /// Without a key yet.
    pub(crate) fn new(provider: Arc<Provider>, family: Family) -> Self {
        Self { provider, family, key: None, parameters: None }
    }

    /// Tells a store's or decoder's callback of this object, which the function `load` of key management takes over.
    ///
    /// # Safety
    /// `callback` is OpenSSL's and goes with `argument`.
    pub(crate) unsafe fn offer(self, list: List, callback: Callback, argument: *mut c_void) -> c_int {
        let mut object: *mut Self = Box::into_raw(Box::new(self));
        let reference: *mut *mut Self = &raw mut object;
        let result = list
            .integer(c"type", object::PKEY)
            .borrowed(c"reference", reference.cast(), size_of::<*mut Self>())
            // SAFETY: see above.
            .with(|list| unsafe { callback(list, argument) });
        // SAFETY: written by `load` if it took the object over.
        let left = unsafe { reference.read_volatile() };
        if !left.is_null() {
            // SAFETY: made above, and nobody took it.
            drop(unsafe { Box::from_raw(left) });
        }
        result
    }
}

/// The key in a key object that OpenSSL hands to an operation.
///
/// # Safety
/// `object` is null or a key object of this provider.
pub(super) unsafe fn key_in(object: *const c_void) -> Option<Arc<Key>> {
    // SAFETY: see above.
    unsafe { object.cast::<KeyObject>().as_ref()?.key.clone() }
}
