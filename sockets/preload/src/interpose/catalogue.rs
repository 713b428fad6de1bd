//! The intercepted functions of the C library, and some of `liburing`'s, with their types. A function with variable
//! arguments has all of those it ever reads: they are passed in registers, or on the stack like the rest of a longer
//! list.

use super::real::real;
use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, c_void, iovec, mmsghdr, msghdr, off_t, pid_t, size_t, sockaddr, socklen_t,
    ssize_t, timespec, uid_t,
};

pub(super) type Opaque = *mut c_void;
pub(super) type Strings = *const *const c_char;

real! {
    send = c"send" (fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto = c"sendto" (fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    sendmsg = c"sendmsg" (fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg = c"sendmmsg" (fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    write = c"write" (fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t;
    writev = c"writev" (fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t;
    pwritev2 = c"pwritev2" (fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    pwritev64v2 = c"pwritev64v2" (fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    eventfd_write = c"eventfd_write" (fd: c_int, value: u64) -> c_int;
    backtrace_symbols_fd = c"backtrace_symbols_fd" (addresses: Opaque, count: c_int, fd: c_int) -> ();
    vdprintf = c"vdprintf" (fd: c_int, format: *const c_char, rest: Opaque) -> c_int;
    vdprintf_chk = c"__vdprintf_chk" (fd: c_int, flag: c_int, format: *const c_char, rest: Opaque) -> c_int;

    recv = c"recv" (fd: c_int, buffer: Opaque, len: size_t, flags: c_int) -> ssize_t;
    recv_chk = c"__recv_chk" (fd: c_int, buffer: Opaque, len: size_t, size: size_t, flags: c_int) -> ssize_t;
    recvfrom = c"recvfrom" (fd: c_int, buffer: Opaque, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    recvfrom_chk = c"__recvfrom_chk" (fd: c_int, buffer: Opaque, len: size_t, size: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    recvmsg = c"recvmsg" (fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg = c"recvmmsg" (fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    read = c"read" (fd: c_int, buffer: Opaque, len: size_t) -> ssize_t;
    read_chk = c"__read_chk" (fd: c_int, buffer: Opaque, len: size_t, size: size_t) -> ssize_t;
    readv = c"readv" (fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t;

    socket = c"socket" (domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    accept = c"accept" (fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> c_int;
    accept4 = c"accept4" (fd: c_int, from: *mut sockaddr, from_len: *mut socklen_t, flags: c_int) -> c_int;
    connect = c"connect" (fd: c_int, to: *const sockaddr, to_len: socklen_t) -> c_int;
    shutdown = c"shutdown" (fd: c_int, how: c_int) -> c_int;
    epoll_ctl = c"epoll_ctl" (set: c_int, what: c_int, fd: c_int, event: Opaque) -> c_int;
    close = c"close" (fd: c_int) -> c_int;
    close_range = c"close_range" (first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom = c"closefrom" (first: c_int) -> ();
    dup = c"dup" (fd: c_int) -> c_int;
    dup2 = c"dup2" (fd: c_int, to: c_int) -> c_int;
    dup3 = c"dup3" (fd: c_int, to: c_int, flags: c_int) -> c_int;
    fcntl = c"fcntl" (fd: c_int, command: c_int, argument: usize) -> c_int;
    fcntl64 = c"fcntl64" (fd: c_int, command: c_int, argument: usize) -> c_int;
    ioctl = c"ioctl" (fd: c_int, request: c_ulong, argument: usize) -> c_int;
    fdopen = c"fdopen" (fd: c_int, mode: *const c_char) -> Opaque;
    file_attach = c"_IO_file_attach" (file: Opaque, fd: c_int) -> Opaque;
    pidfd_getfd = c"pidfd_getfd" (process: c_int, fd: c_int, flags: c_uint) -> c_int;

    setsockopt = c"setsockopt" (fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    getsockopt = c"getsockopt" (fd: c_int, level: c_int, name: c_int, value: Opaque, len: *mut socklen_t) -> c_int;

    sendfile = c"sendfile" (to: c_int, from: c_int, offset: Opaque, count: size_t) -> ssize_t;
    sendfile64 = c"sendfile64" (to: c_int, from: c_int, offset: Opaque, count: size_t) -> ssize_t;
    splice = c"splice" (from: c_int, from_at: Opaque, to: c_int, to_at: Opaque, len: size_t, flags: c_uint) -> ssize_t;
    aio_write = c"aio_write" (control: Opaque) -> c_int;
    aio_write64 = c"aio_write64" (control: Opaque) -> c_int;
    lio_listio = c"lio_listio" (mode: c_int, list: Opaque, count: c_int, event: Opaque) -> c_int;
    lio_listio64 = c"lio_listio64" (mode: c_int, list: Opaque, count: c_int, event: Opaque) -> c_int;

    fork = c"fork" () -> pid_t;
    bare_fork = c"_Fork" () -> pid_t;
    clone = c"clone" (run: usize, stack: Opaque, flags: c_int, argument: Opaque, parent: Opaque, tls: Opaque, child: Opaque) -> c_int;
    daemon = c"daemon" (nochdir: c_int, noclose: c_int) -> c_int;
    forkpty = c"forkpty" (master: *mut c_int, name: *mut c_char, termios: Opaque, size: Opaque) -> pid_t;
    system = c"system" (command: *const c_char) -> c_int;
    popen = c"popen" (command: *const c_char, kind: *const c_char) -> Opaque;
    proc_open = c"_IO_proc_open" (file: Opaque, command: *const c_char, kind: *const c_char) -> Opaque;
    wordexp = c"wordexp" (words: *const c_char, found: Opaque, flags: c_int) -> c_int;
    posix_spawn = c"posix_spawn" (pid: *mut pid_t, path: *const c_char, actions: Opaque, attributes: Opaque, arguments: Strings, environment: Strings) -> c_int;
    posix_spawnp = c"posix_spawnp" (pid: *mut pid_t, path: *const c_char, actions: Opaque, attributes: Opaque, arguments: Strings, environment: Strings) -> c_int;
    pidfd_spawn = c"pidfd_spawn" (process: *mut c_int, path: *const c_char, actions: Opaque, attributes: Opaque, arguments: Strings, environment: Strings) -> c_int;
    pidfd_spawnp = c"pidfd_spawnp" (process: *mut c_int, path: *const c_char, actions: Opaque, attributes: Opaque, arguments: Strings, environment: Strings) -> c_int;
    posix_spawn_file_actions_adddup2 = c"posix_spawn_file_actions_adddup2" (actions: Opaque, fd: c_int, to: c_int) -> c_int;

    execve = c"execve" (path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    execv = c"execv" (path: *const c_char, arguments: Strings) -> c_int;
    execvp = c"execvp" (path: *const c_char, arguments: Strings) -> c_int;
    execvpe = c"execvpe" (path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fexecve = c"fexecve" (fd: c_int, arguments: Strings, environment: Strings) -> c_int;
    execveat = c"execveat" (directory: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int;
    prctl = c"prctl" (option: c_int, second: usize, third: usize, fourth: usize, fifth: usize) -> c_int;
    unshare = c"unshare" (flags: c_int) -> c_int;
    setuid = c"setuid" (user: uid_t) -> c_int;
    seteuid = c"seteuid" (user: uid_t) -> c_int;
    setreuid = c"setreuid" (real: uid_t, effective: uid_t) -> c_int;
    setresuid = c"setresuid" (real: uid_t, effective: uid_t, saved: uid_t) -> c_int;
    setns = c"setns" (fd: c_int, kind: c_int) -> c_int;
    syscall = c"syscall" (number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;

    => jumped to only:
    dprintf = c"dprintf";
    dprintf_chk = c"__dprintf_chk";
    dlopen = c"dlopen";
    dlmopen = c"dlmopen";
    io_uring_queue_init = c"io_uring_queue_init";
    io_uring_queue_init_params = c"io_uring_queue_init_params";
    io_uring_queue_init_mem = c"io_uring_queue_init_mem";
    io_uring_queue_mmap = c"io_uring_queue_mmap";
    io_uring_setup = c"io_uring_setup";
}
