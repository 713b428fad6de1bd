//! `sidecore:NAME` where OpenSSL takes a URI.

use super::abi::{Callback, Dispatch, Param, PassphraseCallback, expect, store as entry};
use super::keymgmt::export_object;
use super::object::KeyObject;
use super::params::{List, Params};
use super::provider::Provider;
use super::{guard, shared};
use sidecore_client::face::failure::{Failure, Reason};
use sidecore_client::face::find::find;
use sidecore_client::face::key::Key;
use sidecore_client::keys::uri::Uri;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// One URI being read.
struct Loader {
    provider: Arc<Provider>,
    name: String,
    /// What the caller wants.
    expected: c_int,
    /// The key was given out, or there is none.
    over: bool,
}

pub(super) static FUNCTIONS: [Dispatch; 8] = [
    entry::open(open),
    entry::settable_ctx_params(settable_ctx_params),
    entry::set_ctx_params(set_ctx_params),
    entry::load(load),
    entry::eof(eof),
    entry::close(close),
    entry::export_object(export_object),
    Dispatch::END,
];

static SETTABLE: [Param; 2] = [Param::integer(c"expect"), Param::END];

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn open(context: *mut c_void, uri: *const c_char) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the provider's context, and OpenSSL's string.
        let (provider, uri) = unsafe { (shared::<Provider>(context), CStr::from_ptr(uri)) };
        match Uri::parse(&uri.to_string_lossy()) {
            Ok(uri) => {
                let name = uri.name().to_owned();
                Box::into_raw(Box::new(Loader { provider, name, expected: expect::ANY, over: false })).cast()
            }
            Err(error) => {
                provider.fail(c"open", &Failure::new(Reason::Key, error.to_string()));
                std::ptr::null_mut()
            }
        }
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn settable_ctx_params(_context: *mut c_void) -> *const Param {
    SETTABLE.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn set_ctx_params(loader: *mut c_void, params: *const Param) -> c_int {
    guard(0, || {
        // SAFETY: OpenSSL's context and list.
        let (loader, params) = unsafe { (&mut *loader.cast::<Loader>(), Params::new(params)) };
        if let Some(expected) = params.integer(c"expect").and_then(|number| c_int::try_from(number).ok()) {
            loader.expected = expected;
        }
        1
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn load(
    loader: *mut c_void,
    callback: Callback,
    argument: *mut c_void,
    _ask: PassphraseCallback,
    _ask_argument: *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: OpenSSL's context.
        let loader = unsafe { &mut *loader.cast::<Loader>() };
        loader.over = true;
        if ![expect::ANY, expect::PUBLIC_KEY, expect::KEY].contains(&loader.expected) {
            // There are keys only; that is no error.
            return 1;
        }
        match loader.provider.options().and_then(|options| find(options, &loader.name)) {
            Ok(key) => {
                let key = if loader.expected == expect::PUBLIC_KEY { key.without_private() } else { key };
                // SAFETY: OpenSSL's callback and its argument.
                unsafe { offer(&loader.provider, key, callback, argument) }
            }
            Err(failure) => loader.provider.fail(c"load", &failure),
        }
    })
}

/// Hands a key to OpenSSL.
///
/// # Safety
/// `callback` is OpenSSL's and goes with `argument`.
pub(super) unsafe fn offer(provider: &Arc<Provider>, key: Key, callback: Callback, argument: *mut c_void) -> c_int {
    let family = key.public.family();
    let object = KeyObject { key: Some(Arc::new(key)), ..KeyObject::new(Arc::clone(provider), family) };
    // SAFETY: see above.
    unsafe { object.offer(List::default().text(c"data-type", family.name()), callback, argument) }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn eof(loader: *mut c_void) -> c_int {
    // SAFETY: OpenSSL's context.
    c_int::from(unsafe { (*loader.cast::<Loader>()).over })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn close(loader: *mut c_void) -> c_int {
    guard(0, || {
        // SAFETY: made by `open`, for the last time.
        drop(unsafe { Box::from_raw(loader.cast::<Loader>()) });
        1
    })
}
