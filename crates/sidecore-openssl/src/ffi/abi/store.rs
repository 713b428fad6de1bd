//! Stores of objects, by URI.

use super::{Callback, Param, PassphraseCallback, functions};
use std::ffi::{c_char, c_int, c_void};

functions! {
    open = 1: fn(*mut c_void, *const c_char) -> *mut c_void;
    settable_ctx_params = 3: fn(*mut c_void) -> *const Param;
    set_ctx_params = 4: fn(*mut c_void, *const Param) -> c_int;
    load = 5: fn(*mut c_void, Callback, *mut c_void, PassphraseCallback, *mut c_void) -> c_int;
    eof = 6: fn(*mut c_void) -> c_int;
    close = 7: fn(*mut c_void) -> c_int;
    export_object = 8: fn(*mut c_void, *const c_void, usize, Callback, *mut c_void) -> c_int;
}
