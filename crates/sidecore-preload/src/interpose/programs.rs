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

/// This process becomes another program, which may get some of its connections. Where it does not, it goes on.
pub(super) fn before_exec() {
    if !is_borrower() {
        errno::kept(|| {
            let fork = forks::before(Child::Program);
            forks::after_in_parent(fork, false);
        });
    }
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

    fn posix_spawn_file_actions_adddup2(actions: Opaque, fd: c_int, to: c_int) -> c_int {
        let drained = gate::watched(fd).map_or(Ok(()), |gate| errno::kept(|| settle::drain_for_good(gate, Why::Forked)));
        match drained {
            Ok(()) => pass!(posix_spawn_file_actions_adddup2(actions, fd, to)),
            Err(error) => error.raw_os_error(),
        }
    }
}
