//! Process isolation: a program inherits only its three pipes from its node, and ends with it. Waiting for descriptors.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{
    DumpableBehavior, Signal, getpid, getppid, set_dumpable_behavior, set_parent_process_death_signal,
};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tokio::io::unix::AsyncFd;

/// Lowest descriptor behind standard input, output and error.
const FIRST: i32 = 3;

/// The program that `command` starts leads a process group of its own. The kernel kills it when the thread that starts
/// it ends.
pub fn alone(command: &mut Command) -> &mut Command {
    let node = getpid();
    let begin = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The kernel does not report a node that died before that call.
        if getppid() == Some(node) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: `begin` runs in the new process before the program. It only makes system calls: it allocates nothing and
    // takes no lock that another thread of the node may have held.
    unsafe { command.process_group(0).pre_exec(begin) }
}

/// Marks all inherited descriptors of this process as closed on `exec`, so that programs do not inherit them.
/// Descriptors that it opens later have this mark already.
pub(crate) fn keep_descriptors() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(number) = number.filter(|number| *number >= FIRST) {
            // SAFETY: the number is that of an open descriptor, for nothing else runs in this process yet; it is used
            // for two calls only, which would fail on one that is closed.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl_setfd(descriptor, fcntl_getfd(descriptor)? | FdFlags::CLOEXEC)?;
        }
    }
    Ok(())
}

/// From now on other processes of this user, including its programs, can read neither its memory nor its environment.
/// Programs stay readable, and root can read everything.
pub(crate) fn keep_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the `AsyncFd` owns the descriptor, which stays open and the same until it is taken out or dropped, and
    // both end the watch.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}
