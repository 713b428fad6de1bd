//! Key encapsulation.

use super::{Param, functions};
use std::ffi::{c_int, c_void};

functions! {
    newctx = 1: fn(*mut c_void) -> *mut c_void;
    encapsulate_init = 2: fn(*mut c_void, *mut c_void, *const Param) -> c_int;
    encapsulate = 3: fn(*mut c_void, *mut u8, *mut usize, *mut u8, *mut usize) -> c_int;
    decapsulate_init = 4: fn(*mut c_void, *mut c_void, *const Param) -> c_int;
    decapsulate = 5: fn(*mut c_void, *mut u8, *mut usize, *const u8, usize) -> c_int;
    freectx = 6: fn(*mut c_void);
    dupctx = 7: fn(*mut c_void) -> *mut c_void;
}
