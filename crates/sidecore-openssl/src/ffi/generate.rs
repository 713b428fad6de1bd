//! Key generation as OpenSSL asks for it: parameters first, then a key; for EC also parameters alone.

use super::abi::{Param, select};
use super::guard;
use super::object::KeyObject;
use super::params::Params;
use super::provider::Provider;
use crate::generate::Wish;
use sidecore_client::face::failure::Failure;
use sidecore_client::face::key::{Curve, Family, Public};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A key to be made.
pub(super) struct Generation {
    provider: Arc<Provider>,
    wish: Wish,
    /// Parameters only.
    no_key: bool,
}

impl Generation {
    fn set(&mut self, params: Params<'_>) -> Result<(), Failure> {
        if let Some(bits) = params.integer(c"bits") {
            self.wish.bits = usize::try_from(bits).unwrap_or(0);
        }
        if let Some(group) = params.text(c"group") {
            let curve = Curve::from_name(group)
                .ok_or_else(|| Failure::unsupported(format!("the curve {group}: use prime256v1 or secp384r1")))?;
            self.wish.curve = Some(curve);
        }
        Ok(())
    }
}

/// # Safety
/// `params` is OpenSSL's list.
pub(super) unsafe fn begin(
    provider: Arc<Provider>,
    family: Family,
    selection: c_int,
    params: *const Param,
) -> *mut c_void {
    let no_key = selection & select::KEY_PAIR == 0;
    let mut generation = Generation { provider, wish: Wish::new(family), no_key };
    // SAFETY: see above.
    match generation.set(unsafe { Params::new(params) }) {
        Ok(()) => Box::into_raw(Box::new(generation)).cast(),
        Err(failure) => {
            generation.provider.fail(c"generate", &failure);
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn set_template(generation: *mut c_void, template: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: OpenSSL's context; its key object, or null for a key of which only the type is known.
        let (generation, template) =
            unsafe { (&mut *generation.cast::<Generation>(), template.cast::<KeyObject>().as_ref()) };
        if let Some(template) = template {
            generation.wish.curve = template.curve();
        }
        1
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn set_params(generation: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: OpenSSL's context and list.
        let (generation, params) = unsafe { (&mut *generation.cast::<Generation>(), Params::new(params)) };
        match generation.set(params) {
            Ok(()) => 1,
            Err(failure) => generation.provider.fail(c"generate", &failure),
        }
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn settable_params(_generation: *mut c_void, _provider: *mut c_void) -> *const Param {
    static SETTABLE: [Param; 4] =
        [Param::unsigned(c"bits"), Param::unsigned(c"primes"), Param::text(c"group"), Param::END];
    SETTABLE.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn generate(
    generation: *mut c_void,
    _progress: *const c_void,
    _argument: *mut c_void,
) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: OpenSSL's context.
        let Generation { provider, wish, no_key } = unsafe { &*generation.cast::<Generation>() };
        let mut object = KeyObject::new(Arc::clone(provider), wish.family);
        if *no_key {
            object.parameters = wish.curve;
        } else {
            match provider.options().and_then(|options| wish.generate(options)) {
                Ok(key) => object.key = Some(Arc::new(key)),
                Err(failure) => {
                    provider.fail(c"generate", &failure);
                    return std::ptr::null_mut();
                }
            }
        }
        Box::into_raw(Box::new(object)).cast()
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn end(generation: *mut c_void) {
    guard((), || {
        if !generation.is_null() {
            // SAFETY: made by `begin`, for the last time.
            drop(unsafe { Box::from_raw(generation.cast::<Generation>()) });
        }
    });
}

impl KeyObject {
    /// The curve of the key, or of parameters without one.
    pub(super) fn curve(&self) -> Option<Curve> {
        match self.key.as_ref().map(|key| &key.public) {
            Some(Public::Ec { curve, .. }) => Some(*curve),
            _ => self.parameters,
        }
    }
}
