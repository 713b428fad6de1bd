//! Ciphers.

use super::{Param, functions};
use std::ffi::{c_int, c_void};

functions! {
    newctx = 1: fn(*mut c_void) -> *mut c_void;
    encrypt_init = 2: fn(*mut c_void, *const u8, usize, *const u8, usize, *const Param) -> c_int;
    decrypt_init = 3: fn(*mut c_void, *const u8, usize, *const u8, usize, *const Param) -> c_int;
    update = 4: fn(*mut c_void, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
    finish = 5: fn(*mut c_void, *mut u8, *mut usize, usize) -> c_int;
    freectx = 7: fn(*mut c_void);
    dupctx = 8: fn(*mut c_void) -> *mut c_void;
    get_params = 9: fn(*mut Param) -> c_int;
    get_ctx_params = 10: fn(*mut c_void, *mut Param) -> c_int;
    set_ctx_params = 11: fn(*mut c_void, *const Param) -> c_int;
    gettable_params = 12: fn(*mut c_void) -> *const Param;
    gettable_ctx_params = 13: fn(*mut c_void, *mut c_void) -> *const Param;
    settable_ctx_params = 14: fn(*mut c_void, *mut c_void) -> *const Param;
}
