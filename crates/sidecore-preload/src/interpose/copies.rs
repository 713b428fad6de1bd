//! Functions by which the kernel moves bytes itself, now or later.

use super::catalogue::Opaque;
use super::{errno, intercept, memory, pass};
use crate::calls::send::before;
use crate::calls::settle;
use crate::gate;
use libc::{aiocb, c_int, c_uint, size_t, ssize_t};
use rustix::io::Errno;
use sidecore_core::streams::rule::Why;

/// Sends by `call`, when everything before is the kernel's.
#[inline]
fn sent(to: c_int, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(gate) = gate::watched(to) else { return call() };
    if let Err(error) = before(gate, Why::Special) {
        return errno::failed(error);
    }
    let result = call();
    gate.slot().sends(result);
    result
}

/// The socket is the kernel's: other threads will send on it.
///
/// # Errors
/// A ring cannot be emptied: the call fails with this.
///
/// # Safety
/// As for `aio_write`.
unsafe fn pinned(control: *const aiocb) -> Result<(), Errno> {
    // SAFETY: as the caller promised.
    let gate = unsafe { control.as_ref() }.and_then(|control| gate::watched(control.aio_fildes));
    gate.map_or(Ok(()), |gate| errno::kept(|| settle::drain_for_good(gate, Why::Special)))
}

/// # Errors
/// As for [`pinned`].
///
/// # Safety
/// As for `lio_listio`.
unsafe fn all_pinned(list: Opaque, count: c_int) -> Result<(), Errno> {
    let list: *const *const aiocb = list.cast();
    // SAFETY: as the caller promised.
    (0..usize::try_from(count).unwrap_or(0)).try_for_each(|at| unsafe { pinned(*list.add(at)) })
}

/// Before `io_submit`, which has the kernel write on by itself. A request begins with these bytes.
///
/// # Errors
/// As for [`pinned`].
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
        let is_write = WRITES.contains(&u16::from_ne_bytes([low, high]));
        if let Some(gate) = gate::watched(c_int::from_ne_bytes([a, b, c, d])).filter(|_| is_write) {
            errno::kept(|| settle::drain_for_good(gate, Why::Special))?;
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
        match unsafe { pinned(control.cast()) } {
            Ok(()) => pass!(aio_write(control)),
            Err(error) => errno::failed(error) as c_int,
        }
    }

    fn aio_write64(control: Opaque) -> c_int {
        // SAFETY: as the caller promised; both are the same type here.
        match unsafe { pinned(control.cast()) } {
            Ok(()) => pass!(aio_write64(control)),
            Err(error) => errno::failed(error) as c_int,
        }
    }

    fn lio_listio(mode: c_int, list: Opaque, count: c_int, event: Opaque) -> c_int {
        // SAFETY: as the caller promised.
        match unsafe { all_pinned(list, count) } {
            Ok(()) => pass!(lio_listio(mode, list, count, event)),
            Err(error) => errno::failed(error) as c_int,
        }
    }

    fn lio_listio64(mode: c_int, list: Opaque, count: c_int, event: Opaque) -> c_int {
        // SAFETY: as the caller promised; both are the same type here.
        match unsafe { all_pinned(list, count) } {
            Ok(()) => pass!(lio_listio64(mode, list, count, event)),
            Err(error) => errno::failed(error) as c_int,
        }
    }
}
