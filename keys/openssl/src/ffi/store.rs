//! A store for URIs `sidecore:NAME`.

use super::abi::{Callback, Dispatch, PassphraseCallback, expect, store as entry};
use super::keymgmt::export_object;
use super::object::offer;
use super::params::{INTEGER, Param, Params, TEXT, params};
use super::provider::Provider;
use super::{fips, guard};
use sidecore_client::keyops::ask::find;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keys::uri::Uri;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

/// As in [`super::decoder`]: the error says why there is no key.
pub(super) const PROPERTIES: &CStr = c"provider=sidecore,fips=yes";

struct Loader {
    provider: Arc<Provider>,
    name: String,
    expected: c_int,
    /// The key was returned, or there is none.
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

/// Other parameters, properties and type of the input, concern readers of files.
static SETTABLE: &[Param] = params! {
    INTEGER: c"expect";
    TEXT: c"properties", c"input-type";
};

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn open(provider: &Arc<Provider>, uri: *const c_char) -> Option<Box<Loader>> {
    guard(None, || {
        // SAFETY: `uri` is a C string, by provider-storemgmt(7).
        let uri = unsafe { CStr::from_ptr(uri) }.to_string_lossy();
        let uri = Uri::parse(&uri).map_err(|error| Failure::new(Reason::Key, error.to_string()));
        let uri = fips::check(&provider.core).and(uri);
        let name = provider.tell(c"open", uri)?.name().to_owned();
        Some(Box::new(Loader { provider: Arc::clone(provider), name, expected: expect::ANY, over: false }))
    })
}

extern "C" fn settable_ctx_params(_provider: *mut c_void) -> *const Param {
    SETTABLE.as_ptr()
}

extern "C" fn set_ctx_params(loader: &mut Loader, params: Params<'_>) -> c_int {
    guard(0, || {
        let known = loader.provider.tell(c"search", params.all_in(SETTABLE));
        if let Some(expected) = params.integer(c"expect").and_then(|number| c_int::try_from(number).ok()) {
            loader.expected = expected;
        }
        c_int::from(known.is_some())
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn load(
    loader: &mut Loader,
    callback: Callback,
    argument: *mut c_void,
    _ask: PassphraseCallback,
    _ask_argument: *mut c_void,
) -> c_int {
    guard(0, || {
        loader.over = true;
        if ![expect::ANY, expect::PUBLIC_KEY, expect::KEY].contains(&loader.expected) {
            // The store has only keys; a caller that expects another kind gets nothing, which is no error.
            return 1;
        }
        let found = loader.provider.options().and_then(|options| find(options, &loader.name));
        let Some(key) = loader.provider.tell(c"load", found) else { return 0 };
        let key = if loader.expected == expect::PUBLIC_KEY { key.without_private() } else { key };
        // SAFETY: `object_cb` and `object_cbarg` belong together, by provider-storemgmt(7).
        unsafe { offer(&loader.provider, key, callback, argument) }
    })
}

extern "C" fn eof(loader: &Loader) -> c_int {
    c_int::from(loader.over)
}

extern "C" fn close(loader: Box<Loader>) -> c_int {
    guard(0, || {
        drop(loader);
        1
    })
}
