//! Digests.

use super::{Param, functions};
use std::ffi::{c_int, c_void};

functions! {
    newctx = 1: fn(*mut c_void) -> *mut c_void;
    init = 2: fn(*mut c_void, *const Param) -> c_int;
    update = 3: fn(*mut c_void, *const u8, usize) -> c_int;
    finish = 4: fn(*mut c_void, *mut u8, *mut usize, usize) -> c_int;
    freectx = 6: fn(*mut c_void);
    dupctx = 7: fn(*mut c_void) -> *mut c_void;
    get_params = 8: fn(*mut Param) -> c_int;
    gettable_params = 11: fn(*mut c_void) -> *const Param;
}
