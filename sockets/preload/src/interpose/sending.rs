//! Functions that send.

use super::message::{Message, address, piece, span};
use super::{errno, intercept, leaving, memory, pass, signals, socket};
use crate::calls::forks;
use crate::calls::send::{
    AtOnce, Next, alone, at_once, before, direct, is_one_call, is_plain, on_the_kernel, rest, send as decide,
};
use crate::gate::{self, Gate, Path};
use libc::{c_char, c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;
use sidecore_ipc::shm::span::Span;
use sidecore_streams::rule::PathReason;
use std::mem::offset_of;
use std::net::SocketAddr;
use syscalls::{Sysno, syscall};

/// Sends a message in pieces; `kernel` makes the program's own call.
///
/// # Safety
/// `kernel` would send the same message.
unsafe fn carry(gate: Gate, message: Option<Message<'_>>, flags: c_int, kernel: impl Fn() -> ssize_t) -> ssize_t {
    let Some(message) = message else { return strange(gate, flags, kernel) };
    match message.only().map_or(AtOnce::Not, |piece| by_itself(gate, piece, flags)) {
        AtOnce::Sent => message.len().cast_signed(),
        // SAFETY: as the caller promised.
        first => unsafe { carry_on(gate, &message, flags, first, kernel) },
    }
}

#[inline(never)]
fn by_itself(gate: Gate, piece: Span<'_>, flags: c_int) -> AtOnce {
    at_once(gate, piece, flags)
}

/// Sends a message that `at_once` did not complete. `first`: its result.
///
/// # Safety
/// As for [`carry`].
unsafe fn carry_on(
    gate: Gate,
    message: &Message<'_>,
    flags: c_int,
    first: AtOnce,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    let mut next = match first {
        AtOnce::Alone(stream) => alone(gate, message, flags, stream),
        AtOnce::Sent | AtOnce::Not => decide(gate, message, flags),
    };
    loop {
        match next {
            Next::Accepted(sent) => return sent.cast_signed(),
            Next::Counted => {
                let result = kernel();
                gate.exit(result);
                return result;
            }
            Next::Kernel => {
                let result = kernel();
                gate.slot().sends(result);
                return result;
            }
            Next::Rest(0) => next = on_the_kernel(gate, flags, Next::Failed(Errno::BADF)),
            Next::Rest(sent) => return rest(gate, message, sent, flags).map_or_else(errno::failed, usize::cast_signed),
            Next::Failed(error) => return errno::failed(error),
            Next::Pipe => return broken(flags),
        }
    }
}

/// Handles an empty message, or one that the kernel refuses, perhaps after a part.
#[cold]
fn strange(gate: Gate, flags: c_int, kernel: impl Fn() -> ssize_t) -> ssize_t {
    // An empty datagram is a message too.
    match on_the_kernel(gate, flags, Next::Kernel) {
        Next::Counted => {
            let result = kernel();
            gate.exit(result);
            result
        }
        Next::Failed(error) => errno::failed(error),
        Next::Pipe => broken(flags),
        _ => kernel(),
    }
}

/// Makes a call with more than a message; `unblocked` makes the same call without blocking.
#[inline]
fn special(
    gate: Gate,
    flags: c_int,
    unblocked: impl FnOnce() -> Result<usize, Errno>,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    if flags & libc::MSG_MORE != 0 && gate.is_of_datagrams() {
        // The kernel combines this message and the following ones into one datagram.
        gate.pin(PathReason::Special);
        return strange(gate, flags, kernel);
    }
    match direct(gate, flags, unblocked) {
        Next::Accepted(sent) => sent.cast_signed(),
        Next::Failed(error) => errno::failed(error),
        Next::Pipe => broken(flags),
        Next::Counted => {
            let result = kernel();
            gate.exit(result);
            result
        }
        Next::Kernel | Next::Rest(_) => kernel(),
    }
}

#[cold]
fn broken(flags: c_int) -> ssize_t {
    if flags & libc::MSG_NOSIGNAL == 0 {
        signals::broken_pipe();
    }
    errno::failed(Errno::PIPE)
}

fn system(result: Result<usize, syscalls::Errno>) -> Result<usize, Errno> {
    result.map_err(|error| Errno::from_raw_os_error(error.into_raw()))
}

/// Before a call of the C library that sends by itself, later or internally: gives all earlier bytes to the kernel.
pub(super) fn before_sending(fd: c_int) -> Result<(), Errno> {
    let Some(gate) = gate::watched(fd) else { return Ok(()) };
    errno::kept(|| before(gate, PathReason::Special))?;
    // The number of printed bytes is unknown here.
    gate.slot().forget_sent();
    Ok(())
}

/// Limit of bytes of control messages that are examined: the kernel passes at most 253 descriptors.
const CONTROL: usize = 4096;

/// Has the alignment of control messages.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Finds the descriptors that a message passes to another process, and keeps those on the kernel's path. The kernel
/// reports addresses that cannot be read. An error: a descriptor is a socket whose ring cannot be emptied.
///
/// # Safety
/// The message is null, or readable.
unsafe fn let_pass(fd: c_int, message: *const msghdr) -> Result<(), Errno> {
    // SAFETY: as the caller promised; the macros of the C library stay inside of the control messages, which are a copy.
    unsafe {
        if message.is_null() || (*message).msg_controllen == 0 || !passes_descriptors(fd) {
            return Ok(());
        }
        let mut copy = Control([0; CONTROL]);
        let len = (*message).msg_controllen.min(CONTROL);
        if !memory::peek((*message).msg_control.addr(), &mut copy.0[..len]) {
            return Ok(());
        }
        let message = msghdr { msg_control: copy.0.as_mut_ptr().cast(), msg_controllen: len, ..*message };
        let message = &raw const message;
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = control.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data: *const c_int = libc::CMSG_DATA(control).cast();
                let end = (control.addr() + header.cmsg_len).min(copy.0.as_ptr().addr() + len);
                let bytes = end.saturating_sub(data.addr());
                for at in 0..bytes / size_of::<c_int>() {
                    passed(data.add(at).read_unaligned())?;
                }
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
        Ok(())
    }
}

/// Whether passing descriptors matters: this process has one there that is not the kernel's alone.
fn passes_descriptors(fd: c_int) -> bool {
    gate::watched(fd).is_none()
        && socket_domain(socket::borrowed(fd)).is_ok_and(|domain| domain == AddressFamily::UNIX)
        && (gate::all().next().is_some() || forks::is_child())
}

fn passed(fd: c_int) -> Result<(), Errno> {
    let drained = leaving::drained_for_good(fd, PathReason::Duplicated);
    forks::passed_on(fd);
    drained
}

/// The receiver of a datagram that consists only of bytes and this address.
///
/// # Safety
/// As for [`address`].
#[inline]
unsafe fn named(gate: Gate, flags: c_int, to: *const sockaddr, len: usize) -> Option<SocketAddr> {
    // SAFETY: as the caller promised.
    if gate.is_of_datagrams() && is_plain(gate, flags) { unsafe { address(to, len) } } else { None }
}

/// One message of `sendmsg`.
///
/// # Safety
/// As for `sendmsg`.
pub(super) unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as the caller promised.
    if let Err(error) = unsafe { let_pass(fd, message) } {
        return errno::failed(error);
    }
    let kernel = move || pass!(sendmsg(fd, message, flags));
    let Some(gate) = gate::watched(fd) else { return kernel() };
    // SAFETY: as the caller promised.
    let Some(header) = (unsafe { message.as_ref() }) else { return kernel() };
    // SAFETY: as the caller promised.
    let named = unsafe { named(gate, flags, header.msg_name.cast_const().cast(), header.msg_namelen as usize) };
    if let Some(to) = named.filter(|_| header.msg_controllen == 0) {
        // SAFETY: as the caller promised.
        let message = unsafe { Message::new(header.msg_iov, header.msg_iovlen) };
        // SAFETY: as the caller promised.
        return unsafe { carry(gate, message.map(|message| message.sent_to(&to)), flags, kernel) };
    }
    if !is_plain(gate, flags) || header.msg_controllen > 0 || !header.msg_name.is_null() {
        let unblocked = || {
            // SAFETY: the program's own call, with a flag more.
            system(unsafe { syscall!(Sysno::sendmsg, fd, message, flags | libc::MSG_DONTWAIT) })
        };
        return special(gate, flags, unblocked, kernel);
    }
    // SAFETY: as the caller promised.
    unsafe { carry(gate, Message::new(header.msg_iov, header.msg_iovlen), flags, kernel) }
}

/// # Safety
/// As for `write`.
// Not inline, to keep calls on other files fast.
#[inline(never)]
unsafe fn write_watched(gate: Gate, buffer: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: as the caller promised.
    match unsafe { span(buffer, len) }.map_or(AtOnce::Not, |piece| at_once(gate, piece, 0)) {
        AtOnce::Sent => len.cast_signed(),
        // SAFETY: as the caller promised.
        first => unsafe { write_slowly(gate, buffer, len, first) },
    }
}

/// # Safety
/// As for `write`.
#[cold]
unsafe fn write_slowly(gate: Gate, buffer: *const c_void, len: size_t, first: AtOnce) -> ssize_t {
    let (piece, kernel) = (piece(buffer, len), || pass!(write(gate.fd(), buffer, len)));
    // SAFETY: as the caller promised.
    let Some(message) = (unsafe { Message::of(&piece) }) else { return strange(gate, 0, kernel) };
    // SAFETY: as the caller promised.
    unsafe { carry_on(gate, &message, 0, first, kernel) }
}

/// # Safety
/// As for `send`.
#[inline(never)]
unsafe fn send_watched(gate: Gate, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the caller promised.
    let piece = unsafe { span(buffer, len) }.filter(|_| is_plain(gate, flags));
    match piece.map_or(AtOnce::Not, |piece| at_once(gate, piece, flags)) {
        AtOnce::Sent => len.cast_signed(),
        // SAFETY: as the caller promised.
        first => unsafe { send_slowly(gate, buffer, len, flags, first) },
    }
}

/// # Safety
/// As for `send`.
#[cold]
unsafe fn send_slowly(gate: Gate, buffer: *const c_void, len: size_t, flags: c_int, first: AtOnce) -> ssize_t {
    let kernel = || pass!(send(gate.fd(), buffer, len, flags));
    if is_plain(gate, flags) {
        let piece = piece(buffer, len);
        // SAFETY: as the caller promised.
        let Some(message) = (unsafe { Message::of(&piece) }) else { return strange(gate, flags, kernel) };
        // SAFETY: as the caller promised.
        return unsafe { carry_on(gate, &message, flags, first, kernel) };
    }
    let unblocked = || {
        // SAFETY: the program's own call, with a flag more.
        system(unsafe { syscall!(Sysno::sendto, gate.fd(), buffer, len, flags | libc::MSG_DONTWAIT, 0, 0) })
    };
    special(gate, flags, unblocked, kernel)
}

intercept! {
    #[cfg_attr(
        runtime_symbols_are_checked,
        expect(invalid_runtime_symbol_definitions, reason = "the end of a thread unwinds through it")
    )]
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        let Some(gate) = gate::watched(fd) else { return pass!(write(fd, buffer, len)) };
        // SAFETY: as the caller promised.
        unsafe { write_watched(gate, buffer, len) }
    }

    fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        let kernel = move || pass!(writev(fd, pieces, count));
        let Some(gate) = gate::watched(fd) else { return kernel() };
        // SAFETY: as the caller promised.
        unsafe { carry(gate, Message::new(pieces, usize::try_from(count).unwrap_or(usize::MAX)), 0, kernel) }
    }

    // The only one of its family that works on sockets: with offset -1.
    fn pwritev2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        errno::after(before_sending(fd), || pass!(pwritev2(fd, pieces, count, offset, flags)))
    }

    // The same with 64-bit offsets chosen by the program.
    fn pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        errno::after(before_sending(fd), || pass!(pwritev64v2(fd, pieces, count, offset, flags)))
    }

    fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        let Some(gate) = gate::watched(fd) else { return pass!(send(fd, buffer, len, flags)) };
        // SAFETY: as the caller promised.
        unsafe { send_watched(gate, buffer, len, flags) }
    }

    fn sendto(
        fd: c_int,
        buffer: *const c_void,
        len: size_t,
        flags: c_int,
        to: *const sockaddr,
        to_len: socklen_t,
    ) -> ssize_t {
        let kernel = move || pass!(sendto(fd, buffer, len, flags, to, to_len));
        let Some(gate) = gate::watched(fd) else { return kernel() };
        // SAFETY: as the caller promised.
        let named = unsafe { named(gate, flags, to, to_len as usize) };
        if let Some(to) = named {
            let piece = piece(buffer, len);
            // SAFETY: as the caller promised.
            let message = unsafe { Message::of(&piece) };
            // SAFETY: as the caller promised.
            return unsafe { carry(gate, message.map(|message| message.sent_to(&to)), flags, kernel) };
        }
        if !is_plain(gate, flags) || !to.is_null() {
            let unblocked = || {
                // SAFETY: the program's own call, with a flag more.
                system(unsafe { syscall!(Sysno::sendto, fd, buffer, len, flags | libc::MSG_DONTWAIT, to, to_len) })
            };
            return special(gate, flags, unblocked, kernel);
        }
        let piece = piece(buffer, len);
        // SAFETY: as the caller promised.
        unsafe { carry(gate, Message::of(&piece), flags, kernel) }
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: as the caller promised.
        unsafe { send_message(fd, message, flags) }
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        let Some(gate) = gate::watched(fd).filter(|_| !messages.is_null()) else {
            for at in 0..count.min(1024) as usize {
                // SAFETY: as the caller promised; there are no more than `count`.
                if let Err(error) = unsafe { let_pass_of(fd, messages, at) } {
                    return errno::failed(error);
                }
            }
            return pass!(sendmmsg(fd, messages, count, flags));
        };
        // SAFETY: as the caller promised.
        if gate.is_of_datagrams() && unsafe { is_at_once(gate, messages, count) } {
            match gate.enter() {
                Path::Counted => {
                    let result = pass!(sendmmsg(fd, messages, count, flags));
                    // Bytes of datagrams are not counted.
                    gate.exit(0);
                    return result;
                }
                Path::Kernel | Path::Gone => return pass!(sendmmsg(fd, messages, count, flags)),
                // One by one, also if another thread has put it into a ring by now.
                Path::Ring(_) | Path::Leaving(_) | Path::Behind(_) | Path::Shut => {}
            }
        }
        let mut done = 0;
        while done < count.min(1024) {
            // SAFETY: as the caller promised.
            let (sent, len) = unsafe {
                let one = messages.add(done as usize);
                let sent = send_message(fd, (&raw const (*one).msg_hdr).cast(), flags);
                if sent >= 0 {
                    (*one).msg_len = sent as c_uint;
                }
                let message = Message::new((*one).msg_hdr.msg_iov, (*one).msg_hdr.msg_iovlen);
                (sent, message.map_or(0, |message| message.len()))
            };
            if sent < 0 {
                return if done > 0 { done.cast_signed() } else { -1 };
            }
            done += 1;
            // As in the kernel: later messages must not overtake the rest of this one.
            if sent.cast_unsigned() < len {
                break;
            }
        }
        done.cast_signed()
    }

    // On descriptors other than an `eventfd` it writes as well.
    fn eventfd_write(fd: c_int, value: u64) -> c_int {
        errno::after(before_sending(fd), || pass!(eventfd_write(fd, value)))
    }

    fn backtrace_symbols_fd(addresses: *mut c_void, count: c_int, fd: c_int) -> () {
        // It cannot report failure.
        if before_sending(fd).is_ok() {
            pass!(backtrace_symbols_fd(addresses, count, fd));
        }
    }

    fn vdprintf(fd: c_int, format: *const c_char, rest: *mut c_void) -> c_int {
        errno::after(before_sending(fd), || pass!(vdprintf(fd, format, rest)))
    }

    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, rest: *mut c_void) -> c_int {
        errno::after(before_sending(fd), || pass!(vdprintf_chk(fd, flag, format, rest)))
    }
}

/// Whether these messages go to the kernel unchanged, by one call.
///
/// # Safety
/// As for `sendmmsg`.
unsafe fn is_at_once(gate: Gate, messages: *const mmsghdr, count: c_uint) -> bool {
    // SAFETY: as the caller promised.
    unsafe {
        let Some(first) = messages.as_ref().filter(|_| count > 0) else { return true };
        let message = Message::new(first.msg_hdr.msg_iov, first.msg_hdr.msg_iovlen);
        gate.in_ring().is_none()
            && (!first.msg_hdr.msg_name.is_null() || message.is_none_or(|message| is_one_call(gate, &message)))
    }
}

/// # Safety
/// `messages` is null, or has a message at this index, as `sendmmsg` requires.
unsafe fn let_pass_of(fd: c_int, messages: *const mmsghdr, at: usize) -> Result<(), Errno> {
    if messages.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller promised.
    unsafe { let_pass(fd, messages.add(at).byte_add(offset_of!(mmsghdr, msg_hdr)).cast()) }
}
