//! The calling thread's `errno`.

use libc::c_int;
use rustix::io::Errno;

/// What it is.
pub(super) fn get() -> c_int {
    // SAFETY: the address is the thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
pub(super) fn set(number: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number }
}

/// What a function returns that failed so.
pub(super) fn failed(error: Errno) -> isize {
    set(error.raw_os_error());
    -1
}

/// What `work` returns, without a trace in `errno`.
pub(super) fn kept<T>(work: impl FnOnce() -> T) -> T {
    let before = get();
    let result = work();
    set(before);
    result
}
