//! What the contexts of all operations have in common: OpenSSL frees and copies them, and works on one at a time.

use super::guard;
use super::provider::Provider;
use sidecore_client::face::failure::{Failure, Reason};
use sidecore_client::face::key::Key;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

/// The context of an operation. OpenSSL holds it as the raw pointer of a box.
pub(super) trait Operation: Clone {
    /// Where failures are told.
    fn provider(&self) -> &Provider;
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says, with a context of this type.
pub(super) unsafe extern "C" fn freectx<O: Operation>(context: *mut c_void) {
    guard((), || {
        if !context.is_null() {
            // SAFETY: made by `newctx` or `dupctx`, for the last time.
            drop(unsafe { Box::from_raw(context.cast::<O>()) });
        }
    });
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says, with a context of this type.
pub(super) unsafe extern "C" fn dupctx<O: Operation>(context: *mut c_void) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: OpenSSL's context.
        let copy = unsafe { context.cast::<O>().as_ref() }.map(|context| Box::new(context.clone()));
        copy.map_or(std::ptr::null_mut(), |copy| Box::into_raw(copy).cast())
    })
}

/// Runs `work` on a context; what fails goes into OpenSSL's queue.
///
/// # Safety
/// `context` is null or a context of this type, and nobody else is at it.
pub(super) unsafe fn with<O: Operation>(
    context: *mut c_void,
    doing: &'static CStr,
    work: impl FnOnce(&mut O) -> Result<bool, Failure>,
) -> c_int {
    guard(0, || {
        // SAFETY: see above.
        let Some(context) = (unsafe { context.cast::<O>().as_mut() }) else { return 0 };
        match work(context) {
            Ok(done) => c_int::from(done),
            Err(failure) => context.provider().fail(doing, &failure),
        }
    })
}

/// The key that an operation was given.
pub(super) fn given(key: Option<&Arc<Key>>) -> Result<&Arc<Key>, Failure> {
    key.ok_or_else(|| Failure::new(Reason::Key, "no key: initialise the operation with one"))
}
