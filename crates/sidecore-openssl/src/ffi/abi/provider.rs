//! The provider's own functions.

use super::{Algorithm, Param, functions};
use std::ffi::{c_int, c_void};

functions! {
    teardown = 1024: fn(*mut c_void);
    gettable_params = 1025: fn(*mut c_void) -> *const Param;
    get_params = 1026: fn(*mut c_void, *mut Param) -> c_int;
    query_operation = 1027: fn(*mut c_void, c_int, *mut c_int) -> *const Algorithm;
}
