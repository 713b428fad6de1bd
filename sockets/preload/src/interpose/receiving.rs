//! Functions that receive. Calls to them show whether a connection waits for answers.

use super::catalogue::Opaque;
use super::{errno, intercept, pass};
use crate::calls::send::receives;
use crate::calls::settle::settle_soon;
use crate::gate::{self, Gate};
use libc::{c_int, c_uint, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;
use sidecore_streams::rule::PathReason;

#[inline]
fn receive(fd: c_int, kernel: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(gate) = gate::watched(fd) else { return kernel() };
    if gate.is_of_datagrams()
        && let Some(ring) = gate.in_ring()
        && let Some(error) = errno::kept(|| ring.stream.take_error(ring.key))
    {
        // The kernel reports it before any received data.
        return errno::failed(error);
    }
    if let Some(error) = errno::kept(|| receives(gate)) {
        return errno::failed(error);
    }
    match kernel() {
        0 if gate.is_of_datagrams() => 0,
        0 => ended(gate),
        -1 if !matches!(errno::get(), libc::EAGAIN | libc::EINTR) => {
            // The program knows that the connection is broken, so a ring must not accept further bytes.
            errno::kept(|| settle_soon(gate, PathReason::Special));
            -1
        }
        received => received,
    }
}

/// The peer's end, or the reason for it if the kernel has told the service.
fn ended(gate: Gate) -> ssize_t {
    let Some(ring) = gate.in_ring() else { return 0 };
    match ring.stream.take_error(ring.key) {
        Some(error) if error != Errno::PIPE => errno::failed(error),
        _ => 0,
    }
}

intercept! {
    #[cfg_attr(
        runtime_symbols_are_checked,
        expect(invalid_runtime_symbol_definitions, reason = "the end of a thread unwinds through it")
    )]
    fn read(fd: c_int, buffer: Opaque, len: size_t) -> ssize_t {
        receive(fd, || pass!(read(fd, buffer, len)))
    }

    fn __read_chk(fd: c_int, buffer: Opaque, len: size_t, size: size_t) -> ssize_t {
        receive(fd, || pass!(read_chk(fd, buffer, len, size)))
    }

    fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        receive(fd, || pass!(readv(fd, pieces, count)))
    }

    fn recv(fd: c_int, buffer: Opaque, len: size_t, flags: c_int) -> ssize_t {
        receive(fd, || pass!(recv(fd, buffer, len, flags)))
    }

    fn __recv_chk(fd: c_int, buffer: Opaque, len: size_t, size: size_t, flags: c_int) -> ssize_t {
        receive(fd, || pass!(recv_chk(fd, buffer, len, size, flags)))
    }

    fn recvfrom(
        fd: c_int,
        buffer: Opaque,
        len: size_t,
        flags: c_int,
        from: *mut sockaddr,
        from_len: *mut socklen_t,
    ) -> ssize_t {
        receive(fd, || pass!(recvfrom(fd, buffer, len, flags, from, from_len)))
    }

    fn __recvfrom_chk(
        fd: c_int,
        buffer: Opaque,
        len: size_t,
        size: size_t,
        flags: c_int,
        from: *mut sockaddr,
        from_len: *mut socklen_t,
    ) -> ssize_t {
        receive(fd, || pass!(recvfrom_chk(fd, buffer, len, size, flags, from, from_len)))
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        receive(fd, || pass!(recvmsg(fd, message, flags)))
    }

    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        receive(fd, || pass!(recvmmsg(fd, messages, count, flags, timeout)) as ssize_t) as c_int
    }
}
