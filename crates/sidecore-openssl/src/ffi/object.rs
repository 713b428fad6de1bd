//! Key objects: what OpenSSL holds of a key.

use super::abi::{Callback, OBJECT_PKEY};
use super::params::List;
use super::provider::Provider;
use sidecore_client::face::key::{Curve, Family, Key, Public};
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

/// Where a key object is that was offered, until it is taken.
pub(super) type Reference = Option<Box<KeyObject>>;

impl KeyObject {
    /// Without a key yet.
    pub(crate) fn new(provider: &Arc<Provider>, family: Family) -> Self {
        Self { provider: Arc::clone(provider), family, key: None, parameters: None }
    }

    /// The curve of the key, or of parameters without one.
    pub(super) fn curve(&self) -> Option<Curve> {
        match self.key.as_ref().map(|key| &key.public) {
            Some(Public::Ec { curve, .. }) => Some(*curve),
            _ => self.parameters,
        }
    }
}

/// Tells a store's or decoder's callback of a key, which the function `load` of key management takes over.
///
/// # Safety
/// `callback` is OpenSSL's and goes with `argument`.
pub(super) unsafe fn offer(provider: &Arc<Provider>, key: Key, callback: Callback, argument: *mut c_void) -> c_int {
    let family = key.public.family();
    let object = KeyObject { key: Some(Arc::new(key)), ..KeyObject::new(provider, family) };
    let mut reference: Reference = Some(Box::new(object));
    let list = List::default().text(c"data-type", family.name()).integer(c"type", OBJECT_PKEY);
    let list = list.borrowed(c"reference", (&raw mut reference).cast(), size_of::<Reference>());
    // SAFETY: see above. `load` may leave nothing at the reference, which lives longer than the call.
    list.with(|list| unsafe { callback(list, argument) })
}

/// The key in a key object that OpenSSL hands to an operation.
pub(super) fn key_in(object: Option<&KeyObject>) -> Option<Arc<Key>> {
    object?.key.clone()
}
