//! Key management.

use super::{Callback, Param, functions};
use std::ffi::{c_char, c_int, c_void};

functions! {
    new = 1: fn(*mut c_void) -> *mut c_void;
    gen_init = 2: fn(*mut c_void, c_int, *const Param) -> *mut c_void;
    gen_set_template = 3: fn(*mut c_void, *mut c_void) -> c_int;
    gen_set_params = 4: fn(*mut c_void, *const Param) -> c_int;
    gen_settable_params = 5: fn(*mut c_void, *mut c_void) -> *const Param;
    generate = 6: fn(*mut c_void, *const c_void, *mut c_void) -> *mut c_void;
    gen_cleanup = 7: fn(*mut c_void);
    load = 8: fn(*const c_void, usize) -> *mut c_void;
    free = 10: fn(*mut c_void);
    get_params = 11: fn(*mut c_void, *mut Param) -> c_int;
    gettable_params = 12: fn(*mut c_void) -> *const Param;
    query_operation_name = 20: fn(c_int) -> *const c_char;
    has = 21: fn(*const c_void, c_int) -> c_int;
    validate = 22: fn(*const c_void, c_int, c_int) -> c_int;
    matches = 23: fn(*const c_void, *const c_void, c_int) -> c_int;
    import = 40: fn(*mut c_void, c_int, *const Param) -> c_int;
    import_types = 41: fn(c_int) -> *const Param;
    export = 42: fn(*mut c_void, c_int, Callback, *mut c_void) -> c_int;
    export_types = 43: fn(c_int) -> *const Param;
    dup = 44: fn(*const c_void, c_int) -> *mut c_void;
}
