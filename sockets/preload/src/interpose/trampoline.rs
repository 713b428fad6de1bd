//! Functions that cannot be written in Rust: they take variable arguments, or return twice.
//!
//! Such a function leaves all arguments in place, in registers and on the stack. After calling a function of this
//! library, it jumps to the C library's function as its caller would have.

use super::catalogue::REAL;
use super::descriptors;
use super::errno;
use super::leaving;
use super::processes;
use super::processor;
use super::programs;
use super::raw;
use super::real::Real;
use super::receiving;
use super::sending;
use super::uring;
use libc::{c_char, c_int, c_long};

/// Defines functions that first call `before` with the first five arguments, and their return address as the sixth.
/// `before` returns the address to jump to.
macro_rules! jump {
    ($($symbol:literal $name:ident, $before:path;)*) => {
        $(
            /// # Safety
            /// As for the C library's function of this name.
            #[unsafe(naked)]
            #[unsafe(export_name = $symbol)]
            unsafe extern "C" fn $name() {
                processor::after!($before)
            }
        )*
    };
}

jump! {
    "dprintf" dprintf, before_dprintf;
    "__dprintf_chk" dprintf_chk, before_dprintf_chk;
    "syscall" syscall, before_syscall;
    "dlopen" dlopen, before_dlopen;
    "dlmopen" dlmopen, before_dlmopen;
    "io_uring_queue_init" io_uring_queue_init, uring::before_init;
    "io_uring_queue_init_params" io_uring_queue_init_params, uring::before_init_params;
    "io_uring_queue_init_mem" io_uring_queue_init_mem, uring::before_init_mem;
    "io_uring_queue_mmap" io_uring_queue_mmap, uring::before_mmap;
    "io_uring_setup" io_uring_setup, uring::before_setup;
}

/// Defines functions that take a list of strings of any length after the first one. `function` does the work; it
/// receives the first string, the address of those in registers and that of all others.
macro_rules! lists {
    ($($symbol:literal $name:ident, $function:path;)*) => {
        $(
            /// # Safety
            /// As for the C library's function of this name.
            #[unsafe(naked)]
            #[unsafe(export_name = $symbol)]
            unsafe extern "C" fn $name() {
                processor::listed!($function)
            }
        )*
    };
}

lists! {
    "execl" execl, programs::execl;
    "execlp" execlp, programs::execlp;
    "execle" execle, programs::execle;
}

extern "C" fn before_dprintf(fd: c_int) -> usize {
    printing(fd, &REAL.dprintf)
}

extern "C" fn before_dprintf_chk(fd: c_int) -> usize {
    printing(fd, &REAL.dprintf_chk)
}

/// The C library's function, or one that fails.
fn printing(fd: c_int, real: &Real) -> usize {
    match sending::before_sending(fd) {
        Ok(()) => real.address(),
        Err(error) => {
            errno::set(error.raw_os_error());
            failed as *const () as usize
        }
    }
}

extern "C" fn failed() -> c_int {
    -1
}

/// These functions are jumped to, because the loader checks the caller's address. A library loaded with a preference
/// for its own dependencies calls the C library and not this one.
extern "C" fn before_dlopen(name: *const c_char, flags: c_int) -> usize {
    // SAFETY: as for `dlopen`.
    unsafe { uring::before_loading(name) };
    if flags & libc::RTLD_DEEPBIND != 0 {
        leaving::by_the_kernel_alone();
    }
    REAL.dlopen.address()
}

/// A library in another namespace has another C library.
extern "C" fn before_dlmopen(namespace: c_long, name: *const c_char, flags: c_int) -> usize {
    // SAFETY: as for `dlmopen`.
    unsafe { uring::before_loading(name) };
    if namespace != libc::LM_ID_BASE || flags & libc::RTLD_DEEPBIND != 0 {
        leaving::by_the_kernel_alone();
    }
    REAL.dlmopen.address()
}

extern "C" fn before_syscall(number: c_long, first: usize) -> usize {
    raw::instead(number, first).unwrap_or_else(|| REAL.syscall.address())
}

/// # Safety
/// As for the C library's function of this name. The child returns from it on its parent's stack, and the parent
/// afterwards: so the return address is kept in a register.
#[unsafe(naked)]
#[unsafe(export_name = "vfork")]
unsafe extern "C" fn vfork() -> c_int {
    processor::vforked!(before_vfork, after_vfork)
}

extern "C" fn before_vfork() {
    processes::before_vfork();
}

/// Result of `vfork` in the parent, from the system's answer.
extern "C" fn after_vfork(answer: c_int) -> c_int {
    processes::after_vfork(answer);
    if answer > 0 {
        return answer;
    }
    errno::set(-answer);
    -1
}

macro_rules! alias {
    ($($symbol:literal $name:ident, $function:path;)*) => {
        $(
            /// # Safety
            /// As for the function it stands for.
            #[unsafe(naked)]
            #[unsafe(export_name = $symbol)]
            unsafe extern "C" fn $name() {
                processor::instead!($function)
            }
        )*
    };
}

alias! {
    "__write" write, sending::write;
    "__send" send, sending::send;
    "__read" read, receiving::read;
    "__close" close, descriptors::close;
    "__dup2" dup2, descriptors::dup2;
    "__fcntl" fcntl, descriptors::fcntl;
    "__connect" connect, descriptors::connect;
    "__sendmmsg" sendmmsg, sending::sendmmsg;
    "__backtrace_symbols_fd" backtrace_symbols_fd, sending::backtrace_symbols_fd;
    "_IO_fdopen" fdopen, descriptors::fdopen;
    "_IO_popen" popen, programs::popen;
    "__clone" other_clone, processes::clone;
    "__fork" other_fork, processes::fork;
    "__vfork" other_vfork, vfork;
}
