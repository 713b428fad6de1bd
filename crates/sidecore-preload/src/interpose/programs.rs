//! Functions that begin other programs.

use super::catalogue::{Opaque, Strings};
use super::errno;
use super::processes::{is_borrower, spawned};
use super::{intercept, pass};
use crate::calls::forks::{self, Child};
use crate::calls::settle;
use crate::gate;
use libc::{c_char, c_int, pid_t};
use sidecore_core::streams::rule::Why;
use std::ffi::CStr;

/// This process becomes another program, which may get some of its connections. Where it does not, it goes on.
pub(super) fn before_exec() {
    if !is_borrower() {
        errno::kept(|| {
            let fork = forks::before(Child::Program);
            forks::after_in_parent(fork, false);
        });
    }
}

/// A function's result that is an error's number: -1 is that of a function which the C library does not have.
fn number_of(result: c_int) -> c_int {
    if result == -1 { errno::get() } else { result }
}

/// Flag of `wordexp`: commands are refused.
const NO_COMMANDS: c_int = 1 << 2;

/// Whether words may have commands in them, which a shell carries out.
///
/// # Safety
/// As for `wordexp`.
unsafe fn names_commands(words: *const c_char, flags: c_int) -> bool {
    // SAFETY: as the caller promised.
    let mut bytes = unsafe { CStr::from_ptr(words) }.to_bytes().iter();
    flags & NO_COMMANDS == 0 && bytes.any(|byte| matches!(byte, b'$' | b'`'))
}

intercept! {
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
        before_exec();
        pass!(execve(path, arguments, environment))
    }

    fn execv(path: *const c_char, arguments: Strings) -> c_int {
        before_exec();
        pass!(execv(path, arguments))
    }

    fn execvp(path: *const c_char, arguments: Strings) -> c_int {
        before_exec();
        pass!(execvp(path, arguments))
    }

    fn execvpe(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
        before_exec();
        pass!(execvpe(path, arguments, environment))
    }

    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
        before_exec();
        pass!(fexecve(fd, arguments, environment))
    }

    fn execveat(directory: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int {
        before_exec();
        pass!(execveat(directory, path, arguments, environment, flags))
    }

    fn system(command: *const c_char) -> c_int {
        spawned(|| pass!(system(command)))
    }

    fn popen(command: *const c_char, kind: *const c_char) -> Opaque {
        spawned(|| pass!(popen(command, kind)))
    }

    fn _IO_proc_open(file: Opaque, command: *const c_char, kind: *const c_char) -> Opaque {
        spawned(|| pass!(proc_open(file, command, kind)))
    }

    fn wordexp(words: *const c_char, found: Opaque, flags: c_int) -> c_int {
        // SAFETY: as the caller promised.
        if unsafe { names_commands(words, flags) } {
            return spawned(|| pass!(wordexp(words, found, flags)));
        }
        pass!(wordexp(words, found, flags))
    }

    fn posix_spawn(
        pid: *mut pid_t,
        path: *const c_char,
        actions: Opaque,
        attributes: Opaque,
        arguments: Strings,
        environment: Strings,
    ) -> c_int {
        spawned(|| pass!(posix_spawn(pid, path, actions, attributes, arguments, environment)))
    }

    fn posix_spawnp(
        pid: *mut pid_t,
        path: *const c_char,
        actions: Opaque,
        attributes: Opaque,
        arguments: Strings,
        environment: Strings,
    ) -> c_int {
        spawned(|| pass!(posix_spawnp(pid, path, actions, attributes, arguments, environment)))
    }

    fn pidfd_spawn(
        process: *mut c_int,
        path: *const c_char,
        actions: Opaque,
        attributes: Opaque,
        arguments: Strings,
        environment: Strings,
    ) -> c_int {
        number_of(spawned(|| pass!(pidfd_spawn(process, path, actions, attributes, arguments, environment))))
    }

    fn pidfd_spawnp(
        process: *mut c_int,
        path: *const c_char,
        actions: Opaque,
        attributes: Opaque,
        arguments: Strings,
        environment: Strings,
    ) -> c_int {
        number_of(spawned(|| pass!(pidfd_spawnp(process, path, actions, attributes, arguments, environment))))
    }

    fn posix_spawn_file_actions_adddup2(actions: Opaque, fd: c_int, to: c_int) -> c_int {
        let drained = gate::watched(fd).map_or(Ok(()), |gate| errno::kept(|| settle::drain_for_good(gate, Why::Forked)));
        match drained {
            Ok(()) => pass!(posix_spawn_file_actions_adddup2(actions, fd, to)),
            Err(error) => error.raw_os_error(),
        }
    }
}
