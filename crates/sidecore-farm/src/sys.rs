//! What a program inherits of the node that starts it: nothing but its three pipes, and its end. Waiting for descriptors.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{
    DumpableBehavior, Signal, getpid, getppid, set_dumpable_behavior, set_parent_process_death_signal,
};
use sidecore_client::gateway::Gateway;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use tokio::io::unix::AsyncFd;

/// Lowest descriptor behind standard input, output and error.
const FIRST: i32 = 3;

/// The program leads a process group of its own. The kernel kills it when the thread that starts it ends.
pub(crate) fn alone(command: &mut Command) -> &mut Command {
    let node = getpid();
    let begin = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A node that died before that call is not noticed by the kernel.
        if getppid() == Some(node) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: `begin` runs in the new process before the program. It only makes system calls: it allocates nothing and takes no lock
    // that another thread of the node may have held.
    unsafe { command.process_group(0).pre_exec(begin) }
}

/// Programs that are started from now on get none of the descriptors that this process was itself started with. What it opens
/// itself they do not get anyway.
///
/// # Errors
/// The list of descriptors cannot be read.
pub(crate) fn keep_descriptors() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(number) = number.filter(|number| *number >= FIRST) {
            // SAFETY: the number is that of an open descriptor, for nothing else runs in this process yet; it is used for two calls only,
            // which would fail on one that is closed.
            let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
            fcntl_setfd(descriptor, fcntl_getfd(descriptor)? | FdFlags::CLOEXEC)?;
        }
    }
    Ok(())
}

/// From now on other processes of this user, its programs included, can read neither its memory nor its environment.
/// Programs stay readable, and root reads all.
///
/// # Errors
/// The kernel's.
pub(crate) fn keep_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Whether it can be read is told by the runtime from now on.
///
/// # Errors
/// The runtime cannot wait for what this is.
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the `AsyncFd` owns the descriptor, which stays open and the same until it is taken out or dropped, and both end the watch.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

/// Whether the service can be heard, and told something, is told by the runtime from now on.
///
/// # Errors
/// The runtime cannot wait for it.
pub(crate) fn watch_gateway(gateway: Gateway) -> io::Result<AsyncFd<Gateway>> {
    // SAFETY: the `AsyncFd` owns the gateway, which has one descriptor for as long as it lives; both end the watch.
    Ok(unsafe { AsyncFd::register(gateway) }?)
}
