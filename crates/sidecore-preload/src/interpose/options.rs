//! Options of sockets.

use super::catalogue::Opaque;
use super::descriptors::is_settled;
use super::{errno, intercept, pass, socket};
use crate::calls::kinds::{Needs, option, option_of_datagrams, question};
use crate::calls::send::before;
use crate::calls::settle;
use crate::interpose::slot::Path;
use crate::table;
use libc::{c_int, c_void, socklen_t};
use rustix::io::Errno;
use sidecore_core::streams::rule::Why;

intercept! {
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        if let Some(slot) = table::watched(fd) {
            let needs = if slot.is_of_datagrams() { option_of_datagrams(level, name) } else { option(level, name) };
            match needs {
                Needs::Nothing => {}
                Needs::Drained => {
                    let _ = errno::kept(|| before(fd, slot, Why::Special));
                }
                Needs::Kernel => {
                    errno::kept(|| settle::pin(fd, slot, Why::Special));
                    if slot.is_of_datagrams() && !errno::kept(|| is_settled(fd, slot, Why::Special)) {
                        // Datagrams of the ring would become part of others.
                        errno::set(libc::EAGAIN);
                        return -1;
                    }
                }
            }
        }
        pass!(setsockopt(fd, level, name, value, len))
    }

    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: Opaque, len: *mut socklen_t) -> c_int {
        let Some(slot) = table::watched(fd) else { return pass!(getsockopt(fd, level, name, value, len)) };
        if question(level, name) == Needs::Drained {
            let _ = errno::kept(|| before(fd, slot, Why::Special));
        }
        let result = pass!(getsockopt(fd, level, name, value, len));
        if result == 0 && (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
            && let Path::Ring(stream) | Path::Leaving(stream) = slot.path()
            && let Some(error) = stream.take_error(socket::borrowed(fd))
        {
            // SAFETY: the kernel has just written there as much as it says.
            unsafe { tell(value, *len, error) };
        }
        result
    }
}

/// Puts an error where the kernel found none.
///
/// # Safety
/// There are so many bytes at `value`.
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
