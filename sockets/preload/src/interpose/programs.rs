//! Functions that start other programs.

use super::arguments::Listed;
use super::catalogue::{Opaque, Strings};
use super::environment::{self, Environment, Program};
use super::errno;
use super::processes::{is_borrower, spawned};
use super::{intercept, leaving, pass};
use crate::calls::forks::{self, Child};
use libc::{c_char, c_int, pid_t};
use rustix::io::Errno;
use sidecore_streams::rule::PathReason;
use std::ffi::CStr;

/// Called before this process becomes another program, which may inherit some of its connections. If that fails, the
/// process continues.
///
/// # Errors
/// As for [`forks::before_program`].
pub(super) fn before_exec() -> Result<(), Errno> {
    if is_borrower() {
        return Ok(());
    }
    errno::kept(|| {
        forks::before_program()?;
        let fork = forks::before(Child::Program);
        forks::after_in_parent(fork, false);
        Ok(())
    })
}

macro_rules! spawns {
    ($($name:ident $first:ty, $search:ident;)*) => {
        intercept! {
            $(fn $name(
                first: *mut $first,
                path: *const c_char,
                actions: Opaque,
                attributes: Opaque,
                arguments: Strings,
                environment: Strings,
            ) -> c_int {
                let program = Program::$search { name: path, is_here: actions.is_null() };
                // SAFETY: as the caller promised.
                let environment = unsafe { Environment::of(program, environment) };
                let environment = environment.as_ptr();
                let call = || pass!($name(first, path, actions, attributes, arguments, environment));
                number_of(spawned(call).unwrap_or_else(errno::failed))
            })*
        }
    };
}

spawns! {
    posix_spawn pid_t, Path;
    posix_spawnp pid_t, Name;
    pidfd_spawn c_int, Path;
    pidfd_spawnp c_int, Name;
}

/// Error number of a function that returns one; -1 comes from a function that the C library lacks, with the number in
/// `errno`.
fn number_of(result: c_int) -> c_int {
    if result == -1 { errno::get() } else { result }
}

fn no_file(error: Errno) -> Opaque {
    errno::set(error.raw_os_error());
    std::ptr::null_mut()
}

/// Of `wordexp`: commands are forbidden; and its result where something is short, as there is no other for this.
const NO_COMMANDS: c_int = 1 << 2;
const NO_SPACE: c_int = 1;

/// Whether words may contain commands, which a shell runs.
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
        if let Err(error) = before_exec() {
            return errno::failed(error);
        }
        // SAFETY: as the caller promised.
        let environment = unsafe { Environment::of(Program::path(path), environment) };
        pass!(execve(path, arguments, environment.as_ptr()))
    }

    fn execv(path: *const c_char, arguments: Strings) -> c_int {
        if let Err(error) = before_exec() {
            return errno::failed(error);
        }
        // SAFETY: as the caller promised.
        let environment = unsafe { Environment::of(Program::path(path), environment::own()) };
        match environment.copy() {
            None => pass!(execv(path, arguments)),
            Some(copy) => pass!(execve(path, arguments, copy)),
        }
    }

    fn execvp(name: *const c_char, arguments: Strings) -> c_int {
        if let Err(error) = before_exec() {
            return errno::failed(error);
        }
        // SAFETY: as the caller promised.
        let environment = unsafe { Environment::of(Program::name(name), environment::own()) };
        match environment.copy() {
            None => pass!(execvp(name, arguments)),
            Some(copy) => pass!(execvpe(name, arguments, copy)),
        }
    }

    fn execvpe(name: *const c_char, arguments: Strings, environment: Strings) -> c_int {
        if let Err(error) = before_exec() {
            return errno::failed(error);
        }
        // SAFETY: as the caller promised.
        let environment = unsafe { Environment::of(Program::name(name), environment) };
        pass!(execvpe(name, arguments, environment.as_ptr()))
    }

    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
        if let Err(error) = before_exec() {
            return errno::failed(error);
        }
        let program = Program::At { directory: fd, name: c"".as_ptr(), flags: libc::AT_EMPTY_PATH };
        // SAFETY: as the caller promised.
        let environment = unsafe { Environment::of(program, environment) };
        pass!(fexecve(fd, arguments, environment.as_ptr()))
    }

    fn execveat(directory: c_int, name: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int {
        if let Err(error) = before_exec() {
            return errno::failed(error);
        }
        // SAFETY: as the caller promised.
        let environment = unsafe { Environment::of(Program::At { directory, name, flags }, environment) };
        pass!(execveat(directory, name, arguments, environment.as_ptr(), flags))
    }

    fn system(command: *const c_char) -> c_int {
        spawned(|| pass!(system(command))).unwrap_or_else(errno::failed)
    }

    fn popen(command: *const c_char, kind: *const c_char) -> Opaque {
        spawned(|| pass!(popen(command, kind))).unwrap_or_else(no_file)
    }

    fn _IO_proc_open(file: Opaque, command: *const c_char, kind: *const c_char) -> Opaque {
        spawned(|| pass!(proc_open(file, command, kind))).unwrap_or_else(no_file)
    }

    fn wordexp(words: *const c_char, found: Opaque, flags: c_int) -> c_int {
        // SAFETY: as the caller promised.
        if unsafe { names_commands(words, flags) } {
            return spawned(|| pass!(wordexp(words, found, flags))).unwrap_or(NO_SPACE);
        }
        pass!(wordexp(words, found, flags))
    }

    fn posix_spawn_file_actions_adddup2(actions: Opaque, fd: c_int, to: c_int) -> c_int {
        match leaving::drained_for_good(fd, PathReason::Forked) {
            Ok(()) => pass!(posix_spawn_file_actions_adddup2(actions, fd, to)),
            Err(error) => error.raw_os_error(),
        }
    }
}

/// Defines `execl` and its kin by functions that take a list, because the C library would call those internally.
macro_rules! lists {
    ($($name:ident by $function:ident($listed:ident $(, $environment:expr)?);)*) => {
        $(
            /// # Safety
            /// As for the C library's function of this name, with its first string, the address of those in
            /// registers and that of the rest.
            pub(super) unsafe extern "C" fn $name(program: *const c_char, first: Strings, rest: Strings) -> c_int {
                // SAFETY: as the caller promised.
                let Some($listed) = (unsafe { Listed::of(first, rest) }) else { return errno::failed(Errno::NOMEM) };
                // SAFETY: as the caller promised.
                unsafe { $function(program, $listed.arguments() $(, $environment)?) }
            }
        )*
    };
}

lists! {
    execl by execv(listed);
    execlp by execvp(listed);
    execle by execve(listed, listed.environment());
}
