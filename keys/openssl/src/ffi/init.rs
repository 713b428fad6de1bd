//! The entry point that OpenSSL calls when it loads the provider, and the provider's own functions.

use super::abi::{Algorithm, Dispatch, Handle, provider as entry};
use super::legacy_builder::LegacyBuilder;
use super::libcrypto::Libcrypto;
use super::params::{Answer, INTEGER, Param, Questions, TEXT_POINTER, params};
use super::provider::Provider;
use super::upcalls::Core;
use super::{algorithms, fips, free, guard, legacy, strings};
use crate::jobs;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

static FUNCTIONS: [Dispatch; 5] = [
    entry::teardown(free::<Arc<Provider>>),
    entry::gettable_params(gettable_params),
    entry::get_params(get_params),
    entry::query_operation(query_operation),
    Dispatch::END,
];

static GETTABLE: &[Param] = params! {
    TEXT_POINTER: c"name", c"version", c"buildinfo";
    INTEGER: c"status";
};

/// Entry point of the provider.
///
/// # Safety
/// Only OpenSSL may call it, by `openssl/core.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OSSL_provider_init(
    handle: *const Handle,
    upcalls: *const c_void,
    functions: *mut *const c_void,
    context: *mut *mut c_void,
) -> c_int {
    guard(0, || {
        // SAFETY: `handle` and `in`, the table of upcalls that ends with number 0, belong together, by provider-base(7).
        let Some(core) = (unsafe { Core::new(handle, upcalls.cast()) }) else { return 0 };
        let library = Libcrypto::with(core.address_in_libcrypto());
        // SAFETY: `library` finds functions of that libcrypto by name.
        unsafe { jobs::ffi::find(|name| library.address(name)) };
        fips::find(&library);
        strings::register(&library);
        legacy::find(&library, core.memory.library());
        let Some(provider) = Provider::load(core, LegacyBuilder::find(&library)) else { return 0 };
        // SAFETY: `out` and `provctx` receive the table and the context, by provider-base(7).
        unsafe {
            *functions = FUNCTIONS.as_ptr().cast();
            *context = Box::into_raw(Box::new(provider)).cast();
        }
        1
    })
}

extern "C" fn gettable_params(_provider: *mut c_void) -> *const Param {
    GETTABLE.as_ptr()
}

extern "C" fn get_params(_provider: *mut c_void, mut questions: Questions<'_>) -> c_int {
    guard(0, || {
        let version = const {
            match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
                Ok(version) => version,
                Err(_) => c"",
            }
        };
        c_int::from(questions.answer([
            (c"name", Answer::TextPointer(c"sidecore")),
            (c"version", Answer::TextPointer(version)),
            (c"buildinfo", Answer::TextPointer(version)),
            (c"status", Answer::Integer(1)),
        ]))
    })
}

extern "C" fn query_operation(_provider: *mut c_void, number: c_int, no_store: Option<&mut c_int>) -> *const Algorithm {
    if let Some(no_store) = no_store {
        *no_store = 0;
    }
    algorithms(number).map_or(std::ptr::null(), <[Algorithm]>::as_ptr)
}
