//! OpenSSL's texts for the reasons of this provider's errors.
//!
//! They are registered as an engine's are, and not through `get_reason_strings`: OpenSSL frees those with the
//! provider, and a program that frees a key after `OPENSSL_cleanup` would crash.

use super::libcrypto::Libcrypto;
use sidecore_client::keyops::failure::Reason;
use std::ffi::{c_char, c_int, c_ulong};
use std::mem::transmute_copy;
use std::sync::OnceLock;

#[repr(C)]
struct Text {
    code: c_ulong,
    text: *const c_char,
}

/// Position of the library's number in the code of an error.
const LIBRARY_SHIFT: u32 = 23;

/// Our number from OpenSSL; 0: none, and OpenSSL uses one of its own.
static LIBRARY: OnceLock<u32> = OnceLock::new();

pub(super) fn register(library: &Libcrypto) {
    LIBRARY.get_or_init(|| load(library).unwrap_or(0));
}

pub(super) fn code(reason: Reason) -> u32 {
    LIBRARY.get().copied().unwrap_or(0) << LIBRARY_SHIFT | reason as u32
}

fn load(libcrypto: &Libcrypto) -> Option<u32> {
    // SAFETY: OpenSSL's functions have these types, see openssl/err.h. The list ends, and stays as long as the process.
    unsafe {
        let next: unsafe extern "C" fn() -> c_int = transmute_copy(&libcrypto.address(c"ERR_get_next_error_library")?);
        let load: unsafe extern "C" fn(c_int, *mut Text) -> c_int =
            transmute_copy(&libcrypto.address(c"ERR_load_strings")?);
        let library = u32::try_from(next()).ok()?;
        let texts = Box::leak(Box::new(texts(library)));
        load(library.cast_signed(), texts.as_mut_ptr());
        Some(library)
    }
}

fn texts(library: u32) -> [Text; Reason::ALL.len() + 2] {
    let with = |reason: u32, text: *const c_char| Text { code: c_ulong::from(library << LIBRARY_SHIFT | reason), text };
    std::array::from_fn(|place| match place.checked_sub(1).map(|place| Reason::ALL.get(place)) {
        None => with(0, c"sidecore".as_ptr()),
        Some(Some(reason)) => with(*reason as u32, reason.text().as_ptr()),
        Some(None) => Text { code: 0, text: std::ptr::null() },
    })
}
