//! Tracks connections that another process may have as well.
//!
//! Each fork begins an epoch. A connection made in an earlier epoch is in the child too, and stays on the kernel's
//! path there permanently. In the parent it also stays on that path, until a pipe tells that the children have ended
//! or become other programs: only the child and its own children hold the pipe's other end. After that, connections
//! that other programs do not inherit belong to this process alone again.

use crate::calls::edges;
use crate::calls::kept::Kept;
use crate::calls::permit;
use crate::calls::settle::{self, drain_until};
use crate::gate::{self, Gate, Path};
use crate::interpose::socket;
use crate::table;
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd, read};
use rustix::pipe::{PipeFlags, pipe_with};
use sidecore_ipc::sys::verified_fd::VerifiedFd;
use sidecore_sockets::program;
use sidecore_sockets::stream::Remains;
use sidecore_sockets::sys::{tcp, udp};
use sidecore_streams::rule::PathReason;
use sidecore_streams::slot::SlotState;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

/// Time limit of a fork for rings that a full kernel does not take.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// Limit of forks with watched children. Connections shared in further forks stay with the kernel permanently.
const WATCHED: usize = 16;
/// Message in a child's pipe: it passed a connection on, to a process without an end of the pipe.
const PASSED_ON: u8 = 1;

/// The present epoch, which the next fork ends. 0 is before this program.
static EPOCH: AtomicU32 = AtomicU32::new(1);
/// Connections of this epoch and earlier ones are shared permanently.
static FOR_GOOD: AtomicU32 = AtomicU32::new(0);
/// Connections of this epoch and earlier ones are shared if other programs inherit them.
static WITH_PROGRAMS: AtomicU32 = AtomicU32::new(0);
static ATTACHED: AtomicBool = AtomicBool::new(false);
/// Reading ends of the children's pipes, by the epoch of the fork.
static CHILDREN: [Kept; WATCHED] = [const { Kept::none() }; WATCHED];
/// In a child: writing ends of the pipes to its parents.
static TO_PARENTS: [Kept; WATCHED] = [const { Kept::none() }; WATCHED];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    /// It inherits all connections, and continues with them.
    Copy,
    /// It has all connections in its parent's memory, until it becomes another program.
    Borrower,
    /// It becomes another program immediately.
    Program,
}

#[derive(Debug)]
pub(crate) struct Fork {
    epoch: u32,
    pipe: Option<(VerifiedFd, VerifiedFd)>,
    child: Child,
    remains: Vec<(RawFd, Remains)>,
}

#[inline]
pub(crate) fn epoch() -> u32 {
    let epoch = EPOCH.load(Ordering::SeqCst);
    fence(Ordering::SeqCst);
    epoch
}

pub(crate) fn attached() {
    ATTACHED.store(true, Ordering::Relaxed);
}

#[inline]
pub(crate) fn is_attached() -> bool {
    ATTACHED.load(Ordering::Relaxed)
}

pub(crate) fn is_shared(fd: RawFd, born: u32) -> bool {
    let watched = CHILDREN.iter().any(|child| is_living(child, born));
    watched
        || born <= FOR_GOOD.load(Ordering::Relaxed)
        || born <= WITH_PROGRAMS.load(Ordering::Relaxed) && is_passed_on(fd)
}

/// Before a fork: gives the connections that a child inherits to the kernel.
pub(crate) fn before(child: Child) -> Fork {
    if child == Child::Copy {
        program::before_fork();
    }
    keep_own();
    let epoch = EPOCH.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let until = Instant::now() + DRAIN_TIMEOUT;
    if child != Child::Program {
        // The child's bytes count as this process's.
        gate::all().for_each(|gate| gate.slot().forget_sent());
    }
    let mut remains = Vec::new();
    for gate in gate::full().filter(|gate| child != Child::Program || is_passed_on(gate.fd())) {
        if drain_until(gate, PathReason::Forked, until).is_err() {
            let rest = match gate.path() {
                Path::Ring(ring) | Path::Leaving(ring) => ring.stream.remains(ring.key),
                Path::Behind(remains) => Some(remains.again()),
                _ => None,
            };
            remains.extend(rest.map(|rest| (gate.fd(), rest)));
        }
    }
    let pipe = (child == Child::Copy && is_attached()).then(pipe).flatten();
    Fork { epoch, pipe, child, remains }
}

/// Before another program begins, which sends by itself. `Errno::AGAIN`: it inherits a copy of a descriptor, made while the
/// ring was full, and would overtake what the ring still has. Connections that were not copied are not waited for: a
/// peer that reads nothing could keep a server from starting programs.
pub(crate) fn before_program() -> Result<(), Errno> {
    let until = Instant::now() + settle::DRAIN_TIMEOUT;
    let is_copy = |gate: &Gate| gate.state() == SlotState::Behind && gate.slot().why() == PathReason::Duplicated;
    let mut copies = gate::full().filter(|gate| is_copy(gate) && is_passed_on(gate.fd()));
    copies.try_for_each(|gate| drain_until(gate, PathReason::Duplicated, until))
}

pub(crate) fn after_in_parent(fork: Fork, forked: bool) {
    if !forked {
        return;
    }
    if fork.child != Child::Copy {
        WITH_PROGRAMS.fetch_max(fork.epoch, Ordering::Relaxed);
    } else if fork.pipe.is_none_or(|(reader, _)| keep(&CHILDREN, fork.epoch, reader).is_err()) {
        FOR_GOOD.fetch_max(fork.epoch, Ordering::Relaxed);
    }
}

/// In a child with a copy of its parent's memory: all inherited connections are shared permanently.
pub(crate) fn after_in_child(fork: Fork) {
    for child in &CHILDREN {
        if let Some(epoch) = child.tag() {
            child.close(epoch);
        }
    }
    if let Some((_, writer)) = fork.pipe {
        tell(writer);
    }
    FOR_GOOD.store(fork.epoch, Ordering::Relaxed);
    table::forget_all();
    for (fd, remains) in fork.remains {
        table::begin_behind(fd, remains);
    }
    permit::after_fork_in_child();
    edges::after_fork_in_child();
    program::after_fork_in_child();
}

/// Whether parents wait for messages about connections that this process passes on.
pub(crate) fn is_child() -> bool {
    TO_PARENTS.iter().any(|to| to.tag().is_some())
}

pub(crate) fn passed_on(fd: RawFd) {
    let is_socket = |fd| tcp::is_connected_tcp(fd) || udp::is_udp(fd);
    if is_child() && is_socket(socket::borrowed(fd)) {
        for to in &TO_PARENTS {
            let _ = to.with(|writer| rustix::io::write(writer, &[PASSED_ON]));
        }
    }
}

pub(crate) fn lowest_own(mut first: u32, last: u32) -> Option<RawFd> {
    loop {
        let numbers = program::own_numbers().chain(CHILDREN.iter().chain(&TO_PARENTS).filter_map(Kept::left_number));
        let lowest = numbers.filter(|fd| (first..=last).contains(&fd.cast_unsigned())).min()?;
        if is_own(lowest) {
            return Some(lowest);
        }
        first = lowest.cast_unsigned() + 1;
    }
}

pub(crate) fn is_own(fd: RawFd) -> bool {
    is_attached() && (program::is_own(fd) || CHILDREN.iter().chain(&TO_PARENTS).any(|kept| kept.is(fd)))
}

/// Keeps other programs from inheriting descriptors of this library. With a copy of its connection, the service would
/// not notice this program's end.
fn keep_own() {
    let mut first = 0;
    while let Some(own) = lowest_own(first, u32::MAX) {
        // Fails only if the program has just closed it.
        let _ = fcntl_setfd(socket::borrowed(own), FdFlags::CLOEXEC);
        first = own.cast_unsigned() + 1;
    }
}

fn is_living(child: &Kept, born: u32) -> bool {
    let Some(epoch) = child.tag().filter(|epoch| born <= *epoch) else { return false };
    let ended = match child.with(|reader| read(reader, &mut [0_u8])) {
        Some(Ok(0)) => &WITH_PROGRAMS,
        Some(Err(Errno::AGAIN | Errno::INTR)) => return true,
        // After the program closed the pipe, nothing more is known of the child.
        Some(_) | None => &FOR_GOOD,
    };
    if child.close(epoch) {
        ended.fetch_max(epoch, Ordering::Relaxed);
    }
    false
}

/// Stores the writing end of the parent's pipe. Without a free slot, reports a passed connection immediately.
fn tell(writer: VerifiedFd) {
    if let Err(writer) = keep(&TO_PARENTS, 0, writer) {
        let _ = writer.get().map(|writer| rustix::io::write(writer, &[PASSED_ON]));
    }
}

fn keep(places: &[Kept], tag: u32, mut own: VerifiedFd) -> Result<(), VerifiedFd> {
    for place in places {
        match place.put(tag, own) {
            Ok(()) => return Ok(()),
            Err(back) => own = back,
        }
    }
    Err(own)
}

fn pipe() -> Option<(VerifiedFd, VerifiedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    Some((VerifiedFd::new(reader).ok()?, VerifiedFd::new(writer).ok()?))
}

fn is_passed_on(fd: RawFd) -> bool {
    let socket: BorrowedFd<'_> = socket::borrowed(fd);
    !fcntl_getfd(socket).is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC))
}
