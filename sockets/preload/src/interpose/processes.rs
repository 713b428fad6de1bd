//! Functions that make processes.

use super::errno;
use super::{intercept, pages, pass};
use crate::calls::forks::{self, Child, Fork};
use libc::{c_char, c_int, c_void, pid_t};
use rustix::io::Errno;
use sidecore_sockets::program;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Number of calls whose child is in this process's memory until it becomes a program, and the process that makes
/// them.
static BORROWERS: AtomicU32 = AtomicU32::new(0);
static LENDER: AtomicI32 = AtomicI32::new(0);

/// Whether this is a child in its parent's memory. Its descriptors are not those in this memory's table.
#[inline]
pub(crate) fn is_borrower() -> bool {
    BORROWERS.load(Ordering::Relaxed) > 0 && rustix::process::getpid().as_raw_pid() != LENDER.load(Ordering::Relaxed)
}

pub(super) fn lend() {
    LENDER.store(rustix::process::getpid().as_raw_pid(), Ordering::Relaxed);
    BORROWERS.fetch_add(1, Ordering::SeqCst);
}

pub(super) fn taken_back() {
    BORROWERS.fetch_sub(1, Ordering::SeqCst);
}

pub(super) fn forked(call: impl FnOnce() -> pid_t) -> pid_t {
    if is_borrower() {
        return call();
    }
    let fork = errno::kept(|| forks::before(Child::Copy));
    let pid = call();
    errno::kept(|| match pid {
        0 => {
            BORROWERS.store(0, Ordering::Relaxed);
            forks::after_in_child(fork);
        }
        _ => forks::after_in_parent(fork, pid > 0),
    });
    pid
}

/// Starts another program by `call`, which returns once that has begun.
///
/// # Errors
/// As for [`forks::before_program`].
pub(super) fn spawned<T>(call: impl FnOnce() -> T) -> Result<T, Errno> {
    if is_borrower() {
        return Ok(call());
    }
    errno::kept(forks::before_program)?;
    let fork = errno::kept(|| forks::before(Child::Program));
    let result = call();
    errno::kept(|| forks::after_in_parent(fork, true));
    Ok(result)
}

struct Beginning {
    run: usize,
    argument: *mut c_void,
    fork: Option<Fork>,
}

extern "C-unwind" fn begin(beginning: *mut c_void) -> c_int {
    // SAFETY: the child has a copy of the memory in which the caller of `clone` waits, including its stack.
    let beginning = unsafe { &mut *beginning.cast::<Beginning>() };
    BORROWERS.store(0, Ordering::Relaxed);
    if let Some(fork) = beginning.fork.take() {
        forks::after_in_child(fork);
    }
    // SAFETY: the program's own function, of the type that `clone` wants.
    let run: extern "C-unwind" fn(*mut c_void) -> c_int = unsafe { std::mem::transmute(beginning.run) };
    let result = run(beginning.argument);
    if !program::let_go() {
        // The C library would end this thread only, and the library's would stay.
        // SAFETY: it has no requirement.
        unsafe { libc::_exit(result) };
    }
    result
}

intercept! {
    fn fork() -> pid_t {
        forked(|| pass!(fork()))
    }

    fn daemon(nochdir: c_int, noclose: c_int) -> c_int {
        // It does not return in the parent.
        forked(|| pass!(daemon(nochdir, noclose)))
    }

    fn forkpty(master: *mut c_int, name: *mut c_char, termios: *mut c_void, size: *mut c_void) -> pid_t {
        forked(|| pass!(forkpty(master, name, termios, size)))
    }

    fn clone(
        run: usize,
        stack: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        parent: *mut c_void,
        tls: *mut c_void,
        child: *mut c_void,
    ) -> c_int {
        if flags & libc::CLONE_THREAD != 0 || is_borrower() {
            return pass!(clone(run, stack, flags, argument, parent, tls, child));
        }
        if flags & libc::CLONE_VM != 0 {
            lend();
            let pid = spawned(|| pass!(clone(run, stack, flags, argument, parent, tls, child))).unwrap_or_else(errno::failed);
            if flags & libc::CLONE_VFORK != 0 {
                pages::left_by(pid);
                taken_back();
            }
            return pid;
        }
        let fork = errno::kept(|| forks::before(Child::Copy));
        let mut beginning = Beginning { run, argument, fork: Some(fork) };
        let argument = (&raw mut beginning).cast();
        let pid = pass!(clone(begin as *const () as usize, stack, flags, argument, parent, tls, child));
        if let Some(fork) = beginning.fork.take() {
            errno::kept(|| forks::after_in_parent(fork, pid > 0));
        }
        pid
    }
}

/// # Safety
/// As for the C library's `_Fork`.
#[unsafe(export_name = "_Fork")]
unsafe extern "C-unwind" fn bare_fork() -> pid_t {
    forked(|| pass!(bare_fork()))
}

pub(super) fn before_vfork() {
    if !is_borrower() {
        // The child may send on its parent's connections before it is a program. The call cannot fail here.
        let _ = errno::kept(forks::before_program);
        let fork = errno::kept(|| forks::before(Child::Borrower));
        forks::after_in_parent(fork, true);
        lend();
    }
}

/// After `vfork`, in the parent: the child is a program of its own, or has ended.
pub(super) fn after_vfork(child: pid_t) {
    pages::left_by(child);
    if !is_borrower() {
        taken_back();
    }
}
