//! Functions that make, copy, change and close descriptors.

use super::catalogue::Opaque;
use super::processes::is_borrower;
use super::{errno, intercept, pass};
use crate::calls::kinds::{FIONCLEX, Needs, SIOCOUTQ, SIOCOUTQNSD, ioctl as needs};
use crate::calls::send::before;
use crate::calls::{forks, settle};
use crate::interpose::slot::{Path, Slot, State};
use crate::interpose::socket;
use crate::table;
use libc::{c_char, c_int, c_uint, c_ulong, sockaddr, socklen_t};
use rustix::io::fcntl_getfd;
use sidecore_client::sockets::program;
use sidecore_core::streams::rule::Why;
use std::time::{Duration, Instant};

/// How long a copy of a descriptor waits for a ring that the kernel takes nothing of.
const PATIENCE: Duration = Duration::from_secs(1);

/// A connection that `make` makes, unless what it is made from is the kernel's for good.
fn made(from: Option<c_int>, make: impl FnOnce() -> c_int) -> c_int {
    let born = forks::epoch();
    let fd = make();
    let is_pinned = from.and_then(table::slot).is_some_and(|slot| slot.is(State::Kernel));
    if let Some(slot) = table::slot(fd).filter(|_| !is_borrower()) {
        errno::kept(|| settle::replaced(slot));
        if is_pinned {
            slot.forget();
        } else {
            table::made(fd, born);
        }
    }
    fd
}

/// There is about to be another descriptor for it.
fn before_copy(fd: c_int) {
    if let Some(slot) = table::watched(fd) {
        errno::kept(|| {
            slot.pin();
            settle::settle_until(fd, slot, Why::Duplicated, Instant::now() + PATIENCE)
        });
    }
    errno::kept(|| forks::passed_on(fd));
}

/// Whether all that was sent before is the kernel's, after a while at most.
pub(super) fn is_settled(fd: c_int, slot: &Slot, why: Why) -> bool {
    settle::settle_until(fd, slot, why, Instant::now() + PATIENCE) != settle::Settled::Blocked
}

/// Whether there is something to copy: else what it would replace stays as it is.
fn is_open(fd: c_int) -> bool {
    fd >= 0 && fcntl_getfd(socket::borrowed(fd)).is_ok()
}

/// Whatever is there is about to be closed.
fn before_close(fd: c_int) {
    let is_known = |slot: &&Slot| slot.is_watched() || slot.was_in_ring();
    if let Some(slot) = table::slot(fd).filter(is_known).filter(|_| !is_borrower()) {
        errno::kept(|| settle::let_go(fd, slot));
    }
}

/// What is between two numbers is about to be closed. The ranges of what is not this library's.
fn before_closing_all(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    let is_within = move |fd: &c_int| (first..=last).contains(&fd.cast_unsigned());
    table::all().filter(|(fd, _)| is_within(fd)).for_each(|(fd, _)| before_close(fd));
    let mut own = [last; OWN];
    let mut count = 0;
    for (to, fd) in own.iter_mut().zip(own_descriptors().filter(is_within)) {
        *to = fd.cast_unsigned();
        count += 1;
    }
    own[..count].sort_unstable();
    let starts = std::iter::once(Some(first)).chain(own.into_iter().take(count).map(|fd| fd.checked_add(1)));
    let ends = own.into_iter().take(count).map(|fd| fd.checked_sub(1)).chain(std::iter::once(Some(last)));
    starts.zip(ends).filter_map(|(start, end)| Some((start?, end?))).filter(|(start, end)| start <= end)
}

/// More than this library ever has.
const OWN: usize = 64;

fn own_descriptors() -> impl Iterator<Item = c_int> {
    program::own_descriptors().into_iter().flatten().chain(forks::own_descriptors())
}

fn is_own(fd: c_int) -> bool {
    forks::is_attached() && (program::is_own(fd) || forks::is_own(fd))
}

/// Closes what is between two numbers, and no descriptor of this library.
fn close_all(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    for (first, last) in before_closing_all(first, last) {
        let result = pass!(close_range(first, last, flags));
        if result != 0 {
            return result;
        }
    }
    0
}

/// Decides about `fcntl`; `call` makes it.
fn control(fd: c_int, command: c_int, argument: usize, call: impl FnOnce() -> c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => before_copy(fd),
        // Signals would go on as long as the service has it open.
        libc::F_SETFL if argument & libc::O_ASYNC as usize != 0 => {
            if let Some(slot) = table::watched(fd) {
                errno::kept(|| settle::pin(fd, slot, Why::Special));
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
                if let Some(slot) = table::watched(fd) {
                    slot.sends_datagrams();
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
        if let Some(slot) = table::watched(fd).filter(|slot| slot.is_in_ring()) {
            if !slot.is_of_datagrams() {
                let _ = errno::kept(|| before(fd, slot, Why::Special));
            } else if !errno::kept(|| is_settled(fd, slot, Why::Special)) {
                // What is in the ring would go to another peer.
                errno::set(libc::EAGAIN);
                return -1;
            }
        }
        pass!(connect(fd, to, to_len))
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        if let Some(slot) = table::watched(fd)
            && matches!(how, libc::SHUT_WR | libc::SHUT_RDWR)
            && errno::kept(|| settle::is_shut_later(fd, slot))
        {
            return if how == libc::SHUT_RDWR { pass!(shutdown(fd, libc::SHUT_RD)) } else { 0 };
        }
        pass!(shutdown(fd, how))
    }

    fn close(fd: c_int) -> c_int {
        before_close(fd);
        if is_own(fd) {
            errno::set(libc::EBADF);
            return -1;
        }
        pass!(close(fd))
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        if first > last || flags != 0 || is_borrower() {
            return pass!(close_range(first, last, flags));
        }
        close_all(first, last, flags)
    }

    fn closefrom(first: c_int) -> () {
        if is_borrower() || close_all(first.max(0).cast_unsigned(), c_uint::MAX, 0) != 0 {
            pass!(closefrom(first));
        }
    }

    fn epoll_ctl(set: c_int, what: c_int, fd: c_int, event: Opaque) -> c_int {
        let result = pass!(epoll_ctl(set, what, fd, event));
        if let Some(slot) = table::watched(fd).filter(|_| result == 0) {
            match what {
                libc::EPOLL_CTL_ADD if !slot.enters_epoll(set) => {
                    errno::kept(|| settle::pin(fd, slot, Why::Special));
                }
                libc::EPOLL_CTL_DEL => slot.leaves_epoll(set),
                _ => {}
            }
        }
        result
    }

    fn dup(fd: c_int) -> c_int {
        before_copy(fd);
        pass!(dup(fd))
    }

    fn dup2(fd: c_int, to: c_int) -> c_int {
        if fd != to && is_open(fd) {
            before_copy(fd);
            before_close(to);
        }
        pass!(dup2(fd, to))
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        if fd != to && flags & !libc::O_CLOEXEC == 0 && is_open(fd) {
            before_copy(fd);
            before_close(to);
        }
        pass!(dup3(fd, to, flags))
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
        let Some(slot) = table::watched(fd) else { return pass!(ioctl(fd, request, argument)) };
        if needs(request) == Needs::Drained {
            errno::kept(|| settle::settle(fd, slot, Why::Special));
        }
        let result = pass!(ioctl(fd, request, argument));
        if result == 0 && matches!(request, SIOCOUTQ | SIOCOUTQNSD)
            && let Path::Ring(stream) | Path::Leaving(stream) = slot.path()
        {
            // SAFETY: the kernel has just written a number there.
            unsafe { *(argument as *mut c_int) += stream.waiting(socket::borrowed(fd)).cast_signed() };
        }
        result
    }

    fn fdopen(fd: c_int, mode: *const c_char) -> Opaque {
        // What is printed there is sent by the C library itself.
        if let Some(slot) = table::watched(fd) {
            errno::kept(|| {
                slot.pin();
                let _ = before(fd, slot, Why::Special);
            });
        }
        pass!(fdopen(fd, mode))
    }
}
