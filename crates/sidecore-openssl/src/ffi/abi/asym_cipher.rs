//! Encryption to a public key.

use super::{Param, functions};
use std::ffi::{c_int, c_void};

functions! {
    newctx = 1: fn(*mut c_void) -> *mut c_void;
    decrypt_init = 4: fn(*mut c_void, *mut c_void, *const Param) -> c_int;
    decrypt = 5: fn(*mut c_void, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
    freectx = 6: fn(*mut c_void);
    dupctx = 7: fn(*mut c_void) -> *mut c_void;
    get_ctx_params = 8: fn(*mut c_void, *mut Param) -> c_int;
    gettable_ctx_params = 9: fn(*mut c_void, *mut c_void) -> *const Param;
    set_ctx_params = 10: fn(*mut c_void, *const Param) -> c_int;
    settable_ctx_params = 11: fn(*mut c_void, *mut c_void) -> *const Param;
}
