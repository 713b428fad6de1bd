//! What the kernel knows of numbers that may be the program's.

use std::ffi::c_int;

/// Whether the program has a connection of the Internet protocols at this number.
pub(super) fn is_internet_socket(number: c_int) -> bool {
    let (mut domain, mut len): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: any number may be asked about; the kernel writes a number of this length.
    let known = unsafe {
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &raw mut len) == 0
    };
    known && matches!(domain, libc::AF_INET | libc::AF_INET6)
}
