//! Functions that send.

use super::message::{Message, address, piece, span};
use super::{errno, intercept, pass, signals, socket};
use crate::calls::send::{
    AtOnce, Next, alone, at_once, before, direct, is_one_call, is_plain, on_the_kernel, send as decide,
};
use crate::calls::{forks, settle};
use crate::interpose::slot::{Path, Slot};
use crate::table;
use libc::{c_char, c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;
use sidecore_client::shm::span::Span;
use sidecore_core::streams::rule::Why;
use std::mem::offset_of;
use std::net::SocketAddr;
use syscalls::{Sysno, syscall};

/// Sends a message in pieces; `kernel` makes the program's own call.
///
/// # Safety
/// The message is what `kernel` would send.
unsafe fn carry(
    fd: c_int,
    slot: &'static Slot,
    message: Option<Message<'_>>,
    flags: c_int,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    let Some(message) = message else { return strange(fd, slot, flags, kernel) };
    match message.only().map_or(AtOnce::Not, |piece| by_itself(fd, slot, piece, flags)) {
        AtOnce::Sent => message.len().cast_signed(),
        // SAFETY: as the caller promised.
        first => unsafe { carry_on(fd, slot, &message, flags, first, kernel) },
    }
}

/// The only piece of a message.
#[inline(never)]
fn by_itself(fd: c_int, slot: &'static Slot, piece: Span<'_>, flags: c_int) -> AtOnce {
    at_once(fd, slot, piece, flags)
}

/// Sends a message that was not sent at once. `first`: what was found then.
///
/// # Safety
/// As for [`carry`].
unsafe fn carry_on(
    fd: c_int,
    slot: &'static Slot,
    message: &Message<'_>,
    flags: c_int,
    first: AtOnce,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    let mut next = match first {
        AtOnce::Alone(stream) => alone(fd, slot, message, flags, stream),
        AtOnce::Sent | AtOnce::Not => decide(fd, slot, message, flags),
    };
    loop {
        match next {
            Next::Accepted(sent) => return sent.cast_signed(),
            Next::Counted => {
                let result = kernel();
                slot.exit();
                return result;
            }
            Next::Kernel => return kernel(),
            Next::Rest(0) => next = decide(fd, slot, message, flags),
            Next::Rest(sent) => return rest(fd, slot, message, sent, flags),
            Next::Failed(error) => return errno::failed(error),
            Next::Pipe => return broken(flags),
        }
    }
}

/// A message that is empty, or that the kernel is to refuse.
#[cold]
fn strange(fd: c_int, slot: &'static Slot, flags: c_int, kernel: impl Fn() -> ssize_t) -> ssize_t {
    if !slot.is_of_datagrams() {
        return kernel();
    }
    // A datagram of no bytes is one.
    match on_the_kernel(fd, slot, flags) {
        Next::Counted => {
            let result = kernel();
            slot.exit();
            result
        }
        Next::Failed(error) => errno::failed(error),
        Next::Pipe => broken(flags),
        _ => kernel(),
    }
}

/// What is left of a message whose beginning was accepted. Its pieces are counted as one call of the kernel: no ring is entered
/// between them.
#[cold]
fn rest(fd: c_int, slot: &'static Slot, message: &Message<'_>, sent: usize, flags: c_int) -> ssize_t {
    match on_the_kernel(fd, slot, flags) {
        Next::Counted => {
            let result = pieces(fd, message, sent, flags);
            slot.exit();
            result
        }
        Next::Kernel => pieces(fd, message, sent, flags),
        _ => sent.cast_signed(),
    }
}

/// Sends by the kernel what comes behind the first `sent` bytes. Returns how many are sent of the whole.
fn pieces(fd: c_int, message: &Message<'_>, mut sent: usize, flags: c_int) -> ssize_t {
    for span in message.spans(sent) {
        let is_last = sent + span.len() == message.len();
        let more = if is_last { 0 } else { libc::MSG_MORE };
        let result = pass!(send(fd, span.as_ptr().cast(), span.len(), flags | more));
        sent += usize::try_from(result).unwrap_or(0);
        if result != span.len().cast_signed() {
            break;
        }
    }
    sent.cast_signed()
}

/// Makes a call that has more to it than a message; `unblocked` makes it as well, so that it does not block.
#[inline]
fn special(
    fd: c_int,
    slot: &'static Slot,
    flags: c_int,
    unblocked: impl FnOnce() -> Result<usize, Errno>,
    kernel: impl Fn() -> ssize_t,
) -> ssize_t {
    if flags & libc::MSG_MORE != 0 && slot.is_of_datagrams() {
        // The kernel makes one datagram of this message and those that follow.
        slot.pin();
        return strange(fd, slot, flags, kernel);
    }
    match direct(fd, slot, flags, unblocked) {
        Next::Accepted(sent) => sent.cast_signed(),
        Next::Failed(error) => errno::failed(error),
        Next::Pipe => broken(flags),
        Next::Counted => {
            let result = kernel();
            slot.exit();
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

/// The program prints there by functions of the C library that call the kernel themselves.
pub(super) fn before_printing(fd: c_int) {
    if let Some(slot) = table::watched(fd) {
        let _ = errno::kept(|| before(fd, slot, Why::Special));
    }
}

/// Bytes of control messages that are looked at: the kernel passes 253 descriptors on at most.
const CONTROL: usize = 4096;

/// As control messages are aligned.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// What a message passes on to another process is the kernel's from now on.
///
/// Where it cannot be read the kernel says so.
///
/// # Safety
/// The message is null, or may be read.
unsafe fn let_pass(message: *const msghdr) {
    // SAFETY: as the caller promised; the macros of the C library stay inside of the control messages, which are a copy.
    unsafe {
        if table::is_empty() && !forks::is_child() || message.is_null() || (*message).msg_controllen == 0 {
            return;
        }
        let mut copy = Control([0; CONTROL]);
        let len = (*message).msg_controllen.min(CONTROL);
        if !socket::peek((*message).msg_control.addr(), &mut copy.0[..len]) {
            return;
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
                    pinned(data.add(at).read_unaligned());
                }
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
}

fn pinned(fd: c_int) {
    if let Some(slot) = table::watched(fd) {
        errno::kept(|| settle::pin(fd, slot, Why::Duplicated));
    }
    forks::passed_on(fd);
}

/// To whom a datagram goes that has nothing beside its bytes but that.
///
/// # Safety
/// As for [`address`].
#[inline]
unsafe fn named(slot: &Slot, flags: c_int, to: *const sockaddr, len: usize) -> Option<SocketAddr> {
    // SAFETY: as the caller promised.
    if slot.is_of_datagrams() && is_plain(slot, flags) { unsafe { address(to, len) } } else { None }
}

/// One message of `sendmsg`.
///
/// # Safety
/// As for `sendmsg`.
pub(super) unsafe fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as the caller promised.
    unsafe { let_pass(message) };
    let kernel = move || pass!(sendmsg(fd, message, flags));
    let Some(slot) = table::watched(fd) else { return kernel() };
    // SAFETY: as the caller promised.
    let Some(header) = (unsafe { message.as_ref() }) else { return kernel() };
    // SAFETY: as the caller promised.
    let named = unsafe { named(slot, flags, header.msg_name.cast_const().cast(), header.msg_namelen as usize) };
    if let Some(to) = named.filter(|_| header.msg_controllen == 0) {
        // SAFETY: as the caller promised.
        let message = unsafe { Message::new(header.msg_iov, header.msg_iovlen) };
        // SAFETY: as the caller promised.
        return unsafe { carry(fd, slot, message.map(|message| message.sent_to(&to)), flags, kernel) };
    }
    if !is_plain(slot, flags) || header.msg_controllen > 0 || !header.msg_name.is_null() {
        let unblocked = || {
            // SAFETY: the program's own call, with a flag more.
            system(unsafe { syscall!(Sysno::sendmsg, fd, message, flags | libc::MSG_DONTWAIT) })
        };
        return special(fd, slot, flags, unblocked, kernel);
    }
    // SAFETY: as the caller promised.
    unsafe { carry(fd, slot, Message::new(header.msg_iov, header.msg_iovlen), flags, kernel) }
}

/// # Safety
/// As for `write`.
// Not inline: what is no connection does not pay for it.
#[inline(never)]
unsafe fn write_watched(fd: c_int, slot: &'static Slot, buffer: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: as the caller promised.
    match unsafe { span(buffer, len) }.map_or(AtOnce::Not, |piece| at_once(fd, slot, piece, 0)) {
        AtOnce::Sent => len.cast_signed(),
        // SAFETY: as the caller promised.
        first => unsafe { write_slowly(fd, slot, buffer, len, first) },
    }
}

/// # Safety
/// As for `write`.
#[cold]
unsafe fn write_slowly(fd: c_int, slot: &'static Slot, buffer: *const c_void, len: size_t, first: AtOnce) -> ssize_t {
    let (piece, kernel) = (piece(buffer, len), || pass!(write(fd, buffer, len)));
    // SAFETY: as the caller promised.
    let Some(message) = (unsafe { Message::of(&piece) }) else { return strange(fd, slot, 0, kernel) };
    // SAFETY: as the caller promised.
    unsafe { carry_on(fd, slot, &message, 0, first, kernel) }
}

/// # Safety
/// As for `send`.
#[inline(never)]
unsafe fn send_watched(fd: c_int, slot: &'static Slot, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the caller promised.
    let piece = unsafe { span(buffer, len) }.filter(|_| is_plain(slot, flags));
    match piece.map_or(AtOnce::Not, |piece| at_once(fd, slot, piece, flags)) {
        AtOnce::Sent => len.cast_signed(),
        // SAFETY: as the caller promised.
        first => unsafe { send_slowly(fd, slot, buffer, len, flags, first) },
    }
}

/// # Safety
/// As for `send`.
#[cold]
unsafe fn send_slowly(
    fd: c_int,
    slot: &'static Slot,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    first: AtOnce,
) -> ssize_t {
    let kernel = || pass!(send(fd, buffer, len, flags));
    if is_plain(slot, flags) {
        let piece = piece(buffer, len);
        // SAFETY: as the caller promised.
        let Some(message) = (unsafe { Message::of(&piece) }) else { return strange(fd, slot, flags, kernel) };
        // SAFETY: as the caller promised.
        return unsafe { carry_on(fd, slot, &message, flags, first, kernel) };
    }
    let unblocked = || {
        // SAFETY: the program's own call, with a flag more.
        system(unsafe { syscall!(Sysno::sendto, fd, buffer, len, flags | libc::MSG_DONTWAIT, 0, 0) })
    };
    special(fd, slot, flags, unblocked, kernel)
}

intercept! {
    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t {
        let Some(slot) = table::watched(fd) else { return pass!(write(fd, buffer, len)) };
        // SAFETY: as the caller promised.
        unsafe { write_watched(fd, slot, buffer, len) }
    }

    fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        let kernel = move || pass!(writev(fd, pieces, count));
        let Some(slot) = table::watched(fd) else { return kernel() };
        // SAFETY: as the caller promised.
        unsafe { carry(fd, slot, Message::new(pieces, usize::try_from(count).unwrap_or(usize::MAX)), 0, kernel) }
    }

    // Of its family the only one that a socket takes: with -1 instead of a place.
    fn pwritev2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        before_printing(fd);
        pass!(pwritev2(fd, pieces, count, offset, flags))
    }

    // The same where places have 64 bits by the program's own choice.
    fn pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        before_printing(fd);
        pass!(pwritev64v2(fd, pieces, count, offset, flags))
    }

    fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        let Some(slot) = table::watched(fd) else { return pass!(send(fd, buffer, len, flags)) };
        // SAFETY: as the caller promised.
        unsafe { send_watched(fd, slot, buffer, len, flags) }
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
        let Some(slot) = table::watched(fd) else { return kernel() };
        // SAFETY: as the caller promised.
        let named = unsafe { named(slot, flags, to, to_len as usize) };
        if let Some(to) = named {
            let piece = piece(buffer, len);
            // SAFETY: as the caller promised.
            let message = unsafe { Message::of(&piece) };
            // SAFETY: as the caller promised.
            return unsafe { carry(fd, slot, message.map(|message| message.sent_to(&to)), flags, kernel) };
        }
        if !is_plain(slot, flags) || !to.is_null() {
            let unblocked = || {
                // SAFETY: the program's own call, with a flag more.
                system(unsafe { syscall!(Sysno::sendto, fd, buffer, len, flags | libc::MSG_DONTWAIT, to, to_len) })
            };
            return special(fd, slot, flags, unblocked, kernel);
        }
        let piece = piece(buffer, len);
        // SAFETY: as the caller promised.
        unsafe { carry(fd, slot, Message::of(&piece), flags, kernel) }
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: as the caller promised.
        unsafe { send_message(fd, message, flags) }
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        if table::watched(fd).is_none() || messages.is_null() {
            for at in 0..count.min(1024) as usize {
                // SAFETY: as the caller promised; there are no more than `count`.
                unsafe { let_pass_of(messages, at) };
            }
            return pass!(sendmmsg(fd, messages, count, flags));
        }
        // SAFETY: as the caller promised.
        let is_at_once = |slot: &&'static Slot| slot.is_of_datagrams() && unsafe { is_at_once(slot, messages, count) };
        match table::watched(fd).filter(is_at_once).map(|slot| (slot, slot.enter())) {
            Some((slot, Path::Counted)) => {
                let result = pass!(sendmmsg(fd, messages, count, flags));
                slot.exit();
                return result;
            }
            Some((_, Path::Kernel)) => return pass!(sendmmsg(fd, messages, count, flags)),
            // One by one, also where another thread has put it into a ring meanwhile.
            Some((_, Path::Ring(_) | Path::Leaving(_) | Path::Shut)) | None => {}
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
            // As the kernel: what follows would come before the rest of this one.
            if sent.cast_unsigned() < len {
                break;
            }
        }
        done.cast_signed()
    }

    fn vdprintf(fd: c_int, format: *const c_char, rest: *mut c_void) -> c_int {
        before_printing(fd);
        pass!(vdprintf(fd, format, rest))
    }

    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, rest: *mut c_void) -> c_int {
        before_printing(fd);
        pass!(vdprintf_chk(fd, flag, format, rest))
    }
}

/// Whether these messages are given to the kernel by one call, as they came.
///
/// # Safety
/// As for `sendmmsg`.
unsafe fn is_at_once(slot: &Slot, messages: *const mmsghdr, count: c_uint) -> bool {
    // SAFETY: as the caller promised.
    unsafe {
        for at in 0..count.min(1024) as usize {
            let_pass_of(messages, at);
        }
        let Some(first) = messages.as_ref().filter(|_| count > 0) else { return true };
        let message = Message::new(first.msg_hdr.msg_iov, first.msg_hdr.msg_iovlen);
        !slot.is_in_ring()
            && (!first.msg_hdr.msg_name.is_null() || message.is_none_or(|message| is_one_call(slot, &message)))
    }
}

/// # Safety
/// There is a message at that place, as `sendmmsg` wants it, or `messages` is null.
unsafe fn let_pass_of(messages: *const mmsghdr, at: usize) {
    if !messages.is_null() {
        // SAFETY: as the caller promised.
        unsafe { let_pass(messages.add(at).byte_add(offset_of!(mmsghdr, msg_hdr)).cast()) };
    }
}
