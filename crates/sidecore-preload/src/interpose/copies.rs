//! Functions by which the kernel moves bytes itself, now or later.

use super::catalogue::Opaque;
use super::{errno, intercept, pass};
use crate::calls::send::before;
use crate::calls::settle;
use crate::table;
use libc::{aiocb, c_int, c_uint, size_t, ssize_t};
use rustix::io::Errno;
use sidecore_core::streams::rule::Why;

/// Everything before is the kernel's. Err: the call fails as the kernel's would.
#[inline]
fn drained(fd: c_int) -> Result<(), Errno> {
    table::watched(fd).map_or(Ok(()), |slot| before(fd, slot, Why::Special))
}

/// What is sent by others later is the kernel's for good.
///
/// # Safety
/// As for `aio_write`.
unsafe fn pinned(control: *const aiocb) {
    // SAFETY: as the caller promised.
    if let Some(control) = unsafe { control.as_ref() }
        && let Some(slot) = table::watched(control.aio_fildes)
    {
        errno::kept(|| settle::pin(control.aio_fildes, slot, Why::Special));
    }
}

/// # Safety
/// As for `lio_listio`.
unsafe fn all_pinned(list: Opaque, count: c_int) {
    let list: *const *const aiocb = list.cast();
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as the caller promised.
        unsafe { pinned(*list.add(at)) };
    }
}

intercept! {
    fn sendfile(to: c_int, from: c_int, offset: Opaque, count: size_t) -> ssize_t {
        match drained(to) {
            Ok(()) => pass!(sendfile(to, from, offset, count)),
            Err(error) => errno::failed(error),
        }
    }

    fn sendfile64(to: c_int, from: c_int, offset: Opaque, count: size_t) -> ssize_t {
        match drained(to) {
            Ok(()) => pass!(sendfile64(to, from, offset, count)),
            Err(error) => errno::failed(error),
        }
    }

    fn splice(from: c_int, from_at: Opaque, to: c_int, to_at: Opaque, len: size_t, flags: c_uint) -> ssize_t {
        match drained(to) {
            Ok(()) => pass!(splice(from, from_at, to, to_at, len, flags)),
            Err(error) => errno::failed(error),
        }
    }

    fn aio_write(control: Opaque) -> c_int {
        // SAFETY: as the caller promised.
        unsafe { pinned(control.cast()) };
        pass!(aio_write(control))
    }

    fn aio_write64(control: Opaque) -> c_int {
        // SAFETY: as the caller promised; both are the same type here.
        unsafe { pinned(control.cast()) };
        pass!(aio_write64(control))
    }

    fn lio_listio(mode: c_int, list: Opaque, count: c_int, event: Opaque) -> c_int {
        // SAFETY: as the caller promised.
        unsafe { all_pinned(list, count) };
        pass!(lio_listio(mode, list, count, event))
    }

    fn lio_listio64(mode: c_int, list: Opaque, count: c_int, event: Opaque) -> c_int {
        // SAFETY: as the caller promised; both are the same type here.
        unsafe { all_pinned(list, count) };
        pass!(lio_listio64(mode, list, count, event))
    }
}
