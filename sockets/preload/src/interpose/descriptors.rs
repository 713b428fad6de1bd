//! Functions that make, copy, change and close descriptors.

use super::catalogue::Opaque;
use super::processes::is_borrower;
use super::{errno, intercept, leaving, pass};
use crate::calls::kinds::{FIONCLEX, Needs, SIOCOUTQ, SIOCOUTQNSD, ioctl as needs};
use crate::calls::send::before;
use crate::calls::{forks, settle};
use crate::gate;
use crate::interpose::slot::Slot;
use crate::interpose::socket;
use crate::table;
use libc::{c_char, c_int, c_uint, c_ulong, sockaddr, socklen_t};
use rustix::fs::fstat;
use rustix::io::{Errno, fcntl_getfd};
use sidecore_sockets::stream::Remains;
use sidecore_streams::rule::PathReason;
use sidecore_streams::slot::SlotState;

/// Watches the socket that `make` makes. A socket from a pinned listener is pinned too.
fn made(from: Option<c_int>, make: impl FnOnce() -> c_int) -> c_int {
    let born = forks::epoch();
    let fd = make();
    let pinned = from.and_then(table::slot).filter(|slot| slot.word.look().state() == SlotState::Kernel);
    if fd >= 0 && !is_borrower() {
        errno::kept(|| settle::replaced(fd));
        // The handshake counts as a byte for the side that connects.
        table::made(fd, born, u8::from(from.is_none()));
        if let Some((listener, gate)) = pinned.zip(gate::watched(fd)) {
            gate.pin(listener.why());
        }
    }
    fd
}

/// Called before a copy of a descriptor is made. Returns what the copy's bytes must not overtake: the content of a ring
/// for which the kernel has no room. An error: the same, in a handler.
fn before_copy(fd: c_int) -> Result<Option<Remains>, Errno> {
    if is_borrower() {
        return Ok(None);
    }
    let remains = if let Some(gate) = gate::watched(fd) {
        errno::kept(|| settle::pin_for_copy(gate))?
    } else {
        errno::kept(|| copied(fd));
        None
    };
    errno::kept(|| forks::passed_on(fd));
    Ok(remains)
}

/// Notes that another number has the same open file. If that is an `epoll` set, its sockets leave their rings and stay
/// on the kernel's path: closing a socket in a ring deletes it from the set by the set's number.
fn copied(fd: c_int) {
    if let Some(slot) = table::slot(fd) {
        slot.is_copied_now();
        gate::all().filter(|gate| gate.slot().epoll() == Some(fd)).for_each(|gate| settle::pin(gate, PathReason::Sets));
    }
}

/// The copy is made by `copy`, which returns its number.
fn copy(fd: c_int, copy: impl FnOnce() -> c_int) -> c_int {
    let remains = match before_copy(fd) {
        Ok(remains) => remains,
        Err(error) => return errno::failed(error),
    };
    let copy = copy();
    if copy >= 0 && !is_borrower() {
        match remains {
            Some(remains) => errno::kept(|| {
                settle::replaced(copy);
                table::begin_behind(copy, remains);
                if let Some(slot) = table::slot(copy) {
                    slot.note(PathReason::Duplicated);
                }
            }),
            None if gate::watched(fd).is_none() => errno::kept(|| copied(copy)),
            None => {}
        }
    }
    copy
}

/// Whether the number is open: otherwise a copy call fails, and replaces nothing.
fn is_open(fd: c_int) -> bool {
    fd >= 0 && fcntl_getfd(socket::borrowed(fd)).is_ok()
}

fn before_close(fd: c_int) {
    if let Some(slot) = table::slot(fd).filter(|_| !is_borrower()) {
        slot.forget_copies();
        errno::kept(|| settle::let_go(fd));
    }
}

fn close_all(mut first: c_uint, last: c_uint) -> c_int {
    let is_within = |fd: &c_int| (first..=last).contains(&fd.cast_unsigned());
    table::all().map(|(fd, _)| fd).filter(is_within).for_each(before_close);
    while let Some(own) = forks::lowest_own(first, last).map(c_int::cast_unsigned) {
        if own > first && pass!(close_range(first, own - 1, 0)) != 0 {
            return -1;
        }
        first = own + 1;
    }
    if first > last { 0 } else { pass!(close_range(first, last, 0)) }
}

/// `dup2` and `dup3` to this number.
fn copy_to(fd: c_int, to: c_int, call: impl FnOnce() -> c_int) -> c_int {
    copy(fd, || {
        before_close(to);
        call()
    })
}

/// Flags of `close_range`: the thread first gets descriptors of its own; the numbers are closed on exec.
const UNSHARE: c_int = 2;
const CLOEXEC: c_int = 4;

/// For a `call` that makes a `FILE`: the C library writes to it by itself.
fn printed_to(fd: c_int, call: impl FnOnce() -> Opaque) -> Opaque {
    match leaving::drained_for_good(fd, PathReason::Printed) {
        Ok(()) => call(),
        Err(error) => {
            errno::set(error.raw_os_error());
            std::ptr::null_mut()
        }
    }
}

/// For a descriptor that `take` takes from a process, which has it as `fd`. It may be a copy of one of this process.
pub(super) fn taken(fd: c_int, take: impl FnOnce() -> c_int) -> c_int {
    let copy = take();
    if copy >= 0
        && !is_borrower()
        && let Err(error) = errno::kept(|| after_taking(fd, copy))
    {
        pass!(close(copy));
        return errno::failed(error);
    }
    copy
}

fn after_taking(fd: c_int, copy: c_int) -> Result<(), Errno> {
    let file = |fd| fstat(socket::borrowed(fd)).ok().map(|file| (file.st_dev, file.st_ino));
    let taken = file(copy);
    let mut same = gate::all().filter(|gate| taken.is_some() && file(gate.fd()) == taken);
    same.try_for_each(|gate| settle::drain_for_good(gate, PathReason::Duplicated))?;
    // Sets have no identity of their own, so each set with this number counts as the one taken.
    if file(fd) == taken && gate::watched(fd).is_none() {
        copied(fd);
        copied(copy);
    }
    Ok(())
}

fn control(fd: c_int, command: c_int, argument: usize, call: impl FnOnce() -> c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            return copy(fd, call);
        }
        // Signals would continue while the service has it open.
        libc::F_SETFL if argument & libc::O_ASYNC as usize != 0 => {
            if let Some(gate) = gate::watched(fd) {
                errno::kept(|| settle::pin(gate, PathReason::Signals));
            }
        }
        libc::F_SETFD if argument & libc::FD_CLOEXEC as usize == 0 => errno::kept(|| forks::passed_on(fd)),
        _ => {}
    }
    call()
}

intercept! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // The lowest bits are the kind, the others are flags.
        let is_internet = matches!(domain, libc::AF_INET | libc::AF_INET6);
        match kind & 0xf {
            libc::SOCK_STREAM if is_internet => made(None, || pass!(socket(domain, kind, protocol))),
            libc::SOCK_DGRAM if is_internet && matches!(protocol, 0 | libc::IPPROTO_UDP) => {
                let fd = made(None, || pass!(socket(domain, kind, protocol)));
                if let Some(gate) = gate::watched(fd) {
                    gate.slot().word.sends_datagrams();
                }
                fd
            }
            _ => pass!(socket(domain, kind, protocol)),
        }
    }

    fn accept(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> c_int {
        made(Some(fd), || pass!(accept(fd, from, from_len)))
    }

    fn accept4(fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t, flags: c_int) -> c_int {
        made(Some(fd), || pass!(accept4(fd, from, from_len, flags)))
    }

    fn connect(fd: c_int, to: *const sockaddr, to_len: socklen_t) -> c_int {
        if let Some(gate) = gate::watched(fd).filter(|gate| gate.in_ring().is_some()) {
            // The ring's datagrams would go to another peer. A connection has one already, which the kernel reports.
            let drained = errno::kept(|| {
                if gate.is_of_datagrams() { settle::drain(gate, PathReason::Special) } else { before(gate, PathReason::Special).or(Ok(())) }
            });
            if let Err(error) = drained {
                return errno::failed(error);
            }
        }
        pass!(connect(fd, to, to_len))
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        if let Some(gate) = gate::watched(fd).filter(|_| matches!(how, libc::SHUT_WR | libc::SHUT_RDWR)) {
            if errno::kept(|| settle::is_shut_later(gate)) {
                return if how == libc::SHUT_RDWR { pass!(shutdown(fd, libc::SHUT_RD)) } else { 0 };
            }
            // In a child, the end follows the rest of its parent's ring.
            if let Err(error) = errno::kept(|| settle::drain(gate, PathReason::Special)) {
                return errno::failed(error);
            }
        }
        pass!(shutdown(fd, how))
    }

    #[cfg_attr(
        runtime_symbols_are_checked,
        expect(invalid_runtime_symbol_definitions, reason = "the end of a thread unwinds through it")
    )]
    fn close(fd: c_int) -> c_int {
        before_close(fd);
        if forks::is_own(fd) {
            errno::set(libc::EBADF);
            return -1;
        }
        pass!(close(fd))
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if flags & UNSHARE != 0 && flags & !(UNSHARE | CLOEXEC) == 0 && first <= last && !is_borrower() {
            // Other threads will have other files at the same numbers.
            leaving::by_the_kernel_alone();
        }
        if first > last || flags != 0 || is_borrower() {
            return pass!(close_range(first, last, flags));
        }
        close_all(first, last)
    }

    fn closefrom(first: c_int) -> () {
        if is_borrower() || close_all(first.max(0).cast_unsigned(), c_uint::MAX) != 0 {
            pass!(closefrom(first));
        }
    }

    fn epoll_ctl(set: c_int, what: c_int, fd: c_int, event: Opaque) -> c_int {
        let result = pass!(epoll_ctl(set, what, fd, event));
        if let Some(gate) = gate::watched(fd).filter(|_| result == 0) {
            let is_copied = table::slot(set).is_some_and(Slot::is_copied);
            match what {
                libc::EPOLL_CTL_ADD if !gate.slot().enters_epoll(set) || is_copied => {
                    errno::kept(|| settle::pin(gate, PathReason::Sets));
                }
                libc::EPOLL_CTL_DEL => gate.slot().leaves_epoll(set),
                _ => {}
            }
        }
        result
    }

    fn dup(fd: c_int) -> c_int {
        copy(fd, || pass!(dup(fd)))
    }

    fn dup2(fd: c_int, to: c_int) -> c_int {
        if fd == to || !is_open(fd) {
            return pass!(dup2(fd, to));
        }
        copy_to(fd, to, || pass!(dup2(fd, to)))
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        let is_right = fd != to && flags & !libc::O_CLOEXEC == 0 && is_open(fd);
        if !is_right {
            return pass!(dup3(fd, to, flags));
        }
        copy_to(fd, to, || pass!(dup3(fd, to, flags)))
    }

    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        control(fd, command, argument, || pass!(fcntl(fd, command, argument)))
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        control(fd, command, argument, || pass!(fcntl64(fd, command, argument)))
    }

    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        if request == FIONCLEX {
            errno::kept(|| forks::passed_on(fd));
        }
        let Some(gate) = gate::watched(fd) else { return pass!(ioctl(fd, request, argument)) };
        match needs(request) {
            Needs::Nothing => {}
            Needs::Drained | Needs::Kernel => errno::kept(|| settle::settle_soon(gate, PathReason::Special)),
            Needs::KernelSoonUnlessOff => errno::kept(|| settle::pin(gate, PathReason::Signals)),
        }
        if !matches!(request, SIOCOUTQ | SIOCOUTQNSD) {
            return pass!(ioctl(fd, request, argument));
        }
        let Some(ring) = gate.in_ring() else { return pass!(ioctl(fd, request, argument)) };
        let (result, waiting) = ring.stream.waiting_beside(ring.key, || pass!(ioctl(fd, request, argument)));
        if result == 0 {
            // SAFETY: the kernel has just written a number there.
            unsafe { *(argument as *mut c_int) += waiting.cast_signed() };
        }
        result
    }

    fn fdopen(fd: c_int, mode: *const c_char) -> Opaque {
        printed_to(fd, || pass!(fdopen(fd, mode)))
    }

    fn _IO_file_attach(file: Opaque, fd: c_int) -> Opaque {
        printed_to(fd, || pass!(file_attach(file, fd)))
    }

    fn pidfd_getfd(process: c_int, fd: c_int, flags: c_uint) -> c_int {
        taken(fd, || pass!(pidfd_getfd(process, fd, flags)))
    }
}
