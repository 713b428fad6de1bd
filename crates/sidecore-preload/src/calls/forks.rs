//! Which connections another process may have as well.
//!
//! Each fork begins an epoch. A connection that was made in an earlier one is in the child too, and stays on the kernel's path
//! there for good. Here it does as well, until a pipe whose other end only the child and its own children hold says that
//! they have ended, or become other programs: then those that other programs do not get are this process's alone again.

use crate::calls::promote;
use crate::calls::settle::settle_until;
use crate::interpose::socket;
use crate::table;
use rustix::io::{Errno, FdFlags, fcntl_getfd, read};
use rustix::pipe::{PipeFlags, pipe_with};
use sidecore_client::sockets::program;
use sidecore_client::sys::own::out_of_the_way;
use sidecore_client::sys::{tcp, udp};
use sidecore_core::streams::rule::Why;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// How long a fork waits for rings that the kernel takes nothing of.
const PATIENCE: Duration = Duration::from_millis(100);
/// Forks whose children are watched. What was shared with one more is the kernel's for good.
const WATCHED: usize = 16;
const NONE: RawFd = -1;
/// In a child's pipe: it passed a connection on to where nobody sees its end.
const PASSED_ON: u8 = 1;

/// Numbers nothing is born in: 0 is before this program.
static EPOCH: AtomicU32 = AtomicU32::new(1);
/// What was made before that epoch is shared for good.
static FOR_GOOD: AtomicU32 = AtomicU32::new(0);
/// What was made before that epoch is shared if other programs get it.
static WITH_PROGRAMS: AtomicU32 = AtomicU32::new(0);
/// The process has had a connection in a ring.
static ATTACHED: AtomicBool = AtomicBool::new(false);
/// Epoch that a fork began, and the end of its pipe, plus one. 0: free.
static CHILDREN: [AtomicU64; WATCHED] = [const { AtomicU64::new(0) }; WATCHED];
/// In a child: the ends by which its parents are told.
static TO_PARENTS: [AtomicI32; WATCHED] = [const { AtomicI32::new(NONE) }; WATCHED];

/// What a child gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    /// All connections, and it goes on with them.
    Copy,
    /// It becomes another program at once.
    Program,
}

/// What is to be done after a fork.
#[derive(Debug)]
pub(crate) struct Fork {
    epoch: u32,
    pipe: Option<(OwnedFd, OwnedFd)>,
    child: Child,
}

/// The epoch by now.
#[inline]
pub(crate) fn epoch() -> u32 {
    let epoch = EPOCH.load(Ordering::SeqCst);
    fence(Ordering::SeqCst);
    epoch
}

/// The process has a connection in a ring.
pub(crate) fn attached() {
    ATTACHED.store(true, Ordering::Relaxed);
}

/// Whether the process ever had one.
#[inline]
pub(crate) fn is_attached() -> bool {
    ATTACHED.load(Ordering::Relaxed)
}

/// Whether another process may have that connection.
pub(crate) fn is_shared(fd: RawFd, born: u32) -> bool {
    let watched = CHILDREN.iter().any(|child| is_living(child, born));
    watched
        || born <= FOR_GOOD.load(Ordering::Relaxed)
        || born <= WITH_PROGRAMS.load(Ordering::Relaxed) && is_passed_on(fd)
}

/// Before a fork: what a child gets is the kernel's.
pub(crate) fn before(child: Child) -> Fork {
    let epoch = EPOCH.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let until = Instant::now() + PATIENCE;
    for (fd, slot) in table::all().filter(|(_, slot)| slot.is_in_ring()) {
        if child == Child::Copy || is_passed_on(fd) {
            settle_until(fd, slot, Why::Forked, until);
        }
    }
    let pipe = (child == Child::Copy && is_attached()).then(pipe).flatten();
    Fork { epoch, pipe, child }
}

/// In the parent; also where there is no child.
pub(crate) fn after_in_parent(fork: Fork, forked: bool) {
    match fork.pipe {
        _ if !forked => {}
        _ if fork.child == Child::Program => {
            WITH_PROGRAMS.fetch_max(fork.epoch, Ordering::Relaxed);
        }
        Some((reader, _)) if watch(fork.epoch, &reader) => {
            let _ = reader.into_raw_fd();
        }
        _ => {
            FOR_GOOD.fetch_max(fork.epoch, Ordering::Relaxed);
        }
    }
}

/// In a child that goes on with its parent's memory: all that it has is shared for good.
pub(crate) fn after_in_child(fork: Fork) {
    for child in &CHILDREN {
        if let Some((_, reader)) = of(child.swap(0, Ordering::Relaxed)) {
            socket::close_own(reader);
        }
    }
    if let Some((_, writer)) = fork.pipe {
        tell(writer);
    }
    FOR_GOOD.store(fork.epoch, Ordering::Relaxed);
    table::forget_all();
    promote::after_fork_in_child();
    program::after_fork_in_child();
}

/// Whether parents wait to hear of what this process passes on.
pub(crate) fn is_child() -> bool {
    TO_PARENTS.iter().any(|to| to.load(Ordering::Relaxed) != NONE)
}

/// The process gave a connection of its parent's a way into another program, or another process.
pub(crate) fn passed_on(fd: RawFd) {
    let parents = || TO_PARENTS.iter().map(|to| to.load(Ordering::Relaxed)).filter(|to| *to != NONE);
    let is_socket = |fd| tcp::is_connected_tcp(fd) || udp::is_udp(fd);
    if parents().next().is_some() && is_socket(socket::borrowed(fd)) {
        for writer in parents() {
            let _ = rustix::io::write(socket::borrowed(writer), &[PASSED_ON]);
        }
    }
}

/// Descriptors that are this module's.
pub(crate) fn own_descriptors() -> impl Iterator<Item = RawFd> {
    let watched = CHILDREN.iter().filter_map(|child| of(child.load(Ordering::Relaxed)).map(|(_, reader)| reader));
    watched.chain(TO_PARENTS.iter().map(|to| to.load(Ordering::Relaxed)).filter(|to| *to != NONE))
}

fn of(word: u64) -> Option<(u32, RawFd)> {
    (word != 0).then_some(((word >> 32) as u32, (word as u32).wrapping_sub(1).cast_signed()))
}

/// Whether a child that has what was made in that epoch is still there.
fn is_living(child: &AtomicU64, born: u32) -> bool {
    let word = child.load(Ordering::Relaxed);
    let Some((epoch, reader)) = of(word).filter(|(epoch, _)| born <= *epoch) else { return false };
    let ended = match read(socket::borrowed(reader), &mut [0_u8]) {
        Ok(0) => &WITH_PROGRAMS,
        Err(Errno::AGAIN | Errno::INTR) => return true,
        Ok(_) | Err(_) => &FOR_GOOD,
    };
    if child.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        ended.fetch_max(epoch, Ordering::Relaxed);
        socket::close_own(reader);
    }
    false
}

/// The parent is told by that end, and so are its own, which wait for their children's children.
fn tell(writer: OwnedFd) {
    let fd = writer.into_raw_fd();
    let free = |to: &AtomicI32| to.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if !TO_PARENTS.iter().any(free) {
        let _ = rustix::io::write(socket::borrowed(fd), &[PASSED_ON]);
        socket::close_own(fd);
    }
}

fn watch(epoch: u32, reader: &OwnedFd) -> bool {
    let word = u64::from(epoch) << 32 | u64::from(reader.as_raw_fd().cast_unsigned() + 1);
    CHILDREN.iter().any(|child| child.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed).is_ok())
}

/// Both ends, which no other program gets.
fn pipe() -> Option<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    Some((out_of_the_way(reader).ok()?, out_of_the_way(writer).ok()?))
}

/// Whether a program that this process becomes gets it.
fn is_passed_on(fd: RawFd) -> bool {
    let socket: BorrowedFd<'_> = socket::borrowed(fd);
    !fcntl_getfd(socket).is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC))
}
