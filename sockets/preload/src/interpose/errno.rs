//! The calling thread's `errno`.

use libc::c_int;
use rustix::io::Errno;

pub(super) fn get() -> c_int {
    // SAFETY: the address is the thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

pub(super) fn set(number: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number }
}

pub(super) fn failed<T: From<i8>>(error: Errno) -> T {
    set(error.raw_os_error());
    T::from(-1)
}

#[inline]
pub(super) fn after<T: From<i8>>(before: Result<(), Errno>, call: impl FnOnce() -> T) -> T {
    before.map_or_else(failed, |()| call())
}

pub(super) fn kept<T>(work: impl FnOnce() -> T) -> T {
    let before = get();
    let result = work();
    set(before);
    result
}
