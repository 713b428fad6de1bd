//! Decoders.

use super::core::Bio;
use super::{Callback, PassphraseCallback, functions};
use std::ffi::{c_int, c_void};

functions! {
    newctx = 1: fn(*mut c_void) -> *mut c_void;
    freectx = 2: fn(*mut c_void);
    does_selection = 10: fn(*mut c_void, c_int) -> c_int;
    decode = 11: fn(*mut c_void, *mut Bio, c_int, Callback, *mut c_void, PassphraseCallback, *mut c_void) -> c_int;
    export_object = 20: fn(*mut c_void, *const c_void, usize, Callback, *mut c_void) -> c_int;
}
