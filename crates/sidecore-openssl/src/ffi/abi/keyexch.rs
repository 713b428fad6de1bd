//! Key exchange.

use super::{Param, functions};
use std::ffi::{c_int, c_void};

functions! {
    newctx = 1: fn(*mut c_void) -> *mut c_void;
    init = 2: fn(*mut c_void, *mut c_void, *const Param) -> c_int;
    derive = 3: fn(*mut c_void, *mut u8, *mut usize, usize) -> c_int;
    set_peer = 4: fn(*mut c_void, *mut c_void) -> c_int;
    freectx = 5: fn(*mut c_void);
    dupctx = 6: fn(*mut c_void) -> *mut c_void;
}
