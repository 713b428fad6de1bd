//! Functions that let the kernel move bytes itself, immediately or later.

use super::catalogue::Opaque;
use super::{errno, intercept, leaving, memory, pass};
use crate::calls::send::before;
use crate::gate;
use libc::{aiocb, c_int, c_uint, size_t, ssize_t};
use rustix::io::Errno;
use sidecore_streams::rule::PathReason;

/// Sends by `call`, once the kernel has all bytes before it.
#[inline]
fn sent(to: c_int, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(gate) = gate::watched(to) else { return call() };
    if let Err(error) = before(gate, PathReason::Moved) {
        return errno::failed(error);
    }
    let result = call();
    gate.slot().sends(result);
    result
}

/// Keeps the socket on the kernel's path: other threads will send on it.
///
/// # Safety
/// As for `aio_write`.
unsafe fn pinned(control: *const aiocb) -> Result<(), Errno> {
    // SAFETY: as the caller promised.
    let control = unsafe { control.as_ref() };
    control.map_or(Ok(()), |control| leaving::drained_for_good(control.aio_fildes, PathReason::Moved))
}

/// # Safety
/// As for `lio_listio`.
unsafe fn all_pinned(list: Opaque, count: c_int) -> Result<(), Errno> {
    let list: *const *const aiocb = list.cast();
    // SAFETY: as the caller promised.
    (0..usize::try_from(count).unwrap_or(0)).try_for_each(|at| unsafe { pinned(*list.add(at)) })
}

/// Before `io_submit`, after which the kernel writes by itself. Reads the beginning of each request.
pub(super) fn submitted(count: isize, list: usize) -> Result<(), Errno> {
    // From `linux/aio_abi.h`.
    const WRITES: [u16; 2] = [1, 8];
    for at in 0..usize::try_from(count).unwrap_or(0) {
        let (mut address, mut head) = ([0; size_of::<usize>()], [0; 24]);
        let is_there = memory::peek(list.wrapping_add(at * address.len()), &mut address)
            && memory::peek(usize::from_ne_bytes(address), &mut head);
        if !is_there {
            // The kernel stops there as well.
            break;
        }
        let [.., low, high, _, _, a, b, c, d] = head;
        if WRITES.contains(&u16::from_ne_bytes([low, high])) {
            leaving::drained_for_good(c_int::from_ne_bytes([a, b, c, d]), PathReason::Moved)?;
        }
    }
    Ok(())
}

intercept! {
    fn sendfile(to: c_int, from: c_int, offset: Opaque, count: size_t) -> ssize_t {
        sent(to, || pass!(sendfile(to, from, offset, count)))
    }

    fn sendfile64(to: c_int, from: c_int, offset: Opaque, count: size_t) -> ssize_t {
        sent(to, || pass!(sendfile64(to, from, offset, count)))
    }

    fn splice(from: c_int, from_at: Opaque, to: c_int, to_at: Opaque, len: size_t, flags: c_uint) -> ssize_t {
        sent(to, || pass!(splice(from, from_at, to, to_at, len, flags)))
    }

    fn aio_write(control: Opaque) -> c_int {
        // SAFETY: as the caller promised.
        errno::after(unsafe { pinned(control.cast()) }, || pass!(aio_write(control)))
    }

    fn aio_write64(control: Opaque) -> c_int {
        // SAFETY: as the caller promised; both are the same type here.
        errno::after(unsafe { pinned(control.cast()) }, || pass!(aio_write64(control)))
    }

    fn lio_listio(mode: c_int, list: Opaque, count: c_int, event: Opaque) -> c_int {
        // SAFETY: as the caller promised.
        errno::after(unsafe { all_pinned(list, count) }, || pass!(lio_listio(mode, list, count, event)))
    }

    fn lio_listio64(mode: c_int, list: Opaque, count: c_int, event: Opaque) -> c_int {
        // SAFETY: as the caller promised; both are the same type here.
        errno::after(unsafe { all_pinned(list, count) }, || pass!(lio_listio64(mode, list, count, event)))
    }
}
