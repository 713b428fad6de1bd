//! Options of sockets.

use super::catalogue::Opaque;
use super::{errno, intercept, memory, pass};
use crate::calls::kinds::{Needs, option, option_of_datagrams, question};
use crate::calls::send::before;
use crate::calls::settle;
use crate::gate;
use libc::{c_int, c_void, socklen_t};
use rustix::io::Errno;
use sidecore_streams::rule::PathReason;

intercept! {
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        if let Some(gate) = gate::watched(fd) {
            let of = if gate.is_of_datagrams() { option_of_datagrams } else { option };
            let is_linger = (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER);
            let drained = errno::kept(|| match of(level, name) {
                Needs::Nothing => Ok(()),
                // The kernel reports it again.
                Needs::Drained => before(gate, PathReason::Special).or(Ok(())),
                // The option would affect the ring's earlier bytes.
                Needs::Kernel => settle::drain_for_good(gate, PathReason::Option),
                Needs::KernelSoonUnlessOff => {
                    if !is_off(value, len) {
                        settle::pin(gate, if is_linger { PathReason::Linger } else { PathReason::Cork });
                    }
                    Ok(())
                }
            });
            if let Err(error) = drained {
                return errno::failed(error);
            }
            let result = pass!(setsockopt(fd, level, name, value, len));
            if is_linger && result == 0 {
                gate.slot().set_linger(linger(value, len));
            }
            return result;
        }
        pass!(setsockopt(fd, level, name, value, len))
    }

    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: Opaque, len: *mut socklen_t) -> c_int {
        let Some(gate) = gate::watched(fd) else { return pass!(getsockopt(fd, level, name, value, len)) };
        if question(level, name) == Needs::Drained {
            // If the ring cannot be emptied, the answer is the present one.
            errno::kept(|| settle::settle_soon(gate, PathReason::Special));
        }
        let result = pass!(getsockopt(fd, level, name, value, len));
        if result == 0 && (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) && gate.was_in_ring() {
            // SAFETY: the kernel has just written `len` bytes there.
            unsafe { hide_reset(value, *len, gate.slot().linger()) };
        }
        if result == 0 && (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
            && let Some(ring) = gate.in_ring()
            && let Some(error) = ring.stream.take_error(ring.key)
        {
            // SAFETY: the kernel has just written `len` bytes there.
            unsafe { tell(value, *len, error) };
        }
        result
    }
}

fn is_off(value: *const c_void, len: socklen_t) -> bool {
    let mut number = [1; size_of::<c_int>()];
    len as usize >= number.len() && memory::peek(value.addr(), &mut number) && c_int::from_ne_bytes(number) == 0
}

/// Seconds of a linger that the program sets. `None`: it switches it off.
fn linger(value: *const c_void, len: socklen_t) -> Option<u32> {
    let mut seconds = [0; 2 * size_of::<c_int>()];
    let is_there = len as usize >= seconds.len() && memory::peek(value.addr(), &mut seconds);
    let [.., a, b, c, d] = seconds;
    // The kernel takes a negative time as the longest.
    (is_there && !is_off(value, len)).then(|| u32::from_ne_bytes([a, b, c, d]))
}

/// Stores the program's own linger in the kernel's answer, in place of the one of a socket that was left with bytes in
/// its ring.
///
/// # Safety
/// `value` points to `len` bytes.
unsafe fn hide_reset(value: Opaque, len: socklen_t, own: Option<u32>) {
    let to: *mut libc::linger = value.cast();
    if len as usize == size_of::<libc::linger>() && own.is_none() {
        // SAFETY: as the caller promised.
        unsafe {
            let found = to.read_unaligned();
            if found.l_onoff != 0 && found.l_linger == 0 {
                to.write_unaligned(libc::linger { l_onoff: 0, l_linger: 0 });
            }
        }
    }
}

/// Stores an error in the kernel's answer, if it has none.
///
/// # Safety
/// `value` points to `len` bytes.
unsafe fn tell(value: Opaque, len: socklen_t, error: Errno) {
    let to: *mut c_int = value.cast();
    if len as usize == size_of::<c_int>() {
        // SAFETY: as the caller promised.
        unsafe {
            if to.read_unaligned() == 0 {
                to.write_unaligned(error.raw_os_error());
            }
        }
    }
}
