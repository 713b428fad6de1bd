//! Signatures.

use super::{Param, functions};
use std::ffi::{c_char, c_int, c_void};

functions! {
    newctx = 1: fn(*mut c_void, *const c_char) -> *mut c_void;
    sign_init = 2: fn(*mut c_void, *mut c_void, *const Param) -> c_int;
    sign = 3: fn(*mut c_void, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
    verify_init = 4: fn(*mut c_void, *mut c_void, *const Param) -> c_int;
    verify = 5: fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;
    digest_sign_init = 8: fn(*mut c_void, *const c_char, *mut c_void, *const Param) -> c_int;
    digest_sign_update = 9: fn(*mut c_void, *const u8, usize) -> c_int;
    digest_sign_final = 10: fn(*mut c_void, *mut u8, *mut usize, usize) -> c_int;
    digest_sign = 11: fn(*mut c_void, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
    digest_verify_init = 12: fn(*mut c_void, *const c_char, *mut c_void, *const Param) -> c_int;
    digest_verify_update = 13: fn(*mut c_void, *const u8, usize) -> c_int;
    digest_verify_final = 14: fn(*mut c_void, *const u8, usize) -> c_int;
    digest_verify = 15: fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;
    freectx = 16: fn(*mut c_void);
    dupctx = 17: fn(*mut c_void) -> *mut c_void;
    get_ctx_params = 18: fn(*mut c_void, *mut Param) -> c_int;
    gettable_ctx_params = 19: fn(*mut c_void, *mut c_void) -> *const Param;
    set_ctx_params = 20: fn(*mut c_void, *const Param) -> c_int;
    settable_ctx_params = 21: fn(*mut c_void, *mut c_void) -> *const Param;
}
