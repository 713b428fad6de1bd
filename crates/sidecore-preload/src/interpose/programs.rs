//! Functions that begin other programs.

use super::catalogue::{Opaque, Strings};
use super::errno;
use super::processes::{is_borrower, spawned};
use super::{intercept, pass, socket};
use crate::calls::forks::{self, Child};
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

/// Defines functions that spawn by a path or a name, with the type of their first result.
macro_rules! spawns {
    ($($name:ident $first:ty;)*) => {
        intercept! {
            $(fn $name(
                first: *mut $first,
                path: *const c_char,
                actions: Opaque,
                attributes: Opaque,
                arguments: Strings,
                environment: Strings,
            ) -> c_int {
                number_of(spawned(|| pass!($name(first, path, actions, attributes, arguments, environment))))
            })*
        }
    };
}

spawns! {
    posix_spawn pid_t;
    posix_spawnp pid_t;
    pidfd_spawn c_int;
    pidfd_spawnp c_int;
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

    fn posix_spawn_file_actions_adddup2(actions: Opaque, fd: c_int, to: c_int) -> c_int {
        match socket::drained_for_good(fd, Why::Forked) {
            Ok(()) => pass!(posix_spawn_file_actions_adddup2(actions, fd, to)),
            Err(error) => error.raw_os_error(),
        }
    }
}
